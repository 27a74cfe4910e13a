"""Decide: take in what is new, find a place for who is next, and plan how it is to be written. Pure."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

from fairlead.placement import Decision, Reason
from fairlead.request import Request
from fairlead.schedule import Policy, place, place_gang, preempt
from fairlead.serve.scheduler.events import helpful
from fairlead.serve.scheduler.fold import Fold
from fairlead.serve.scheduler.page import Counts
from fairlead.serve.scheduler.queue import Queue
from fairlead.serve.scheduler.reading import Unreadable
from fairlead.serve.scheduler.seen import Pod
from fairlead.serve.scheduler.tell import Sayings
from fairlead.serve.scheduler.writes import Plan, claim_name, mapped


class Desk:
    """What is known, who waits, and what is to be said."""

    def __init__(self, fold: Fold, policy: Policy, *, own_claims: bool) -> None:
        self.fold = fold
        self.queue = Queue()
        self.sayings = Sayings()
        self.counts = Counts()
        self._policy = policy
        self._own_claims = own_claims
        self._first_seen: dict[str, float] = {}
        self._refused: dict[Hashable, tuple[int, Decision]] = {}
        """By shape: how many changes the cluster had seen when it was refused."""
        self._clearing: dict[str, tuple[str, ...]] = {}
        """Who waits until others are gone: they were asked to go for it."""
        self._out: list[Pod] = []
        self._least = -1, 0

    def hear(self, now: float) -> None:
        """Take in what is new."""
        news = self.fold.settle()
        for uid in news.gone:
            self._leave(uid)
        for each in news.came:
            self._first_seen.setdefault(each.id, now)
            if isinstance(each, Unreadable):
                self.queue.remove(each.id)
                self.sayings.say(each.id, each.reason)
                self.counts.decisions["refused", Reason.INVALID.value] += 1
            else:
                self.queue.add(each, now)
        if news.events:
            self.queue.wake(news.events)

    def decide(self, now: float) -> list[Plan]:
        """Find a place for those who are next; return plans for them, all of which belong together."""
        members = self.queue.pop()
        if not members:
            return []
        decisions = self._decided(members)
        placed = [each for each in decisions if each.placement is not None]
        refused = [each for each in decisions if each.placement is None]
        self.fold.assume(each.placement for each in placed if each.placement is not None)
        if refused:
            self._refuse(refused, now)
            self._make_room(refused[0].request)
        for each in placed:
            self.sayings.drop(each.request.id)
            self.counts.decisions["placed", ""] += 1
        return [self._plan(each) for each in placed]

    def evictions(self) -> list[Pod]:
        """Take out who must go so that the more important find a place."""
        found, self._out = self._out, []
        return found

    def done(self, uid: str, now: float) -> None:
        """Note that a pod is bound."""
        self.counts.waiting.note(now - self._first_seen.get(uid, now))
        self.fold.confirm(uid)
        self._leave(uid)

    def failed(self, uid: str, now: float) -> None:
        """Note that a decision could not be carried out."""
        self.counts.decisions["failed", "write"] += 1
        self.queue.failed(uid, now)
        self.fold.forget(uid)
        if not self.fold.waits(uid):
            self._leave(uid)

    def _leave(self, uid: str) -> None:
        self.queue.remove(uid)
        self.sayings.forget(uid)
        self._first_seen.pop(uid, None)
        self._clearing.pop(uid, None)

    def _decided(self, members: Sequence[Request]) -> list[Decision]:
        cluster, first = self.fold.cluster, members[0]
        if first.gang is not None:
            return place_gang(cluster, members, self._policy)
        known = None if first.social else self._refused.get(first.shape)
        if known is not None and known[0] == cluster.changes:
            return [replace(known[1], request=first)]  # nothing has changed since one like it was refused
        decision = place(cluster, first, self._policy)
        if decision.placement is None and not first.social:
            self._refused = {key: each for key, each in self._refused.items() if each[0] == cluster.changes}
            self._refused[first.shape] = (cluster.changes, decision)
        return [decision]

    def _refuse(self, refused: Sequence[Decision], now: float) -> None:
        reasons = [rejection for each in refused for rejection in each.rejections]
        self.queue.park([each.request for each in refused], helpful(reasons), now)
        for each in refused:
            self.sayings.say(each.request.id, each.sentence())
            main = max(each.rejections, key=lambda one: one.count, default=None)
            self.counts.decisions["refused", main.reason.value if main else ""] += 1

    def _make_room(self, request: Request) -> None:
        """Ask those of lower priority to go, once; the place is decided when they are gone."""
        cluster = self.fold.cluster
        if request.gang is not None or not request.preempts or request.priority <= self._lowest():
            return
        if any(cluster.placement(each) is not None for each in self._clearing.get(request.id, ())):
            return
        theirs = {each for uid, found in self._clearing.items() if uid != request.id for each in found}
        decision = preempt(cluster, request, self._policy, spared=theirs)
        pods = [self.fold.pod(each) for each in decision.victims]
        self._clearing[request.id] = decision.victims
        self._out += [pod for pod in pods if pod is not None and not pod.metadata.deletion_timestamp]

    def _lowest(self) -> int:
        """Return the lowest priority of all that is placed; worked out once for a state of the cluster."""
        cluster = self.fold.cluster
        if self._least[0] != cluster.changes:
            found = min((each.request.priority for each in cluster.placements()), default=0)
            self._least = cluster.changes, found
        return self._least[1]

    def _plan(self, decision: Decision) -> Plan:
        placement, pod = decision.placement, self.fold.pod(decision.request.id)
        assert placement is not None, "only what is placed is planned"
        assert pod is not None, "who waits is there"
        claims = self.fold.claims_of(pod)
        own = self._own_claims and bool(placement.shares) and not claims and bool(mapped(pod))
        made = self.fold.claim(pod.metadata.namespace, claim_name(pod)) if own else None
        ordered = [claims[each.name] for each in pod.spec.resource_claims if each.name in claims]
        return Plan(pod, placement, tuple(ordered), own, made)

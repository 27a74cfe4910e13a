"""Preemption in a live cluster: choose victims, reserve the places that they leave, and evict them. Pure.

    refused -> plan: victims, reservations -> evictions -> victims gone -> a new decision for the preemptor

Pods that are already leaving count as gone: no pod is evicted where waiting is enough. Victims are pods that
the API server shows as bound. A lower-priority pod with a reserved place, or one that waits for its volumes,
loses that place before any running pod is evicted.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.nominations import Nomination
from fairlead.cache.types import LivePod
from fairlead.placement import Decision, DisruptionBudget, Reason
from fairlead.request import Request
from fairlead.schedule import Policy, place_gang, preempt
from fairlead.schedule.filter.budgets import budgets_after

PATIENCE: Final = 30.0
"""Seconds that victims have beyond their grace period before the reservation ends."""
UNNEEDED: Final = "no pod needs its eviction any more"
"""Why a pod was not evicted although nothing prevents its eviction."""
_RETRY_EVICTION: Final = 5.0
"""Seconds for which a pod that could not be evicted is not chosen as a victim again."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Evictions that make room for a pod or a gang, and the nodes to which the preemptors are nominated."""

    nominated: tuple[tuple[LivePod, str], ...]
    """Pods with the names of their nodes."""
    victims: tuple[LivePod, ...] = ()
    displaced: tuple[str, ...] = ()
    """The ids of lower-priority pods that lose a reserved place to the preemptors."""


class Preemptions:
    """The victims that are being evicted, and the preemptors that they are evicted for."""

    def __init__(self, cache: SchedulerCache, policy: Policy) -> None:
        self._cache = cache
        self._policy = policy
        self._evicting: dict[str, frozenset[str]] = {}
        """The ids of the preemptors, by victim."""
        self._stuck: set[str] = set()
        """Victims that are being deleted and did not end in time."""
        self._unevictable: dict[str, float] = {}
        """Pods that could not be evicted, with the time until which they are not chosen again."""
        self._failed_shapes: set[Hashable] = set()
        """Shapes and priorities for which no victims exist, in one state of the cluster."""
        self._failed_at = (-1, -1)
        self._lowest_priority = -1, 0

    def drop_nominations(self) -> set[str]:
        """End every reservation, as another replica leads now; return the ids of the preemptors."""
        waiting = set(self._cache.nominations)
        for uid in waiting:
            self._cache.nominations.give_up(uid)
        self._evicting.clear()
        return waiting

    def may_preempt(self, requests: Iterable[Request]) -> bool:
        """Say whether one of these requests may preempt and has a higher priority than some placed pod."""
        return any(request.preempts and request.priority > self._lowest() for request in requests)

    def plan(
        self, refused: Sequence[Request], now: float, *, nominated: bool = False
    ) -> tuple[list[Decision], Preemption | None]:
        """Choose victims for a pod, or for all of a gang, and reserve the places that they leave.

        Pods that were `nominated` before may only wait for claims that outlive their victims. Return the
        decisions of the search too: a refusal may name a disruption budget.
        """
        first = refused[0]
        shape = None if first.gang else first.signature
        if not (nominated or self.may_preempt(refused)) or self._has_failed(shape):
            return [], None
        decisions = self.search(refused, now)
        if not any(decision.placed for decision in decisions):
            self._failed_shapes |= set() if self.blocked(refused) else {shape} - {None}
            return decisions, None
        return decisions, self._reserve(decisions, now)

    def blocked(self, requests: Iterable[Request]) -> bool:
        """Say whether a pod that is being bound may be a victim as soon as the API shows it as bound."""
        placed = (self._cache.cluster.placement(uid) for uid in self._cache.being_bound)
        lowest = min((each.request.priority for each in placed if each is not None), default=None)
        return lowest is not None and any(
            request.preempts and request.priority > lowest for request in requests
        )

    def is_needed(self, victim: str) -> bool:
        """Say whether a preemptor still waits for the eviction of a pod."""
        nominations = (self._cache.nominations.of(uid) for uid in self._evicting.get(victim, ()))
        return any(each is not None and victim in each.awaited for each in nominations)

    def preemptors_of(self, victim: str) -> list[LivePod]:
        """Return the preemptor that a pod is evicted for; of a gang, the first pod."""
        pods = [self._cache.pod(uid) for uid in sorted(self._evicting.get(victim, ()))]
        return [pod for pod in pods if pod is not None][:1]

    def victims_of(self, uid: str) -> list[LivePod]:
        """Return the pods that a preemptor waits for and that still exist."""
        nomination = self._cache.nominations.of(uid)
        pods = [self._cache.pod(each) for each in sorted(nomination.awaited)] if nomination else []
        return [pod for pod in pods if pod is not None and pod.spec.node_name]

    def record_eviction(self, victim: str, problem: str, now: float) -> frozenset[str]:
        """Record the result of an eviction; return the ids of the preemptors that need a new decision.

        Where one victim stays, the other victims of the same preemptors need not be evicted.
        """
        if not problem:
            return frozenset()
        if problem == UNNEEDED:
            self._evicting.pop(victim, None)
            return frozenset()
        self._unevictable[victim] = now + _RETRY_EVICTION
        preemptors = self._evicting.pop(victim, frozenset())
        self._evicting = {uid: by for uid, by in self._evicting.items() if by.isdisjoint(preemptors)}
        for uid in preemptors:
            self._cache.nominations.give_up(uid)
        return preemptors

    def due_preemptors(self, now: float) -> set[str]:
        """Return the ids of preemptors that need a new decision: a victim is gone, or their time is over."""
        cluster, nominations = self._cache.cluster, self._cache.nominations
        self._evicting = {uid: by for uid, by in self._evicting.items() if cluster.placement(uid)}
        self._stuck = {uid for uid in self._stuck if cluster.placement(uid)}
        late = nominations.expired(now)
        for uid in late:
            nomination = nominations.of(uid)
            self._stuck |= {
                each for each in (nomination.awaited if nomination else ()) if cluster.placement(each)
            }
        for uid in late:
            self._cache.nominations.give_up(uid)
        return {*late, *nominations.unblocked(cluster.placement)}

    def _lowest(self) -> int:
        """Return the lowest priority of all placed pods; computed once for a state of the cluster."""
        cluster = self._cache.cluster
        if self._lowest_priority[0] != cluster.changes:
            lowest = min((placement.request.priority for placement in cluster.placements()), default=0)
            self._lowest_priority = cluster.changes, lowest
        return self._lowest_priority[1]

    def _has_failed(self, shape: Hashable) -> bool:
        """Say whether no victims exist for pods of this shape, and nothing has changed since."""
        state = self._cache.cluster.changes, self._cache.disruptions.revision
        if self._failed_at != state:
            self._failed_at = state
            self._failed_shapes.clear()
        return shape in self._failed_shapes

    def search(self, refused: Sequence[Request], now: float) -> list[Decision]:
        """Decide with preemption, as if the leaving pods were gone; change nothing."""
        cluster = self._cache.cluster
        mark = cluster.checkpoint()
        cluster.limit_disruptions(self._budgets())
        for uid in self._leaving():
            cluster.release(uid)
        spared = self._spared(now)
        if refused[0].gang is None:
            decisions = [preempt(cluster, refused[0], self._policy, spared=spared)]
        else:
            decisions = place_gang(cluster, refused, self._policy, preemption=True, spared=spared)
        cluster.rollback(mark)
        return decisions

    def _leaving(self) -> set[str]:
        """Return the ids of placements that end soon: evicted, deleted, or claims of deleted pods."""
        evicting = {uid for uid in self._evicting if self._cache.cluster.placement(uid) is not None}
        return (self._cache.leaving() | evicting) - self._stuck

    def _spared(self, now: float) -> Collection[str]:
        self._unevictable = {uid: until for uid, until in self._unevictable.items() if until > now}
        return self._cache.being_bound | self._unevictable.keys() | self._stuck

    def _budgets(self) -> list[DisruptionBudget]:
        """Return the disruption budgets less the evictions that their status does not show yet."""
        cluster, leaving = self._cache.cluster, self._cache.disruptions.leaving
        placed = [cluster.placement(uid) for uid in self._evicting.keys() - leaving]
        return list(
            budgets_after(self._cache.disruptions.budgets, [each for each in placed if each is not None])
        )

    def _reserve(self, decisions: Sequence[Decision], now: float) -> Preemption:
        cache = self._cache
        placed = [each.placement for each in decisions if each.placement is not None]
        victims = list(dict.fromkeys(uid for each in decisions for uid in each.victims))
        nodes = {each.node for each in placed}
        leaving = {uid for uid in self._leaving() if _node(cache, uid) in nodes}
        displaced = tuple(uid for uid in victims if cache.nominations.of(uid) is not None)
        for uid in victims:
            cache.requeue_waiting_for_volumes(uid)
            cache.nominations.give_up(uid)
        bound = [pod for uid in victims if (pod := cache.pod(uid)) is not None and pod.spec.node_name]
        to_evict = [pod for pod in bound if not pod.metadata.deletion_timestamp]
        preemptors = frozenset(each.request.id for each in placed)
        self._evicting |= {pod.metadata.uid: preemptors for pod in to_evict}
        awaited = frozenset(leaving | set(victims))
        until = (
            now
            + PATIENCE
            + max((_grace(pod) for pod in map(cache.pod, awaited) if pod is not None), default=0)
        )
        for placement in placed:
            cache.nominations.reserve(Nomination(placement, awaited, until))
        pods = [(cache.pod(each.request.id), each.node) for each in placed]
        nominated = tuple((pod, node) for pod, node in pods if pod is not None)
        return Preemption(nominated, tuple(to_evict), displaced)


def names_budget(decision: Decision) -> bool:
    """Say whether a refusal names a disruption budget."""
    return not decision.placed and any(rejection.reason is Reason.BUDGET for rejection in decision.rejections)


def _node(cache: SchedulerCache, uid: str) -> str:
    placement = cache.cluster.placement(uid)
    return placement.node if placement is not None else ""


def _grace(pod: LivePod) -> int:
    """Return the seconds between a pod's eviction and its end."""
    return pod.metadata.deletion_grace_period_seconds or pod.spec.termination_grace_period_seconds

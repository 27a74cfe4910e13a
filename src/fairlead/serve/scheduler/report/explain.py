"""Say of a pod why it waits, from what the scheduler remembers of it: nothing is listed, nothing is changed.

The sentence and what would let the pod fit are worked out together when the question comes, for one state
of the cluster. That takes a while on a large cluster, and nothing is decided meanwhile; so the answer is
remembered for some seconds, and the driver gives it no more than a tenth of the time. Where that time is
spent, the answer is the decision under which the pod waits, with its age and without advice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead import keys
from fairlead.cache.types import LivePod
from fairlead.placement import Decision
from fairlead.request import Request
from fairlead.schedule import decide, place_gang, with_suggestions
from fairlead.serve.scheduler.cycle.preemption import names_budget
from fairlead.serve.scheduler.cycle.queue import QueuedGroup
from fairlead.serve.scheduler.cycle.scheduling import LastDecision, SchedulingCycle
from fairlead.serve.scheduler.events import Explain
from fairlead.serve.scheduler.report.conditions import shorten, visible_names
from fairlead.settings import Address

PATH: Final = "/explain/"
"""Before `namespace/name/uid`."""
_ANSWER_SECONDS: Final = 10.0
"""Seconds for which an answer is remembered: what would fit changes with every pod that comes or goes."""
_MAX_ANSWERS: Final = 256
"""Pods whose answers are remembered."""
_FITS: Final = "it fits as the cluster is now, and is tried again"


@dataclass(frozen=True, slots=True)
class _CurrentReasons:
    """Why a pod has no place and what would let it fit, both as of one moment."""

    since: Decision
    """The decision under which the pod waits."""
    verdict: LastDecision
    note: str = ""


class Explainer:
    """Answers for one replica."""

    def __init__(self, cycle: SchedulingCycle, me: str, scheduler: str) -> None:
        self._cycle = cycle
        self._identity = {"leader": me, "scheduler": scheduler}
        self._answers: dict[str, _CurrentReasons] = {}
        self.searches = 0
        """Answers that were worked out."""

    def answer(self, asked: Explain, now: float) -> dict[str, Any]:
        """Return what is known of a pod; its state is `unknown` where it does not wait here.

        The uid shows that the asker may read the pod. Where it is another's, the pod is as unknown as one
        that does not exist.
        """
        pod = self._cycle.cache.pod(asked.uid)
        mine = pod is not None and pod.key == (asked.namespace, asked.name)
        standing = self._state_of(pod, asked.rest, now) if pod is not None and mine else None
        return {**self._identity, **(standing or _unknown_pod(asked.namespace, asked.name))}

    def _state_of(self, pod: LivePod, rest: float, now: float) -> dict[str, Any] | None:
        uid = pod.metadata.uid
        verdict, group = self._cycle.last_decisions.get(uid), self._cycle.queue.group_of(uid)
        if not self._cycle.cache.waits(uid):
            if verdict is None or not verdict.decision.placed:
                return None
            if uid in self._cycle.cache.waiting_for_volumes:
                return {
                    **_decision_document(verdict, "waiting-for-volumes", now),
                    "sentence": self._cycle.reporter.text(uid),
                }
            return _decision_document(verdict, "in-flight", now)
        if group is None:
            return _undecided(pod, "unreadable", self._cycle.reporter.text(uid))
        if verdict is None:
            return {
                **_undecided(pod, "active", f"{pod.metadata.name} is in the active queue"),
                **_retry_fields(group, now),
            }
        clearing = visible_names(pod.metadata.namespace, self._cycle.pending_victims(uid))
        judged = {**self._refusal(verdict, group, rest, now), "pending_victims": clearing}
        if self._cycle.cache.nominations.of(uid) is None:
            return judged
        return {**judged, "state": "nominated", "sentence": shorten(self._cycle.reporter.text(uid))}

    def _refusal(self, verdict: LastDecision, group: QueuedGroup, rest: float, now: float) -> dict[str, Any]:
        state = group.state
        if verdict.decision.placed:
            return {**_failed_binding(verdict, now), "state": state, **_retry_fields(group, now)}
        current = self._current(verdict, group, rest, now)
        changes = [change.to_json() for change in current.verdict.decision.changes]
        told = _decision_document(current.verdict, state, now)
        return {**told, "changes": changes, "note": current.note, **_retry_fields(group, now)}

    def _current(self, verdict: LastDecision, group: QueuedGroup, rest: float, now: float) -> _CurrentReasons:
        """Return the refusal as the cluster is now; the decision that the pod waits under, in a rest."""
        uid = verdict.decision.request.id
        known = self._answers.get(uid)
        if known is not None and known.since is verdict.decision and now - known.verdict.at < _ANSWER_SECONDS:
            return known
        if rest > 0:
            note = f"what would let it fit was not looked for: ask again in {rest:.0f} s"
            return _CurrentReasons(verdict.decision, verdict, note)
        self.searches += 1
        decision = self._decide(verdict.decision.request, group, now)
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        fits = decision.placed
        found = _CurrentReasons(
            verdict.decision, verdict if fits else LastDecision(decision, now), _FITS if fits else ""
        )
        if not fits:
            self._answers[uid] = found
        return found

    def _decide(self, request: Request, group: QueuedGroup, now: float) -> Decision:
        """Decide for a request, with its gang, as the cluster is now; nothing is changed."""
        cluster, policy = self._cycle.cache.cluster, self._cycle.policy
        members = list(group.members.values())
        if request.gang is None:
            own = decide(cluster, request, policy)
        else:
            mark = cluster.checkpoint()
            own = _decision_for(request, place_gang(cluster, members, policy))
            cluster.rollback(mark)
        if not own.placed and self._cycle.preemptions.may_preempt(members):
            found = _decision_for(request, self._cycle.preemptions.search(members, now))
            own = found if names_budget(found) else own
        return with_suggestions(cluster, own, policy)


def _decision_for(request: Request, decisions: Sequence[Decision]) -> Decision:
    return next(each for each in decisions if each.request.id == request.id)


def lease_annotations(
    where: Address, scheduler: str, environ: Mapping[str, str], host: str
) -> dict[str, str]:
    """Return what the Lease says of its holder, so that it can be asked; nothing stays of the one before."""
    name, space = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    reachable = bool(name and space) and not where.loopback
    if where.host in ("", "::", "0.0.0.0"):  # noqa: S104 - everywhere is no address to go to
        where = Address(environ.get("POD_IP") or host, where.port)
    return {
        keys.LEADS_FOR: scheduler,
        keys.LEADER_ADDRESS: str(where),
        keys.LEADER_POD: f"{space}/{name}:{where.port}" if reachable else "",
    }


def _unknown_pod(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "state": "unknown"}


def _undecided(pod: LivePod, state: str, sentence: str) -> dict[str, Any]:
    """Return the fields of a decision that was not made."""
    nobody = Decision(Request(pod.metadata.name, pod.metadata.namespace), "").to_json()
    return {**nobody, "state": state, "sentence": shorten(sentence)}


def _decision_document(verdict: LastDecision, state: str, now: float) -> dict[str, Any]:
    decision = replace(verdict.decision, changes=()).to_json()
    said = shorten(decision["sentence"])
    return {**decision, "sentence": said, "state": state, "decided_seconds_ago": round(now - verdict.at, 1)}


def _failed_binding(verdict: LastDecision, now: float) -> dict[str, Any]:
    """Return a decision that could not be carried out: for who waits, it is none."""
    told = _decision_document(verdict, "backoff", now)
    sentence = f"{told['sentence']}, but that could not be written; it is tried again"
    return {**told, "placed": False, "node": None, "shares": [], "sentence": sentence}


def _retry_fields(group: QueuedGroup, now: float) -> dict[str, Any]:
    if group.hints is None:
        return {"queueing_hints": [], "retry_in_seconds": None}
    left = round(max(0.0, group.until - now), 1)
    return {"queueing_hints": sorted(hint.value for hint in group.hints), "retry_in_seconds": left}

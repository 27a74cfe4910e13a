"""Explain why a pod waits, from the state of the scheduler: nothing is listed, nothing is changed.

The sentence and the changes that would let the pod fit are computed together when a client asks, for one
state of the cluster. On a large cluster that takes a while, and nothing is decided meanwhile. So an answer is
kept for some seconds, and the driver spends no more than a tenth of its time on answers. Where that time is
spent, the answer is the pod's last decision, with its age and without suggested changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

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
from fairlead.units import pluralize

PATH: Final = "/explain/"
"""Before `namespace/name/uid`."""
_ANSWER_SECONDS: Final = 10.0
"""Seconds for which an answer is kept: what would fit changes with every pod that is created or deleted."""
_MAX_ANSWERS: Final = 256
"""The most answers that are kept."""
_FITS: Final = "it fits as the cluster is now, and is tried again"


@dataclass(frozen=True, slots=True)
class _CurrentReasons:
    """Why a pod has no place and what would let it fit, both for one state of the cluster."""

    since: Decision
    """The decision under which the pod waits."""
    verdict: LastDecision
    note: str = ""


class UseExplainer(Protocol):
    """Explains the measured use of pods."""

    def describe(self, uid: str) -> dict[str, Any]:
        """Return the fields about the need of a pod."""

    def note(self, uid: str) -> str:
        """Return the need of a pod in words."""


class Explainer:
    """Answers for one replica."""

    def __init__(
        self, cycle: SchedulingCycle, me: str, scheduler: str, use: UseExplainer | None = None
    ) -> None:
        self._cycle = cycle
        self._use = use
        self._identity = {"leader": me, "scheduler": scheduler}
        self._answers: dict[str, _CurrentReasons] = {}
        self.searches = 0
        """Answers that were computed."""

    def answer(self, event: Explain, now: float) -> dict[str, Any]:
        """Return the explanation of a pod; its state is `unknown` where it is not pending here.

        Of a bound pod only its need is explained, where the scheduler goes by measured use.

        The uid shows that the client may read the pod. Where the uid is another pod's, the answer is the same
        as for a pod that does not exist.
        """
        pod = self._cycle.cache.pod(event.uid)
        same = pod is not None and pod.key == (event.namespace, event.name)
        state = self._state_of(pod, event.rest, now) if pod is not None and same else None
        if state is None and pod is not None and same and pod.spec.node_name and self._goes_by_use(event.uid):
            state = _undecided(pod, "bound", f"{pod.metadata.name} is bound")
        if state is None:
            return {**self._identity, **_unknown_pod(event.namespace, event.name)}
        return {**self._identity, **state, **self._about_use(event.uid, str(state.get("note", "")))}

    def _goes_by_use(self, uid: str) -> bool:
        return self._use is not None and bool(self._use.note(uid))

    def _about_use(self, uid: str, note: str) -> dict[str, Any]:
        """Return the fields about a pod's need, and its note with the need in words."""
        if self._use is None or not (text := self._use.note(uid)):
            return {}
        return {**self._use.describe(uid), "note": f"{note}; {text}" if note else text}

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
        victims = visible_names(pod.metadata.namespace, self._cycle.pending_victims(uid))
        refusal = {**self._refusal(verdict, group, rest, now), "pending_victims": victims}
        if self._cycle.cache.nominations.of(uid) is None:
            return refusal
        return {**refusal, "state": "nominated", "sentence": shorten(self._cycle.reporter.text(uid))}

    def _refusal(self, verdict: LastDecision, group: QueuedGroup, rest: float, now: float) -> dict[str, Any]:
        state = group.state
        if verdict.decision.placed:
            return {**_failed_binding(verdict, now), "state": state, **_retry_fields(group, now)}
        current = self._current(verdict, group, rest, now)
        changes = [change.to_json() for change in current.verdict.decision.changes]
        document = _decision_document(current.verdict, state, now)
        notes = filter(None, (current.note, _unreadable_note(len(self._cycle.cache.read_errors))))
        return {**document, "changes": changes, "note": "; ".join(notes), **_retry_fields(group, now)}

    def _current(self, verdict: LastDecision, group: QueuedGroup, rest: float, now: float) -> _CurrentReasons:
        """Return the refusal as the cluster is now; during a `rest`, the pod's last decision."""
        uid = verdict.decision.request.id
        known = self._answers.get(uid)
        if known is not None and known.since is verdict.decision and now - known.verdict.at < _ANSWER_SECONDS:
            return known
        if rest > 0:
            note = f"what would let it fit was not computed: ask again in {rest:.0f} s"
            return _CurrentReasons(verdict.decision, verdict, note)
        self.searches += 1
        decision = self._decide(verdict.decision.request, group, now)
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        fits = decision.placed
        reasons = _CurrentReasons(
            verdict.decision, verdict if fits else LastDecision(decision, now), _FITS if fits else ""
        )
        if not fits:
            self._answers[uid] = reasons
        return reasons

    def _decide(self, request: Request, group: QueuedGroup, now: float) -> Decision:
        """Decide for a request, with its gang, as the cluster is now; change nothing."""
        cluster, policy = self._cycle.cache.cluster, self._cycle.policy
        members = list(group.members.values())
        if request.gang is None:
            own = decide(cluster, request, policy)
        else:
            mark = cluster.checkpoint()
            own = _decision_for(request, place_gang(cluster, members, policy))
            cluster.rollback(mark)
        if not own.placed and self._cycle.preemptions.may_preempt(members):
            preempted = _decision_for(request, self._cycle.preemptions.search(members, now))
            own = preempted if names_budget(preempted) else own
        return with_suggestions(cluster, own, policy)


def _decision_for(request: Request, decisions: Sequence[Decision]) -> Decision:
    return next(each for each in decisions if each.request.id == request.id)


def lease_annotations(
    where: Address, scheduler: str, environ: Mapping[str, str], host: str
) -> dict[str, str]:
    """Return the annotations of the Lease that show where its holder answers; each replaces the last one."""
    name, space = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    reachable = bool(name and space) and not where.loopback
    if where.host in ("", "::", "0.0.0.0"):  # noqa: S104 - a client cannot connect to a wildcard
        where = Address(environ.get("POD_IP") or host, where.port)
    return {
        keys.LEADS_FOR: scheduler,
        keys.LEADER_ADDRESS: str(where),
        keys.LEADER_POD: f"{space}/{name}:{where.port}" if reachable else "",
    }


def _unknown_pod(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "state": "unknown"}


def _undecided(pod: LivePod, state: str, sentence: str) -> dict[str, Any]:
    """Return the document of a pod without a decision."""
    empty = Decision(Request(pod.metadata.name, pod.metadata.namespace), "").to_json()
    return {**empty, "state": state, "sentence": shorten(sentence)}


def _decision_document(verdict: LastDecision, state: str, now: float) -> dict[str, Any]:
    decision = replace(verdict.decision, changes=()).to_json()
    sentence = shorten(decision["sentence"])
    age = round(now - verdict.at, 1)
    return {**decision, "sentence": sentence, "state": state, "decided_seconds_ago": age}


def _unreadable_note(nodes: int) -> str:
    """Return how many nodes take no pods because they cannot be read; which ones is for their operator."""
    return f"{pluralize(nodes, 'node')} cannot be read: no pods are placed there" if nodes else ""


def _failed_binding(verdict: LastDecision, now: float) -> dict[str, Any]:
    """Return the document of a decision whose binding failed: the pod is pending, without a place."""
    document = _decision_document(verdict, "backoff", now)
    sentence = f"{document['sentence']}, but its binding failed and is tried again"
    return {**document, "placed": False, "node": None, "shares": [], "sentence": sentence}


def _retry_fields(group: QueuedGroup, now: float) -> dict[str, Any]:
    if group.hints is None:
        return {"queueing_hints": [], "retry_in_seconds": None}
    left = round(max(0.0, group.until - now), 1)
    return {"queueing_hints": sorted(hint.value for hint in group.hints), "retry_in_seconds": left}

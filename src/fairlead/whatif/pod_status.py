"""How a pod of a live cluster stands: where it is, or why it is nowhere yet. Pure.

What is told has the fields of a decision, so that whoever reads those reads this, and a few more.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.keys import PLACEMENT
from fairlead.manifest.node.holdings import given
from fairlead.manifest.types.live import SCHEDULED, LiveClaim, LivePod
from fairlead.placement import Decision, DeviceShare, Placement, parse_shares
from fairlead.request import Request

PodReport = dict[str, Any]


def final_status(pod: LivePod, claims: Iterable[LiveClaim]) -> PodReport | None:
    """Return how a pod stands that waits for nobody's decision; None where it does."""
    name = pod.metadata.name
    if pod.spec.node_name:
        return _placed(pod, claims)
    if pod.ended:
        return _nowhere(pod, "ended", f"{name} has ended ({pod.status.phase}) and never had a place")
    if pod.metadata.deletion_timestamp:
        return _nowhere(pod, "leaving", f"{name} is being deleted and gets no place")
    if pod.spec.scheduling_gates:
        gates = ", ".join(scheduling_gate.name for scheduling_gate in pod.spec.scheduling_gates)
        return _nowhere(pod, "gated", f"{name} is held back by its scheduling gates: {gates}")
    return None


def status_from_condition(pod: LivePod, note: str) -> PodReport:
    """Return what its condition says of a pod that waits; `note` is why nobody else was asked."""
    said = pod.condition(SCHEDULED).message
    whose = pod.spec.scheduler_name or "default-scheduler"
    sentence = said or f"{pod.metadata.name} waits for the scheduler {whose}, which has said nothing of it"
    return {**_nowhere(pod, "waiting", sentence), "note": note}


def status_from_scheduler(pod: LivePod, answer: Mapping[str, Any]) -> PodReport:
    """Return what the pod's scheduler says of it."""
    bare = _nowhere(pod, "waiting", "")
    known = {key: answer[key] for key in bare.keys() & answer.keys() if _alike(answer[key], bare[key])}
    return {**bare, **known, "source": "scheduler"}


def status_from_decision(pod: LivePod, decision: Mapping[str, Any], note: str) -> PodReport:
    """Return what was decided here for a pod that waits: it may go elsewhere in the end."""
    return {**_nowhere(pod, "waiting", ""), **decision, "source": "here", "note": note}


def shares_of(pod: LivePod, claims: Iterable[LiveClaim]) -> tuple[DeviceShare, ...]:
    """Return what a bound pod holds: as its claims were given it, else as its binding says."""
    results = [result for claim in claims for result in claim.results if result.pool == pod.spec.node_name]
    if results:
        return tuple(given(result) for result in results)
    return parse_shares(pod.metadata.annotations.get(PLACEMENT, "[]")) or ()


def _alike(told: Any, usual: Any) -> bool:
    """Say whether a field that came from elsewhere is of the kind that it should be."""
    number = isinstance(told, int | float) and not isinstance(told, bool)
    return isinstance(told, type(usual)) or told is None or (number and (usual is None or usual == 0))


def _placed(pod: LivePod, claims: Iterable[LiveClaim]) -> PodReport:
    request = Request(pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
    placement = Placement(request, pod.spec.node_name, shares_of(pod, claims))
    over = f"has ended ({pod.status.phase}) on" if pod.ended else "is on"
    sentence = f"{pod.metadata.name} {over} {placement.where()}"
    state = "ended" if pod.ended else "bound"
    return {**_told(pod, Decision(request, "", placement)), "state": state, "sentence": sentence}


def _nowhere(pod: LivePod, state: str, sentence: str) -> PodReport:
    request = Request(pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
    return {**_told(pod, Decision(request, "")), "state": state, "sentence": sentence}


def _told(pod: LivePod, decision: Decision) -> PodReport:
    """Return the fields of a decision, with what the pod itself says."""
    told = pod.condition(SCHEDULED)
    return {
        **decision.to_json(),
        "state": "",
        "scheduler": pod.spec.scheduler_name,
        "since": (told.last_transition_time if decision.placed else "") or pod.metadata.creation_timestamp,
        "source": "pod",
        "condition": told.message,
        "queueing_hints": [],
        "retry_in_seconds": None,
        "decided_seconds_ago": None,
        "pending_victims": [],
        "note": "",
    }

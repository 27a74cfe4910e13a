"""The scheduling status of a pod of a live cluster: its node, or why it has none yet. Pure.

A report has the fields of a decision, so that readers of decisions can read it, and a few more.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.keys import BY_USE, PLACEMENT
from fairlead.manifest.node.claimed_share import allocated_share
from fairlead.manifest.types.live import SCHEDULED, LiveClaim, LivePod
from fairlead.placement import Decision, Placement, parse_shares
from fairlead.request import Request
from fairlead.share import DeviceShare

PodReport = dict[str, Any]


def final_status(pod: LivePod, claims: Iterable[LiveClaim]) -> PodReport | None:
    """Return the report of a pod that needs no decision; None: it is pending."""
    name = pod.metadata.name
    if pod.spec.node_name:
        return _placed(pod, claims)
    if pod.ended:
        return _unplaced(pod, "ended", f"{name} has ended ({pod.status.phase}) and never had a place")
    if pod.metadata.deletion_timestamp:
        return _unplaced(pod, "leaving", f"{name} is being deleted and gets no place")
    if pod.spec.scheduling_gates:
        gates = ", ".join(scheduling_gate.name for scheduling_gate in pod.spec.scheduling_gates)
        return _unplaced(pod, "gated", f"{name} is held back by its scheduling gates: {gates}")
    return None


def placed_by_use(pod: LivePod, claims: Iterable[LiveClaim]) -> bool:
    """Say whether our scheduler placed a bound pod by measured use: then it knows what the pod counts for."""
    marked = any(claim.metadata.annotations.get(BY_USE) == "1" for claim in claims)
    return marked and bool(pod.spec.node_name) and not pod.ended


def with_need(report: PodReport, answer: Mapping[str, Any]) -> PodReport:
    """Return the report of a bound pod with the need that its scheduler knows."""
    known = {key: answer[key] for key in ("need", "telemetry") if isinstance(answer.get(key), dict)}
    return {**report, **known, "note": str(answer.get("note", ""))}


def status_from_condition(pod: LivePod, note: str) -> PodReport:
    """Return the report of a pending pod by its condition; `note` says why no other source was used."""
    message = pod.condition(SCHEDULED).message
    whose = pod.spec.scheduler_name or "default-scheduler"
    sentence = message or f"{pod.metadata.name} waits for the scheduler {whose}, which has not reported on it"
    return {**_unplaced(pod, "waiting", sentence), "note": note}


def status_from_scheduler(pod: LivePod, answer: Mapping[str, Any]) -> PodReport:
    """Return the report of a pending pod by its scheduler."""
    bare = _unplaced(pod, "waiting", "")
    known = {key: answer[key] for key in bare.keys() & answer.keys() if _same_type(answer[key], bare[key])}
    return {**bare, **known, "source": "scheduler"}


def status_from_decision(pod: LivePod, decision: Mapping[str, Any], note: str) -> PodReport:
    """Return the report of a pending pod by a decision made here: its scheduler may choose another place."""
    return {**_unplaced(pod, "waiting", ""), **decision, "source": "here", "note": note}


def shares_of(pod: LivePod, claims: Iterable[LiveClaim]) -> tuple[DeviceShare, ...]:
    """Return the shares of a bound pod: from its allocated claims, else from its placement annotation."""
    results = [result for claim in claims for result in claim.results if result.pool == pod.spec.node_name]
    if results:
        return tuple(allocated_share(result) for result in results)
    return parse_shares(pod.metadata.annotations.get(PLACEMENT, "[]")) or ()


def _same_type(value: Any, default: Any) -> bool:
    """Return whether a received field has the type of its default."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, type(default)) or value is None or (number and (default is None or default == 0))


def _placed(pod: LivePod, claims: Iterable[LiveClaim]) -> PodReport:
    request = Request(pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
    placement = Placement(request, pod.spec.node_name, shares_of(pod, claims))
    over = f"has ended ({pod.status.phase}) on" if pod.ended else "is on"
    sentence = f"{pod.metadata.name} {over} {placement.where()}"
    state = "ended" if pod.ended else "bound"
    return {**_report(pod, Decision(request, "", placement)), "state": state, "sentence": sentence}


def _unplaced(pod: LivePod, state: str, sentence: str) -> PodReport:
    request = Request(pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
    return {**_report(pod, Decision(request, "")), "state": state, "sentence": sentence}


def _report(pod: LivePod, decision: Decision) -> PodReport:
    """Return the fields of a decision, with those of the pod itself."""
    condition = pod.condition(SCHEDULED)
    return {
        **decision.to_json(),
        "state": "",
        "scheduler": pod.spec.scheduler_name,
        "since": (condition.last_transition_time if decision.placed else "")
        or pod.metadata.creation_timestamp,
        "source": "pod",
        "condition": condition.message,
        "queueing_hints": [],
        "retry_in_seconds": None,
        "decided_seconds_ago": None,
        "pending_victims": [],
        "need": {},
        "telemetry": {},
        "note": "",
    }

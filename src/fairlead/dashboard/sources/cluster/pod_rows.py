"""Pods of a live cluster as rows. Pure."""

from typing import Final

from fairlead import keys
from fairlead.dashboard.row_types import RequestedAmounts, WorkloadRow, WorkloadState
from fairlead.dashboard.rows import device_key, requested_amounts
from fairlead.dashboard.sources.snapshot import parse_time
from fairlead.manifest.types.live import SCHEDULED, LivePod
from fairlead.placement import Placement
from fairlead.request import Request

_READY: Final = "Ready"
_PHASES: Final[dict[str, WorkloadState]] = {"Running": "running", "Succeeded": "ended", "Failed": "failed"}
_WAITS: Final = "it waits for the scheduler {}, which has not reported on it"


def pod_key(pod: LivePod) -> str:
    """Return the key of a pod."""
    return "/".join(pod.key)


def pod_row(
    pod: LivePod,
    request: Request | None,
    placement: Placement | None,
    problem: str = "",
    place: int | None = None,
) -> WorkloadRow:
    """Return the row of a pod; `problem` says why it cannot be read as a request."""
    meta, state = pod.metadata, pod_state(pod)
    known = placement.request if placement is not None else request
    shares = placement.shares if placement is not None else ()
    return WorkloadRow(
        key=pod_key(pod),
        kind="pod",
        namespace=meta.namespace,
        name=meta.name,
        state=state,
        since=_since(pod, state),
        node=pod.spec.node_name or None,
        devices=tuple(device_key(pod.spec.node_name, share.device) for share in shares),
        model=meta.annotations.get(keys.MODEL, "").strip() or None,
        requested=requested_amounts(known) if known is not None else RequestedAmounts(),
        priority=pod.spec.priority or 0,
        gang=known.gang.name if known is not None and known.gang is not None else None,
        why=_why(pod, state, problem),
        place=place,
    )


def pod_state(pod: LivePod) -> WorkloadState:
    """Return the state of a pod."""
    if pod.ended or pod.status.phase == "Running":
        return _PHASES[pod.status.phase]
    return "starting" if pod.spec.node_name else "waiting"


def _since(pod: LivePod, state: WorkloadState) -> float | None:
    made = pod.metadata.creation_timestamp
    if state == "waiting":
        return parse_time(made)
    name = SCHEDULED if state == "starting" else _READY
    return parse_time(pod.condition(name).last_transition_time or made)


def _why(pod: LivePod, state: WorkloadState, problem: str) -> str:
    if state == "failed":
        return _ended_by(pod)
    if state != "waiting":
        return ""
    if pod.metadata.deletion_timestamp:
        return "it is being deleted"
    if gates := pod.spec.scheduling_gates:
        return f"held back by its scheduling gates: {', '.join(gate.name for gate in gates)}"
    message = pod.condition(SCHEDULED).message
    return message or problem or _WAITS.format(pod.spec.scheduler_name or "default-scheduler")


def _ended_by(pod: LivePod) -> str:
    for container in pod.status.container_statuses:
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            return f"container {container.name} ended with {ended.exit_code}{_reason(ended.reason)}"
    return ""


def _reason(reason: str) -> str:
    return f" ({reason})" if reason and reason != "Error" else ""

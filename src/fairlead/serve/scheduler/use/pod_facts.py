"""What a pod says about its use of accelerators: its limit, its start, its crashes. Pure."""

from collections.abc import Sequence
from typing import Final

from fairlead import keys
from fairlead.cache.types import SCHEDULED, LivePod
from fairlead.cluster.times import parse_time
from fairlead.manifest.types.live import LiveContainerStatus
from fairlead.placement import parse_shares
from fairlead.request import Request
from fairlead.rightsize.crashes import is_failed_allocation
from fairlead.sizing.footprint import Footprint
from fairlead.units import Bytes

AUTO: Final = "auto"
OUT_OF_MEMORY: Final = "OOMKilled"
ESTIMATE_MARGIN: Final = 0.25
"""The relative widening of an estimated size, which no run of the image has shown yet."""
_DIGITS: Final = 18


def limit_of(pod: LivePod) -> Bytes | None:
    """Return the memory that the pod's framework must stay inside; None: it has no limit."""
    text = pod.metadata.annotations.get(keys.MEMORY_LIMIT, "")
    valid = text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text)
    return Bytes(int(text)) if valid else None


def placed_memory(pod: LivePod, device: str) -> Bytes | None:
    """Return the memory of an accelerator that a pod was placed for, by its binding; None: unknown."""
    shares = parse_shares(pod.metadata.annotations.get(keys.PLACEMENT, "")) or ()
    return next((share.memory for share in shares if share.device == device and not share.whole), None)


def scheduled_at(pod: LivePod) -> float | None:
    """Return when a pod was bound, in seconds since the epoch; None: its status does not say so."""
    condition = pod.condition(SCHEDULED)
    if condition.status != "True":
        return None
    try:
        return parse_time(condition.last_transition_time).timestamp()
    except ValueError:
        return None


def is_rightsized(pod: LivePod) -> bool:
    """Say whether the pod asks to be placed by the learned size of its workload."""
    return pod.metadata.annotations.get(keys.RIGHTSIZE) == AUTO


def is_elastic(pod: LivePod) -> bool:
    """Say whether the pod follows a new limit while it runs: frameworks read theirs at the start."""
    return pod.metadata.annotations.get(keys.ELASTIC) == "true"


def requested_memory(request: Request) -> Bytes | None:
    """Return the memory that a pod requests of each accelerator; None: an estimate decides, or nothing."""
    return request.demand.memory


def estimated_footprint(request: Request) -> Footprint | None:
    """Return the memory that the profile of a pod's model gives, the most of all kinds; None: no profile."""
    sizes = [estimate.memory for estimate in request.estimates.values() if estimate.memory]
    if not sizes:
        return None
    return Footprint(request.id, None, Bytes(0), 0.0, margin=ESTIMATE_MARGIN, stated=max(sizes))


def restarts(pod: LivePod) -> int:
    """Return how often the containers of a pod were started again."""
    return sum(status.restart_count for status in pod.status.container_statuses)


def lacked_memory(statuses: Sequence[LiveContainerStatus], *, was_full: bool) -> bool:
    """Say whether a container ended by lack of memory; `was_full`: the pod had no more of its accelerator.

    A process that cannot allocate memory of an accelerator ends with any exit code but 0. Its last message
    says so only where the container's `terminationMessagePolicy` is `FallbackToLogsOnError`.
    """
    states = [state for status in statuses for state in (status.state, status.last_state)]
    ends = [state.terminated for state in states if state.terminated is not None]
    return any(
        end.reason == OUT_OF_MEMORY
        or (end.exit_code != 0 and (was_full or is_failed_allocation(end.message)))
        for end in ends
    )

"""Which pods of a Pipeline are made, left alone or ended now. Pure.

Pods do not change: another spec is another pod of the same name. The coordinator stops before its hosts, so
that the frames on their way are finished, and starts again once every host has its new pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairlead.compat import StrEnum
from fairlead.compat.times import parse_iso
from fairlead.keys import SPEC_HASH
from fairlead.pipelineobjects.names import LOCAL
from fairlead.reconcile import Manifest

OVERDUE: Final = timedelta(seconds=30)
"""After its grace period a pod that is being deleted counts as gone: its node is lost."""


class PodState(StrEnum):
    """An observed pod beside what is wanted."""

    CURRENT = "current"
    OUTDATED = "outdated"
    """Made from another spec, or not wanted."""
    ENDED = "ended"
    """It runs no longer."""
    ENDING = "ending"
    """It is being deleted."""
    LOST = "lost"
    """It is being deleted for too long."""


@dataclass(frozen=True, slots=True)
class PodSequence:
    """What becomes of the pods now."""

    create: tuple[str, ...] = ()
    """Hosts whose pod must be made."""
    keep: tuple[str, ...] = ()
    """Hosts whose pod stays, or is being deleted already."""
    end: tuple[str, ...] = ()
    """Hosts whose pod is deleted now."""
    waits_for: str = ""
    """The host whose pod must be gone before anything else happens."""


def pod_state(pod: Manifest, wanted: Manifest | None, now: datetime) -> PodState:
    """Return how an observed pod stands to the wanted one."""
    deleted = pod["metadata"].get("deletionTimestamp")
    if deleted:
        return PodState.LOST if now > parse_iso(deleted) + OVERDUE else PodState.ENDING
    if wanted is None or _hash(pod) != _hash(wanted):
        return PodState.OUTDATED
    phase = pod.get("status", {}).get("phase")
    return PodState.ENDED if phase in ("Succeeded", "Failed") else PodState.CURRENT


def sequence_pods(
    wanted: Mapping[str, Manifest], observed: Mapping[str, Manifest], now: datetime
) -> PodSequence:
    """Return what becomes of pods, by host; `wanted` is empty for a Pipeline that shall not run."""
    states = {host: pod_state(pod, wanted.get(host), now) for host, pod in observed.items()}
    coordinator = states.pop(LOCAL, None)
    ending = {host for host, state in states.items() if state in (PodState.ENDING, PodState.LOST)}
    outdated = {host for host, state in states.items() if state is PodState.OUTDATED}
    if coordinator is PodState.ENDING:
        return PodSequence(keep=(*states, LOCAL), waits_for=LOCAL)
    stops = coordinator is PodState.OUTDATED or (coordinator is PodState.CURRENT and bool(outdated))
    if stops and coordinator is not None:
        return PodSequence(keep=tuple(states), end=(LOCAL,), waits_for=LOCAL)
    ended = {host for host, state in states.items() if state is PodState.ENDED}
    missing = [host for host in wanted if host not in observed]
    if outdated | ending and LOCAL in missing:  # it begins with the hosts that it will have
        missing.remove(LOCAL)
    end = sorted(outdated | ended)
    keep = [host for host in states if host not in end]
    if coordinator is PodState.ENDED:
        end.append(LOCAL)
    elif coordinator is not None:
        keep.append(LOCAL)
    return PodSequence(tuple(missing), tuple(keep), tuple(end), min(ending, default=""))


def _hash(pod: Manifest) -> str | None:
    notes: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return notes.get(SPEC_HASH)

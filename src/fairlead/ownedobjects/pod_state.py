"""An observed pod beside what is wanted. Pure: pods do not change, another spec is another pod."""

from datetime import datetime, timedelta
from typing import Final

from fairlead.compat import StrEnum
from fairlead.compat.times import parse_iso
from fairlead.keys import SPEC_HASH
from fairlead.reconcile import Manifest

OVERDUE: Final = timedelta(seconds=30)
"""After its grace period a pod that is being deleted counts as gone: its node is lost."""
GIVEN_UP: Final = timedelta(minutes=5)
"""After its grace period a pod that is lost is deleted without the word of its node, where that is safe."""


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


DELETED: Final = (PodState.ENDING, PodState.LOST)


def pod_state(pod: Manifest, wanted: Manifest | None, now: datetime) -> PodState:
    """Return how an observed pod stands to the wanted one."""
    deleted = pod["metadata"].get("deletionTimestamp")
    if deleted:
        return PodState.LOST if now > parse_iso(deleted) + OVERDUE else PodState.ENDING
    if wanted is None or not is_made_from(pod, wanted):
        return PodState.OUTDATED
    phase = pod.get("status", {}).get("phase")
    return PodState.ENDED if phase in ("Succeeded", "Failed") else PodState.CURRENT


def is_made_from(pod: Manifest, wanted: Manifest) -> bool:
    """Return whether an observed pod was made from the wanted spec, under whatever name."""
    return spec_hash(pod) == spec_hash(wanted)


def spec_hash(pod: Manifest) -> str:
    """Return the digest of what a pod was made from."""
    return str((pod["metadata"].get("annotations") or {}).get(SPEC_HASH, ""))


def is_given_up(pod: Manifest, now: datetime) -> bool:
    """Return whether a pod has been lost for so long that its node will not report its end any more."""
    deleted = pod["metadata"].get("deletionTimestamp")
    return bool(deleted) and now > parse_iso(deleted) + GIVEN_UP

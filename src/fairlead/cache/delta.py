"""What a change of the cluster means for pending pods."""

from dataclasses import dataclass

from fairlead.cache.events import ClusterEvent
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import LivePod
from fairlead.request import Request

PendingPod = Request | UnreadablePod


@dataclass(frozen=True, slots=True)
class CacheDelta:
    """What has changed for pending pods."""

    pending: tuple[PendingPod, ...] = ()
    """Pending pods, new or changed."""
    gone: tuple[str, ...] = ()
    """The ids of pods that are no longer pending."""
    events: frozenset[ClusterEvent] = frozenset()
    """The cluster events since the last `sync`: one of them may let an unschedulable pod fit."""
    nodes: frozenset[str] = frozenset()
    """The nodes on which a placement was added or removed."""
    orphaned: tuple[tuple[str, LivePod], ...] = ()
    """Pods, by id, that were deleted before their claims were observed: these must be deallocated."""

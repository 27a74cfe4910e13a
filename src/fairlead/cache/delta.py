"""What a change of the cluster means for pods that wait."""

from dataclasses import dataclass

from fairlead.cache.events import ClusterEvent
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import LivePod
from fairlead.request import Request

PendingPod = Request | UnreadablePod


@dataclass(frozen=True, slots=True)
class CacheDelta:
    """What has changed for pods that wait."""

    pending: tuple[PendingPod, ...] = ()
    """Pods that wait, new or changed."""
    gone: tuple[str, ...] = ()
    """Ids that wait no more."""
    events: frozenset[ClusterEvent] = frozenset()
    """What happened that may help pods that were refused."""
    nodes: frozenset[str] = frozenset()
    """Where something came or went."""
    orphaned: tuple[tuple[str, LivePod], ...] = ()
    """Pods, by id, that went before their claims were seen: what these hold is still to be taken back."""

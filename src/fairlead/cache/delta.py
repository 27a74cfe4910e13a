"""What a change of the cluster means for pods that wait."""

from dataclasses import dataclass

from fairlead.cache.events import Event
from fairlead.cache.translator import Unreadable
from fairlead.request import Request

Waiting = Request | Unreadable


@dataclass(frozen=True, slots=True)
class CacheDelta:
    """What has changed for pods that wait."""

    came: tuple[Waiting, ...] = ()
    """Pods that wait, new or changed."""
    gone: tuple[str, ...] = ()
    """Ids that wait no more."""
    events: frozenset[Event] = frozenset()
    """What happened that may help pods that were refused."""
    nodes: frozenset[str] = frozenset()
    """Where something came or went."""

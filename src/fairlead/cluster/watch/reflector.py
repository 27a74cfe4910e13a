"""The copy of the objects of one kind: how lists and events change it, and which request comes next. Pure.

    listing --- list complete, plain or streamed ---> following --- closed ---> following, from its version
       ^                                                  |
       +--- gone, too new, timed out, empty at once ------+     each is a list and a difference, never a gap

Events may arrive twice, late or never: after the next complete list the copy equals the cluster's state, and
the changes reported so far lead to it, each reported once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from types import MappingProxyType
from typing import Final, Generic, Literal

from fairlead.cluster.meta import Object, T
from fairlead.cluster.watch.changes import Key, ObjectChange, changes_between, diff_objects


class RequestEnd(Enum):
    """Why a request ended."""

    CLOSED = "the stream ended, for any reason"
    UNAVAILABLE = "the cluster could not be reached, or was too busy"
    TIMED_OUT = "no event arrived for too long, not even a bookmark"
    GONE = "the server no longer keeps the version to resume from (410)"
    TOO_NEW = "the server has not reached the version to resume from (504): it was restored from a backup"
    REFUSED = "the server does not support the request, such as a streamed list"
    FAILED = "the server refused the request"


_LOST: Final = frozenset(
    {RequestEnd.TIMED_OUT, RequestEnd.GONE, RequestEnd.TOO_NEW, RequestEnd.REFUSED, RequestEnd.FAILED}
)
"""After these a watch cannot resume from its version; after the others it missed nothing."""
_MAX_FAILURES: Final = 12
"""Consecutive failed watches, over some minutes, before a list: servers keep little more history, and a proxy
may let only lists through."""


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """Timeouts and delays, in seconds."""

    idle_timeout: float = 90.0
    """Time without an event after which the connection is dead: a bookmark comes about every minute."""
    watch: tuple[float, float] = (300.0, 600.0)
    """The range of the timeout that a watch asks for; spread, so that not all watches resume at once."""
    healthy_after: float = 30.0
    """A watch that lasted at least this long was healthy, even without an event."""
    initial_backoff: float = 0.2
    """The delay after the first failure; it doubles with each further one."""
    max_backoff: float = 30.0


RequestKind = Literal["list", "stream", "watch"]


@dataclass(frozen=True, slots=True)
class NextRequest:
    """The request to send next, and the delay before it."""

    kind: RequestKind
    version: str
    delay: float


class Reflector(Generic[T]):
    """The objects as last observed, and the resource version of that state."""

    def __init__(self, timing: WatchTiming, random: Random) -> None:
        self._timing = timing
        self._random = random
        self._objects: dict[Key, T] = {}
        self.objects: Final[Mapping[Key, T]] = MappingProxyType(self._objects)
        """A read-only view of the objects that follows the cluster."""
        self._arriving: dict[Key, T] = {}
        self._deleted: dict[Key, T] = {}
        """Objects deleted while their streamed list arrives; keeps a late copy from restoring them."""
        self._version = ""
        self._following = False
        self._can_stream = True
        """Whether this server streams lists; true until it refuses one."""
        self._last_request: RequestKind = "list"
        self._stream_failed = False
        """The last streamed list never completed: send a plain list next."""
        self._received = False
        self._idle = 0.0
        """Seconds without any event, summed over consecutive watches."""
        self._failures = 0
        self._delay = 0.0
        self.synced = False

    @property
    def following(self) -> bool:
        """Whether the copy is complete, so that events change it."""
        return self._following

    def next_request(self) -> NextRequest:
        """Return the request to send now."""
        self._received = False
        self._arriving, self._deleted = {}, {}
        if self._following:
            self._last_request = "watch"
            return NextRequest(self._last_request, self._version, self._delay)
        self._last_request = "stream" if self._can_stream and not self._stream_failed else "list"
        return NextRequest(self._last_request, "", self._delay)

    def on_list(self, objects: Iterable[T], version: str) -> list[ObjectChange[T]]:
        """Replace the copy with a complete list."""
        return self._replace({item.key: item for item in objects}, version)

    def on_event(self, event_type: str, item: T) -> list[ObjectChange[T]]:
        """Apply an `ADDED`, `MODIFIED` or `DELETED` event of a watch."""
        if not self._following:
            self._collect(event_type, item)
            return []
        self._received = True
        old = self._objects.get(item.key)
        fresh = self._advance(item.metadata.resource_version)
        if old is not None and _compare_objects(item, old) < 0:
            return []  # an event that arrived before
        if event_type == "DELETED":
            self._objects.pop(item.key, None)
            return changes_between(old, None)
        if not fresh and old is None:
            self._following = False  # it was deleted since, or a bookmark came before the event: list again
            return []
        self._objects[item.key] = item
        return changes_between(old, item)

    def on_bookmark(self, version: str, *, complete: bool) -> list[ObjectChange[T]]:
        """Apply a bookmark; `complete` says that it ends a streamed list."""
        if not self._following:
            return self._replace(self._arriving, version) if complete else []
        self._received = True
        if not self._advance(version) and version != self._version:
            self._following = False  # the server is behind the copy: only a list shows its state
        return []

    def on_request_end(self, end: RequestEnd, lasted: float) -> None:
        """Record the end of the last request, `lasted` seconds after it was sent."""
        if self._last_request == "stream":
            self._can_stream = self._can_stream and end is not RequestEnd.REFUSED
            self._stream_failed = not self._following and end in (RequestEnd.CLOSED, RequestEnd.TIMED_OUT)
        else:
            self._stream_failed = False
        resumable = self._following and end in (RequestEnd.CLOSED, RequestEnd.UNAVAILABLE)
        healthy = self._received or (resumable and lasted >= self._timing.healthy_after)
        # Some servers end a watch at once and without an event if they have lost its version.
        empty = self._last_request == "watch" and end is RequestEnd.CLOSED and not healthy
        # A watch from a version that the server has not reached gets no event either, not even a bookmark.
        self._idle = 0.0 if self._received else self._idle + lasted
        self._failures = 0 if healthy else self._failures + 1
        timed_out = self._idle >= self._timing.idle_timeout
        if end in _LOST or empty or timed_out or self._failures >= _MAX_FAILURES:
            self._following = False
        self._delay = self._backoff()

    def _backoff(self) -> float:
        """Return a random delay up to a limit that doubles: all clients of a server fail together."""
        limit = min(self._timing.max_backoff, self._timing.initial_backoff * 2 ** min(self._failures, 30))
        return self._random.uniform(0, limit)

    def _advance(self, version: str) -> bool:
        """Advance to a version; return whether it is newer than the copy's."""
        fresh = compare_versions(version, self._version) > 0
        if fresh:
            self._version = version
        return fresh

    def _collect(self, event_type: str, item: T) -> None:
        known = self._arriving.get(item.key) or self._deleted.get(item.key)
        if known is not None and _compare_objects(item, known) <= 0:
            return
        self._arriving.pop(item.key, None)
        (self._deleted if event_type == "DELETED" else self._arriving)[item.key] = item

    def _replace(self, objects: dict[Key, T], version: str) -> list[ObjectChange[T]]:
        changes = diff_objects(self._objects, objects)
        self._objects.clear()  # in place: the view that callers hold must follow the cluster
        self._objects.update(objects)
        self._arriving, self._deleted = {}, {}
        self._version = version
        self._following = self.synced = True
        self._delay = self._idle = 0.0
        return changes


def compare_versions(version: str, than: str) -> int:
    """Return whether a version comes after (> 0), equals (0) or comes before (< 0) another.

    Kubernetes promises growing numbers; of other versions only the difference is known.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) - int(than)
    return int(version != than)


def _compare_objects(item: Object, other: Object) -> int:
    return compare_versions(item.metadata.resource_version, other.metadata.resource_version)

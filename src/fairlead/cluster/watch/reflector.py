"""A copy of a cluster's objects of one kind: what a list or watch changes in it, and what to ask next. Pure.

    listing --- all listed, or all streamed ---> following --- closed ---> following, from where it stood
       ^                                             |
       +--- gone, too new, silent, empty at once ----+      each is a list and a difference, never a gap

Whatever arrives twice, late or never: after the next complete list the copy is the cluster's state, and the
changes reported so far lead there, each once.
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
    """Why a request is over."""

    CLOSED = "the stream ended, for whatever reason"
    UNAVAILABLE = "the cluster could not be reached, or was too busy"
    TIMED_OUT = "nothing was heard for too long, not even a bookmark"
    GONE = "the version to go on from is no longer kept (410)"
    TOO_NEW = "the version to go on from is yet to come (504): the cluster has gone back in time"
    REFUSED = "the server does not understand the question, such as a streamed list"
    FAILED = "the server said no"


_LOST: Final = frozenset(
    {RequestEnd.TIMED_OUT, RequestEnd.GONE, RequestEnd.TOO_NEW, RequestEnd.REFUSED, RequestEnd.FAILED}
)
"""After these a watch cannot go on from where it stood; after the others nothing was missed."""
_PATIENCE: Final = 12
"""Watches that fail in a row, over some minutes, before a list is tried: servers keep little more history,
and something on the way may let only lists through."""


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """How patient to be, in seconds."""

    idle_timeout: float = 90.0
    """Nothing heard for so long: the connection is dead. The server sends a bookmark about every minute."""
    watch: tuple[float, float] = (300.0, 600.0)
    """Between these the server is asked to end a watch; spread, so that not all come back at once."""
    healthy_after: float = 30.0
    """A watch that lived so long was a good one, even if nothing happened."""
    initial_backoff: float = 0.2
    """The first pause after a failure; it doubles from there."""
    max_backoff: float = 30.0


RequestKind = Literal["list", "stream", "watch"]


@dataclass(frozen=True, slots=True)
class NextRequest:
    """What to ask of the cluster next, and how long to wait before."""

    ask: RequestKind
    version: str
    wait: float


class Reflector(Generic[T]):
    """The objects as last heard of, and the version of the cluster that they stand for."""

    def __init__(self, timing: WatchTiming, random: Random) -> None:
        self._timing = timing
        self._random = random
        self._objects: dict[Key, T] = {}
        self.objects: Final[Mapping[Key, T]] = MappingProxyType(self._objects)
        """The objects, in a view that cannot be written to and stays true."""
        self._arriving: dict[Key, T] = {}
        self._buried: dict[Key, T] = {}
        """Deleted while their list was still arriving; keeps a late copy of them from coming back to life."""
        self._version = ""
        self._following = False
        self._streams = True
        """Whether this server streams lists, as far as we know."""
        self._asked: RequestKind = "list"
        self._doubt = False
        """The last streamed list never came to its end: ask for a plain one next."""
        self._heard = False
        self._quiet = 0.0
        """For how long watches have said nothing at all, over as many of them as it took."""
        self._failures = 0
        self._wait = 0.0
        self.synced = False

    @property
    def following(self) -> bool:
        """Whether the copy is complete, so that what is heard now changes it."""
        return self._following

    def next_request(self) -> NextRequest:
        """Return what to ask now."""
        self._heard = False
        self._arriving, self._buried = {}, {}
        if self._following:
            self._asked = "watch"
            return NextRequest(self._asked, self._version, self._wait)
        self._asked = "stream" if self._streams and not self._doubt else "list"
        return NextRequest(self._asked, "", self._wait)

    def on_list(self, objects: Iterable[T], version: str) -> list[ObjectChange[T]]:
        """Take a complete list."""
        return self._replace({item.key: item for item in objects}, version)

    def on_event(self, what: str, item: T) -> list[ObjectChange[T]]:
        """Take `ADDED`, `MODIFIED` or `DELETED` from a watch."""
        if not self._following:
            self._arrive(what, item)
            return []
        self._heard = True
        old = self._objects.get(item.key)
        fresh = self._advance(item.metadata.resource_version)
        if old is not None and _age(item, old) < 0:
            return []  # heard before
        if what == "DELETED":
            self._objects.pop(item.key, None)
            return changes_between(old, None)
        if not fresh and old is None:
            self._following = False  # either it was deleted since, or we were told too early that we know it
            return []
        self._objects[item.key] = item
        return changes_between(old, item)

    def on_bookmark(self, version: str, *, complete: bool) -> list[ObjectChange[T]]:
        """Take a bookmark; `complete` says that it ends a streamed list."""
        if not self._following:
            return self._replace(self._arriving, version) if complete else []
        self._heard = True
        if not self._advance(version) and version != self._version:
            self._following = False  # the server is behind what we have seen: only a list can tell
        return []

    def on_request_end(self, end: RequestEnd, lasted: float) -> None:
        """Take note that the last request is over, `lasted` seconds after it was sent."""
        if self._asked == "stream":
            self._streams = self._streams and end is not RequestEnd.REFUSED
            self._doubt = not self._following and end in (RequestEnd.CLOSED, RequestEnd.TIMED_OUT)
        else:
            self._doubt = False
        stood = self._following and end in (RequestEnd.CLOSED, RequestEnd.UNAVAILABLE)
        quiet_but_long = stood and lasted >= self._timing.healthy_after
        good = self._heard or quiet_but_long
        # A watch that ends at once with nothing said is how some servers answer for a version they lost.
        empty = self._asked == "watch" and end is RequestEnd.CLOSED and not good
        # So is a watch from a version yet to come: silence, without so much as a bookmark.
        self._quiet = 0.0 if self._heard else self._quiet + lasted
        self._failures = 0 if good else self._failures + 1
        silent = self._quiet >= self._timing.idle_timeout
        if end in _LOST or empty or silent or self._failures >= _PATIENCE:
            self._following = False
        self._wait = self._backoff()

    def _backoff(self) -> float:
        """Return a pause between nothing and twice the last one: all clients of a server fail together."""
        limit = min(self._timing.max_backoff, self._timing.initial_backoff * 2 ** min(self._failures, 30))
        return self._random.uniform(0, limit)

    def _advance(self, version: str) -> bool:
        """Move on to a version; say whether it is one that we have not come to before."""
        fresh = _order(version, self._version) > 0
        if fresh:
            self._version = version
        return fresh

    def _arrive(self, what: str, item: T) -> None:
        known = self._arriving.get(item.key) or self._buried.get(item.key)
        if known is not None and _age(item, known) <= 0:
            return
        self._arriving.pop(item.key, None)
        (self._buried if what == "DELETED" else self._arriving)[item.key] = item

    def _replace(self, objects: dict[Key, T], version: str) -> list[ObjectChange[T]]:
        changes = diff_objects(self._objects, objects)
        self._objects.clear()  # in place: whoever holds the view goes on seeing what is true
        self._objects.update(objects)
        self._arriving, self._buried = {}, {}
        self._version = version
        self._following = self.synced = True
        self._wait = self._quiet = 0.0
        return changes


def _order(version: str, than: str) -> int:
    """Return whether a version comes after (> 0), is (0) or comes before (< 0) another.

    Kubernetes promises growing numbers; of what is not a number we only know whether it is another.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) - int(than)
    return int(version != than)


def _age(item: Object, other: Object) -> int:
    return _order(item.metadata.resource_version, other.metadata.resource_version)

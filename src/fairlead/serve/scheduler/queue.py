"""Who waits for a place: the important first, then those who came first, gangs together. Pure.

    ready --- pop ---> out --- placed ---> done
      ^                 |
      +---- parked <----+  until something happens that could help, or, as a safety net, for minutes

Nobody starves by new arrivals of the same priority: who is woken keeps the place that it first had.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from fairlead.request import Request
from fairlead.serve.scheduler.events import Event

SAFETY_NET: Final = 300.0
"""Seconds after which a parked group is tried again though nothing happened that should help."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds before a place is sought again for a pod whose placing could not be written."""
Key = tuple[str, str]


@dataclass(slots=True)
class Group:
    """Requests that are placed together; most are alone."""

    key: Key
    since: int = 0
    members: dict[str, Request] = field(default_factory=dict)
    helps: frozenset[Event] | None = None
    """What it waits for while it is parked; None: it is ready."""
    until: float = 0.0
    """When it is tried again in any case."""

    @property
    def rank(self) -> tuple[int, int]:
        """Where it stands in the line: the smallest comes first."""
        return -max(each.priority for each in self.members.values()), self.since


@dataclass(frozen=True, slots=True)
class Trouble:
    """How often the placing of a pod could not be written, and when to try again."""

    times: int
    until: float


class Queue:
    """Everybody who waits."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}
        self._ready: list[tuple[tuple[int, int], Key]] = []
        self._since: dict[str, int] = {}
        self._keys: dict[str, Key] = {}
        self._troubles: dict[str, Trouble] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return sum(len(group.members) for group in self._groups.values())

    @property
    def ready(self) -> bool:
        """Whether somebody may be ready."""
        return bool(self._ready)

    @property
    def parked(self) -> int:
        """How many requests wait for something to happen."""
        return sum(len(group.members) for group in self._groups.values() if group.helps is not None)

    def add(self, request: Request, now: float) -> None:
        """Add a request, or a changed one; one that is as it was stays parked."""
        key = _key(request)
        if self._keys.get(request.id, key) != key:
            self.remove(request.id)
        self._keys[request.id] = key
        group = self._groups.setdefault(key, Group(key))
        if group.members.get(request.id) == request:
            return
        self._seat(group, request)
        trouble = self._troubles.get(request.id)
        if trouble is not None and trouble.until > now:
            group.helps, group.until = frozenset(), trouble.until
        else:
            self._make_ready(group)

    def remove(self, identity: str) -> None:
        """Forget a request: it is placed, or gone."""
        key = self._keys.pop(identity, ("", ""))
        self._troubles.pop(identity, None)
        self._since.pop(identity, None)
        group = self._groups.get(key)
        if group is not None:
            group.members.pop(identity, None)
            if not group.members:
                del self._groups[key]

    def pop(self) -> list[Request]:
        """Take out those who are next, together; nobody where nobody is ready."""
        while self._ready:
            rank, key = heapq.heappop(self._ready)
            group = self._groups.get(key)
            if group is not None and group.helps is None and group.rank == rank:
                del self._groups[key]
                return list(group.members.values())
        return []

    def park(self, members: Iterable[Request], helps: frozenset[Event], now: float) -> None:
        """Put those who were refused where they wait for what could help."""
        for member in members:
            key = self._keys.setdefault(member.id, _key(member))
            group = self._groups.setdefault(key, Group(key))
            if member.id not in group.members:  # a newer one came while this was being decided
                self._seat(group, member)
            group.helps, group.until = helps, now + SAFETY_NET

    def failed(self, identity: str, now: float) -> None:
        """Note that the placing of a request could not be written: it is not tried again at once."""
        times = self._troubles[identity].times + 1 if identity in self._troubles else 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(times - 1, 16))
        self._troubles[identity] = Trouble(times, now + pause)

    def wake(self, events: frozenset[Event]) -> int:
        """Make those ready whom one of these could help, and return how many groups they are."""
        woken = [each for each in self._groups.values() if each.helps is not None and each.helps & events]
        for group in woken:
            self._make_ready(group)
        return len(woken)

    def nap(self, now: float) -> float | None:
        """Make those ready whose time has come, and return when the next one's comes."""
        parked = [each for each in self._groups.values() if each.helps is not None]
        for group in parked:
            if group.until <= now:
                self._make_ready(group)
        return min((each.until for each in parked if each.until > now), default=None)

    def _seat(self, group: Group, request: Request) -> None:
        since = self._since.setdefault(request.id, next(self._numbers))
        group.since = min(group.since, since) if group.members else since
        group.members[request.id] = request

    def _make_ready(self, group: Group) -> None:
        group.helps = None
        heapq.heappush(self._ready, (group.rank, group.key))


def _key(request: Request) -> Key:
    return (request.namespace, request.gang.name) if request.gang else ("", request.id)

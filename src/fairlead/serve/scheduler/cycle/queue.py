"""The scheduling queue: pods by priority, then by arrival, the pods of a gang together. Pure.

    active --- pop ---> scheduling cycle --- placed ---> done
      ^                        |
      +---- unschedulable <----+  until an event of its queueing hints, or, as a safety net, for minutes
      +---- backoff <----------+  after a write that failed, for seconds

A pod that becomes active again keeps its place by arrival: new pods of its priority cannot starve it.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from fairlead.cache.events import ClusterEvent
from fairlead.compat import StrEnum
from fairlead.request import Request

SAFETY_NET: Final = 300.0
"""Seconds after which an unschedulable group is tried again without an event of its hints."""
GroupKey = tuple[str, str]
Rank = tuple[bool, int, bool, int]
FitHint = Callable[[Request], bool]
"""Says whether what became free could be enough for a request."""


class QueueState(StrEnum):
    """The parts of the queue, as kube-scheduler names them."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


@dataclass(slots=True)
class QueuedGroup:
    """Requests that are placed together; most are alone."""

    key: GroupKey
    since: int = 0
    members: dict[str, Request] = field(default_factory=dict)
    hints: frozenset[ClusterEvent] | None = None
    """The events that may let it fit while it is unschedulable; empty: it backs off; None: it is active."""
    until: float = 0.0
    """When it is tried again in any case."""
    activated_by_deletion: bool = False
    """It is ready only because something became free."""
    nominated: bool = False
    """Pods were evicted for it: it comes before others of its priority."""
    partly_bound: bool = False
    """Some pods of the gang are bound, and too few: it comes before all others."""

    @property
    def state(self) -> QueueState:
        """The part of the queue that holds it; no event ends a backoff."""
        if self.hints is None:
            return QueueState.ACTIVE
        return QueueState.UNSCHEDULABLE if self.hints else QueueState.BACKOFF

    @property
    def rank(self) -> Rank:
        """Where it stands in the line: the smallest comes first."""
        priority = max(each.priority for each in self.members.values())
        return not self.partly_bound, -priority, not self.nominated, self.since

    @property
    def shape(self) -> Hashable:
        """What it has in common with all who fit in the same places; None: its place depends on others."""
        if len(self.members) > 1:
            return None
        (alone,) = self.members.values()
        return None if alone.signature is None or alone.gang else (alone.signature, self.nominated)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often the placing of a pod could not be written, and when to try again."""

    times: int
    until: float


class SchedulingQueue:
    """Every pod that waits."""

    def __init__(self, initial_backoff: float = 0.5, max_backoff: float = 30.0) -> None:
        self._initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        """Seconds, at most, before a place is sought again for a pod whose placing could not be written."""
        self._groups: dict[GroupKey, QueuedGroup] = {}
        self._active: list[tuple[Rank, GroupKey]] = []
        self._since: dict[str, int] = {}
        self._keys: dict[str, GroupKey] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._numbers = count()
        self._by_hint: dict[ClusterEvent, dict[Hashable, dict[GroupKey, QueuedGroup]]] = {
            event: {} for event in ClusterEvent
        }
        """Unschedulable groups by queueing hint and by shape: of each shape, one is checked."""
        self._requesting_devices: set[str] = set()
        self._nominated: set[str] = set()
        self._partly_bound: set[GroupKey] = set()
        self.activated_by_deletion = False
        """Whether those who were taken out last were ready only because something became free."""

    def __len__(self) -> int:
        return sum(len(group.members) for group in self._groups.values())

    @property
    def has_active(self) -> bool:
        """Whether somebody may be ready."""
        return bool(self._active)

    def pods_by_queue(self) -> dict[str, int]:
        """Return how many pods each part of the queue holds."""
        pods: Counter[str] = Counter(dict.fromkeys(QueueState, 0))
        for group in self._groups.values():
            pods[group.state] += len(group.members)
        return dict(pods)

    def group_of(self, identity: str) -> QueuedGroup | None:
        """Return those who wait together with a request; None where it does not wait here."""
        group = self._groups.get(self._keys.get(identity, ("", "")))
        return group if group is not None and identity in group.members else None

    @property
    def requesting_devices(self) -> Set[str]:
        """Who waits and asks for accelerators."""
        return self._requesting_devices

    def next_active(self, most: int) -> list[str]:
        """Return who is ready, as many as there are up to `most`, the next first."""
        keys = [key for _, key in heapq.nsmallest(most, self._active)]
        return [each for key in keys if key in self._groups for each in self._groups[key].members][:most]

    def add(self, request: Request, now: float) -> None:
        """Add a request, or a changed one; an unchanged one stays unschedulable."""
        key = _key(request)
        if self._keys.get(request.id, key) != key:
            self.remove(request.id)
        self._keys[request.id] = key
        group = self._groups.setdefault(key, QueuedGroup(key, partly_bound=key in self._partly_bound))
        if group.members.get(request.id) == request:
            return
        self._add_member(group, request)
        backoff = self._backoffs.get(request.id)
        if backoff is not None and backoff.until > now:
            self._deactivate(group, frozenset(), backoff.until)
        else:
            self._activate(group)

    def remove(self, identity: str) -> None:
        """Forget a request: it is placed, or gone."""
        key = self._keys.pop(identity, ("", ""))
        self._backoffs.pop(identity, None)
        self._since.pop(identity, None)
        self._requesting_devices.discard(identity)
        self._nominated.discard(identity)
        group = self._groups.get(key)
        if group is not None and identity in group.members:
            self._remove_from_hints(group)
            del group.members[identity]
            if not group.members:
                del self._groups[key]
                self._partly_bound.discard(key)
            elif group.hints is not None:
                self._deactivate(group, group.hints, group.until)

    def nominate(self, identity: str, *, reserved: bool = True) -> None:
        """Have a request for which pods were evicted come before others of its priority; or no more."""
        (self._nominated.add if reserved else self._nominated.discard)(identity)
        group = self.group_of(identity)
        if group is None or group.nominated == (not self._nominated.isdisjoint(group.members)):
            return
        self._remove_from_hints(group)
        group.nominated = not group.nominated
        if group.hints is None:
            heapq.heappush(self._active, (group.rank, group.key))
        else:
            self._deactivate(group, group.hints, group.until)

    def prioritize_partly_bound_gangs(self, bound: Mapping[GroupKey, int]) -> None:
        """Put gangs before all others of which some pods are bound, and fewer than the gang must have."""
        for key in bound.keys() & self._groups.keys():
            group = self._groups[key]
            gang = next(iter(group.members.values())).gang
            if gang is not None and bound[key] < gang.size:
                self._partly_bound.add(key)
                group.partly_bound = True
                self._activate(group)

    def activate(self, identity: str) -> None:
        """Make a request ready, with those that are placed together with it."""
        group = self.group_of(identity)
        if group is not None and group.hints is not None:
            self._activate(group)

    def pop(self) -> list[Request]:
        """Take out those who are next, together; nobody where nobody is ready."""
        while self._active:
            rank, key = heapq.heappop(self._active)
            group = self._groups.get(key)
            if group is not None and group.hints is None and group.rank == rank:
                del self._groups[key]
                self._requesting_devices.difference_update(group.members)
                self.activated_by_deletion = group.activated_by_deletion
                return list(group.members.values())
        return []

    def add_unschedulable(
        self, members: Iterable[Request], hints: frozenset[ClusterEvent], now: float
    ) -> None:
        """Put those who were refused where they wait for what could help."""
        for member in members:
            key = self._keys.setdefault(member.id, _key(member))
            group = self._groups.setdefault(key, QueuedGroup(key, partly_bound=key in self._partly_bound))
            if member.id not in group.members:  # a newer one came while this was being decided
                self._add_member(group, member)
            self._deactivate(group, hints, now + SAFETY_NET)

    def record_failure(self, identity: str, now: float) -> None:
        """Note that the placing of a request could not be written: it is not tried again at once."""
        times = self._backoffs[identity].times + 1 if identity in self._backoffs else 1
        pause = min(self.max_backoff, self._initial_backoff * 2 ** min(times - 1, 16))
        self._backoffs[identity] = Backoff(times, now + pause)

    def move_to_active(self, events: frozenset[ClusterEvent], could: FitHint = lambda request: True) -> int:
        """Make those ready whom one of these could help, and return how many groups they are.

        Where something became free, they are asked first whether that could be enough; of each shape, one is.
        """
        woken: dict[GroupKey, QueuedGroup] = {}
        room: dict[GroupKey, QueuedGroup] = {}
        for event in events:
            for shape, groups in self._by_hint[event].items():
                if event is not ClusterEvent.POD_DELETED or shape is None:
                    woken |= groups
                elif could(_any_request(groups)):
                    room |= groups
        for key, group in (room | woken).items():
            self._activate(group)
            group.activated_by_deletion = key not in woken
        return len(room | woken)

    def flush_expired(self, now: float) -> float | None:
        """Make those ready whose time has come, and return when the next one's comes."""
        inactive = [each for each in self._groups.values() if each.hints is not None]
        for group in inactive:
            if group.until <= now:
                self._activate(group)
        return min((each.until for each in inactive if each.until > now), default=None)

    def _add_member(self, group: QueuedGroup, request: Request) -> None:
        since = self._since.setdefault(request.id, next(self._numbers))
        group.since = min(group.since, since) if group.members else since
        self._remove_from_hints(group)
        group.nominated |= request.id in self._nominated
        group.members[request.id] = request
        if request.demand.count:
            self._requesting_devices.add(request.id)
        else:
            self._requesting_devices.discard(request.id)

    def _deactivate(self, group: QueuedGroup, hints: frozenset[ClusterEvent], until: float) -> None:
        """Let a group sleep until something happens that helps."""
        self._remove_from_hints(group)
        group.hints, group.until = hints, until
        for event in hints:
            self._by_hint[event].setdefault(group.shape, {})[group.key] = group

    def _remove_from_hints(self, group: QueuedGroup) -> None:
        """Take a group out of those who sleep; its members decide where it lies, so before they change."""
        for event in group.hints or ():
            alike = self._by_hint[event].get(group.shape, {})
            alike.pop(group.key, None)
            if not alike:
                self._by_hint[event].pop(group.shape, None)

    def _activate(self, group: QueuedGroup) -> None:
        self._remove_from_hints(group)
        group.hints, group.activated_by_deletion = None, False
        heapq.heappush(self._active, (group.rank, group.key))


def _any_request(alike: Mapping[GroupKey, QueuedGroup]) -> Request:
    return next(request for group in alike.values() for request in group.members.values())


def _key(request: Request) -> GroupKey:
    return (request.namespace, request.gang.name) if request.gang else ("", request.id)

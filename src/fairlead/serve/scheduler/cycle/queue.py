"""The scheduling queue: pods by priority, then by arrival; the pods of a gang together. Pure.

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
Rank = tuple[bool, int, bool, int, int]
FitHint = Callable[[Request], bool]
"""Says whether a request may fit in what became free."""


class QueueState(StrEnum):
    """The parts of the queue, as kube-scheduler names them."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


@dataclass(slots=True)
class QueuedGroup:
    """Requests that are placed together; most groups have one."""

    key: GroupKey
    since: int = 0
    members: dict[str, Request] = field(default_factory=dict)
    hints: frozenset[ClusterEvent] | None = None
    """While it is unschedulable, the events that may let it fit; empty: it backs off; None: it is active."""
    until: float = 0.0
    """When it becomes active in any case."""
    activated_by_deletion: bool = False
    """It is active only because something became free."""
    nominated: bool = False
    """Pods were evicted for it: it comes before other groups of its priority."""
    partly_bound: bool = False
    """Some pods of the gang are bound, and too few: it comes before all other groups."""
    by_size: bool = False
    """Larger groups come before smaller ones of their priority, as the policy was published."""

    @property
    def state(self) -> QueueState:
        """The part of the queue that holds the group; no event ends a backoff."""
        if self.hints is None:
            return QueueState.ACTIVE
        return QueueState.UNSCHEDULABLE if self.hints else QueueState.BACKOFF

    @property
    def rank(self) -> Rank:
        """The order of the queue: the group with the smallest rank comes first."""
        members = self.members.values()
        priority = max(each.priority for each in members)
        size = max(each.demand.memory or 0 for each in members) if self.by_size else 0
        return not self.partly_bound, -priority, not self.nominated, -size, self.since

    @property
    def shape(self) -> Hashable:
        """Groups of one shape fit in the same places; None: where it fits depends on other pods."""
        if len(self.members) > 1:
            return None
        (alone,) = self.members.values()
        return None if alone.signature is None or alone.gang else (alone.signature, self.nominated)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often the binding of a pod failed, and when it is tried again."""

    times: int
    until: float


class SchedulingQueue:
    """Every pending pod."""

    def __init__(
        self, initial_backoff: float = 0.5, max_backoff: float = 30.0, *, largest_first: bool = False
    ) -> None:
        self._largest_first = largest_first
        self._initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        """The longest time, in seconds, before a pod whose binding failed is tried again."""
        self._groups: dict[GroupKey, QueuedGroup] = {}
        self._active: list[tuple[Rank, GroupKey]] = []
        self._since: dict[str, int] = {}
        self._keys: dict[str, GroupKey] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._numbers = count()
        self._by_hint: dict[ClusterEvent, dict[Hashable, dict[GroupKey, QueuedGroup]]] = {
            event: {} for event in ClusterEvent
        }
        """Unschedulable groups by queueing hint and by shape: one group of each shape is checked."""
        self._requesting_devices: set[str] = set()
        self._nominated: set[str] = set()
        self._partly_bound: set[GroupKey] = set()
        self.activated_by_deletion = False
        """Whether the group that was popped last was active only because something became free."""

    def __len__(self) -> int:
        return sum(len(group.members) for group in self._groups.values())

    @property
    def has_active(self) -> bool:
        """Whether a group may be active."""
        return bool(self._active)

    def pods_by_queue(self) -> dict[str, int]:
        """Return the number of pods in each part of the queue."""
        pods: Counter[str] = Counter(dict.fromkeys(QueueState, 0))
        for group in self._groups.values():
            pods[group.state] += len(group.members)
        return dict(pods)

    def group_of(self, identity: str) -> QueuedGroup | None:
        """Return the group of a request; None where the queue does not hold it."""
        group = self._groups.get(self._keys.get(identity, ("", "")))
        return group if group is not None and identity in group.members else None

    @property
    def requesting_devices(self) -> Set[str]:
        """The ids of queued pods that request accelerators."""
        return self._requesting_devices

    def next_active(self, limit: int) -> list[str]:
        """Return the ids of up to `limit` active pods, the next one first."""
        keys = [key for _, key in heapq.nsmallest(limit, self._active)]
        return [uid for key in keys if key in self._groups for uid in self._groups[key].members][:limit]

    def add(self, request: Request, now: float) -> None:
        """Add a request, or a changed one; an unchanged one stays unschedulable."""
        key = _key(request)
        if self._keys.get(request.id, key) != key:
            self.remove(request.id)
        self._keys[request.id] = key
        group = self._groups.setdefault(key, self._new_group(key))
        if group.members.get(request.id) == request:
            return
        self._add_member(group, request)
        backoff = self._backoffs.get(request.id)
        if backoff is not None and backoff.until > now:
            self._deactivate(group, frozenset(), backoff.until)
        else:
            self._activate(group)

    def _new_group(self, key: GroupKey) -> QueuedGroup:
        return QueuedGroup(key, partly_bound=key in self._partly_bound, by_size=self._largest_first)

    def remove(self, identity: str) -> None:
        """Remove a request: its pod is bound, or deleted."""
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
        """Put a request for which pods were evicted before others of its priority; or end that."""
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
        """Put gangs of which some pods are bound, but fewer than the gang needs, before all other groups."""
        for key in bound.keys() & self._groups.keys():
            group = self._groups[key]
            gang = next(iter(group.members.values())).gang
            if gang is not None and bound[key] < gang.size:
                self._partly_bound.add(key)
                group.partly_bound = True
                self._activate(group)

    def activate(self, identity: str) -> None:
        """Make a request's group active."""
        group = self.group_of(identity)
        if group is not None and group.hints is not None:
            self._activate(group)

    def pop(self) -> list[Request]:
        """Remove the next active group and return its requests; empty where no group is active."""
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
        """Add refused requests to the unschedulable part, where they wait for an event of their hints."""
        for member in members:
            key = self._keys.setdefault(member.id, _key(member))
            group = self._groups.setdefault(key, self._new_group(key))
            if member.id not in group.members:  # else a newer version was added during the cycle
                self._add_member(group, member)
            self._deactivate(group, hints, now + SAFETY_NET)

    def record_failure(self, identity: str, now: float) -> None:
        """Record that the binding of a request failed: it backs off."""
        times = self._backoffs[identity].times + 1 if identity in self._backoffs else 1
        pause = min(self.max_backoff, self._initial_backoff * 2 ** min(times - 1, 16))
        self._backoffs[identity] = Backoff(times, now + pause)

    def move_to_active(self, events: frozenset[ClusterEvent], fits: FitHint = lambda request: True) -> int:
        """Activate the groups with one of these events among their hints; return how many groups that are.

        Where something became free, `fits` is asked first, for one group of each shape.
        """
        moved: dict[GroupKey, QueuedGroup] = {}
        fitting: dict[GroupKey, QueuedGroup] = {}
        for event in events:
            for shape, groups in self._by_hint[event].items():
                if event is not ClusterEvent.POD_DELETED or shape is None:
                    moved |= groups
                elif fits(_any_request(groups)):
                    fitting |= groups
        for key, group in (fitting | moved).items():
            self._activate(group)
            group.activated_by_deletion = key not in moved
        return len(fitting | moved)

    def flush_expired(self, now: float) -> float | None:
        """Activate the groups whose time has come, and return when the next one's comes."""
        inactive = [group for group in self._groups.values() if group.hints is not None]
        for group in inactive:
            if group.until <= now:
                self._activate(group)
        return min((group.until for group in inactive if group.until > now), default=None)

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
        """Move a group out of the active part until an event of its hints, or until a time."""
        self._remove_from_hints(group)
        group.hints, group.until = hints, until
        for event in hints:
            self._by_hint[event].setdefault(group.shape, {})[group.key] = group

    def _remove_from_hints(self, group: QueuedGroup) -> None:
        """Remove a group from the index of hints; call this before its members, and so its shape, change."""
        for event in group.hints or ():
            groups = self._by_hint[event].get(group.shape, {})
            groups.pop(group.key, None)
            if not groups:
                self._by_hint[event].pop(group.shape, None)

    def _activate(self, group: QueuedGroup) -> None:
        self._remove_from_hints(group)
        group.hints, group.activated_by_deletion = None, False
        heapq.heappush(self._active, (group.rank, group.key))


def _any_request(groups: Mapping[GroupKey, QueuedGroup]) -> Request:
    return next(request for group in groups.values() for request in group.members.values())


def _key(request: Request) -> GroupKey:
    return (request.namespace, request.gang.name) if request.gang else ("", request.id)

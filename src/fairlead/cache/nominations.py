"""Places that are reserved for preemptors until their victims are gone. Pure.

A reservation counts in the engine's cluster like a pod: the next pending pod does not get what victims leave.
It ends when the preemptor gets a new decision, is deleted, or has waited for too long.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fairlead.placement import Placement
from fairlead.schedule import EngineCluster


@dataclass(frozen=True, slots=True)
class Nomination:
    """A place that is reserved for a pod."""

    placement: Placement
    awaited: frozenset[str] = frozenset()
    """The ids of placements that end soon and make room for it: its victims, and leaving pods."""
    until: float = float("inf")
    """When the reservation ends in any case."""


class Nominations:
    """All reservations, by the id of the preemptor and by node."""

    def __init__(self, cluster: EngineCluster) -> None:
        self._cluster = cluster
        self._by_uid: dict[str, Nomination] = {}
        self._on: dict[str, set[str]] = {}
        self._vacated: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uid)

    def reserve(self, nomination: Nomination) -> None:
        """Reserve a place for a preemptor until its victims are gone."""
        placement = nomination.placement
        uid = placement.request.id
        self._pop(uid)
        self._by_uid[uid] = nomination
        self._on.setdefault(placement.node, set()).add(uid)
        if self._cluster.placement(uid) is None and self._cluster.node(placement.node) is not None:
            self._cluster.bind(placement, strict=False)

    def withdraw(self, uid: str) -> Nomination | None:
        """End a reservation, so that the pod can get a new decision."""
        nomination = self._pop(uid)
        if nomination is not None and self._cluster.placement(uid) == nomination.placement:
            self._cluster.release(uid)
        return nomination

    def give_up(self, uid: str) -> None:
        """End a reservation for good: other pods may have the place."""
        if (nomination := self.withdraw(uid)) is not None:
            self.vacate(nomination.placement.node)

    def vacate(self, node: str) -> None:
        """Record that a reserved place on a node is free again."""
        self._vacated.add(node)

    def take_vacated(self) -> set[str]:
        """Return and clear the nodes on which a reserved place became free."""
        vacated, self._vacated = self._vacated, set()
        return vacated

    def _pop(self, uid: str) -> Nomination | None:
        nomination = self._by_uid.pop(uid, None)
        if nomination is not None:
            self._on[nomination.placement.node].discard(uid)
        return nomination

    def of(self, uid: str) -> Nomination | None:
        """Return a pod's reservation."""
        return self._by_uid.get(uid)

    def on(self, node: str) -> list[Placement]:
        """Return the places that are reserved on a node."""
        return [self._by_uid[uid].placement for uid in sorted(self._on.get(node, ()))]

    def unblocked(self, placed: Callable[[str], object]) -> list[str]:
        """Return the preemptors with an awaited placement that has ended; `placed` returns None for it."""
        return [uid for uid, each in self._by_uid.items() if any(placed(one) is None for one in each.awaited)]

    def expired(self, now: float) -> list[str]:
        """Return the preemptors that have waited for too long."""
        return [uid for uid, each in self._by_uid.items() if each.until <= now]

"""Places that are reserved for preemptors until their victims are gone. Pure.

A reservation counts in the engine's cluster like a pod: what victims leave is not given to the next pod that
waits. It ends when the preemptor is decided again, goes away, or has waited for too long.
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
    """The ids of placements that end soon and make room for it: its victims, and pods that are leaving."""
    until: float = float("inf")
    """When the reservation is given up in any case."""


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
        """Count a place as taken for a preemptor that waits until others are gone."""
        placement = nomination.placement
        uid = placement.request.id
        self._pop(uid)
        self._by_uid[uid] = nomination
        self._on.setdefault(placement.node, set()).add(uid)
        if self._cluster.placement(uid) is None and self._cluster.node(placement.node) is not None:
            self._cluster.bind(placement, strict=False)

    def withdraw(self, uid: str) -> Nomination | None:
        """End a reservation, so that the pod can be decided again."""
        found = self._pop(uid)
        if found is not None and self._cluster.placement(uid) == found.placement:
            self._cluster.release(uid)
        return found

    def give_up(self, uid: str) -> None:
        """End a reservation for good: other pods may have the place."""
        if (found := self.withdraw(uid)) is not None:
            self.vacate(found.placement.node)

    def vacate(self, node: str) -> None:
        """Note that a reserved place on a node is free again."""
        self._vacated.add(node)

    def take_vacated(self) -> set[str]:
        """Take out the nodes on which a reserved place became free."""
        found, self._vacated = self._vacated, set()
        return found

    def _pop(self, uid: str) -> Nomination | None:
        found = self._by_uid.pop(uid, None)
        if found is not None:
            self._on[found.placement.node].discard(uid)
        return found

    def of(self, uid: str) -> Nomination | None:
        """Return a pod's reservation."""
        return self._by_uid.get(uid)

    def on(self, node: str) -> list[Placement]:
        """Return the places that are reserved on a node."""
        return [self._by_uid[uid].placement for uid in sorted(self._on.get(node, ()))]

    def unblocked(self, placed: Callable[[str], object]) -> list[str]:
        """Return the preemptors of which an awaited placement is gone; `placed` says whether one is there."""
        return [uid for uid, each in self._by_uid.items() if any(placed(one) is None for one in each.awaited)]

    def expired(self, now: float) -> list[str]:
        """Return the preemptors that have waited for too long."""
        return [uid for uid, each in self._by_uid.items() if each.until <= now]

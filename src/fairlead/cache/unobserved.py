"""Devices that are allocated by claims which no watch has shown yet. Pure.

Pods and claims arrive by two watches, in no common order: a pod may be seen bound and deleted before its
claim is seen at all. Until the claim is seen, or is known to be deleted too, its devices are not free.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.cluster.watch.changes import Key
from fairlead.placement import Placement


@dataclass(slots=True)
class UnobservedAllocation:
    """The placement of a pod, and its claims that no watch has shown yet."""

    placement: Placement
    unseen: set[Key]


class UnobservedAllocations:
    """Allocations that no watch has shown yet, by pod."""

    def __init__(self) -> None:
        self._allocations: dict[str, UnobservedAllocation] = {}
        self._pods: dict[Key, str] = {}

    def add(self, placement: Placement, claims: Iterable[Key]) -> None:
        """Record that these claims are about to be allocated for a placement."""
        uid = placement.request.id
        self.drop(uid)
        keys = set(claims)
        if keys:
            self._allocations[uid] = UnobservedAllocation(placement, keys)
            self._pods |= dict.fromkeys(keys, uid)

    def observe(self, claim: Key) -> str:
        """Record that a claim was seen with its devices; return its pod where it was the last one."""
        uid = self._pods.pop(claim, "")
        if uid and not self._allocations[uid].unseen - {claim}:
            self.drop(uid)
            return uid
        if uid:
            self._allocations[uid].unseen.discard(claim)
        return ""

    def of(self, uid: str) -> Placement | None:
        """Return the placement of a pod whose claims have not all been seen."""
        allocation = self._allocations.get(uid)
        return allocation.placement if allocation else None

    def claims(self, uid: str) -> tuple[str, ...]:
        """Return the names of the claims of a pod that have not been seen."""
        allocation = self._allocations.get(uid)
        return tuple(sorted(name for _, name in allocation.unseen)) if allocation else ()

    def drop(self, uid: str) -> None:
        """Drop the allocation of a pod: it was not written, or the claims were deallocated."""
        allocation = self._allocations.pop(uid, None)
        for key in allocation.unseen if allocation else ():
            self._pods.pop(key, None)

"""Devices that were given by claims which have not been seen yet. Pure.

Pods and claims are told of by two watches, in no common order: a pod may be seen bound and gone before its
claim is seen at all. Until it is, or is known to be gone too, what it holds is not free.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.cluster.watch.changes import Key
from fairlead.placement import Placement


@dataclass(slots=True)
class UnobservedAllocation:
    """What a pod was given, and the claims that will say so."""

    placement: Placement
    unseen: set[Key]


class UnobservedAllocations:
    """What is owed, by pod."""

    def __init__(self) -> None:
        self._allocations: dict[str, UnobservedAllocation] = {}
        self._pods: dict[Key, str] = {}

    def add(self, placement: Placement, claims: Iterable[Key]) -> None:
        """Note that these claims are about to be given what a placement says."""
        uid = placement.request.id
        self.drop(uid)
        keys = set(claims)
        if keys:
            self._allocations[uid] = UnobservedAllocation(placement, keys)
            self._pods |= dict.fromkeys(keys, uid)

    def observe(self, claim: Key) -> str:
        """Note that a claim was seen with its devices; return whose debt is paid by it, if anybody's."""
        uid = self._pods.pop(claim, "")
        if uid and not self._allocations[uid].unseen - {claim}:
            self.drop(uid)
            return uid
        if uid:
            self._allocations[uid].unseen.discard(claim)
        return ""

    def of(self, uid: str) -> Placement | None:
        """Return what a pod was given by claims that have not all been seen."""
        debt = self._allocations.get(uid)
        return debt.placement if debt else None

    def claims(self, uid: str) -> tuple[str, ...]:
        """Return the names of the claims of a pod that have not been seen."""
        debt = self._allocations.get(uid)
        return tuple(sorted(name for _, name in debt.unseen)) if debt else ()

    def drop(self, uid: str) -> None:
        """Forget what a pod was given: nothing came of it, or it was taken back."""
        debt = self._allocations.pop(uid, None)
        for key in debt.unseen if debt else ():
            self._pods.pop(key, None)

"""Pending pods by the claims that they name: a change of a claim concerns these pods alone. Pure."""

from collections.abc import Iterable

from fairlead.cluster.watch.changes import Key


class ClaimIndex:
    """Pending pods by the claims that they name."""

    def __init__(self) -> None:
        self._pods_by_claim: dict[Key, set[str]] = {}
        self._claims_by_pod: dict[str, frozenset[Key]] = {}

    def put(self, uid: str, claims: Iterable[Key]) -> None:
        """Store the claims that a pod names now."""
        named = frozenset(claims)
        before = self._claims_by_pod.get(uid)
        if named == before or not (named or before):
            return  # most pods name none
        self.drop(uid)
        if not named:
            return
        self._claims_by_pod[uid] = named
        for key in named:
            self._pods_by_claim.setdefault(key, set()).add(uid)

    def drop(self, uid: str) -> None:
        """Remove a pod: it is no longer pending."""
        for key in self._claims_by_pod.pop(uid, ()):
            self._pods_by_claim[key].discard(uid)
            if not self._pods_by_claim[key]:
                del self._pods_by_claim[key]

    @property
    def all_pods(self) -> frozenset[str]:
        """The ids of all pods that name a claim."""
        return frozenset(self._claims_by_pod)

    def of(self, claim: Key) -> set[str]:
        """Return the ids of the pods that name a claim."""
        return self._pods_by_claim.get(claim, set())

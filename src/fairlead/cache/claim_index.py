"""Who waits for which claim: a claim that comes concerns those who name it, and no others. Pure."""

from collections.abc import Iterable

from fairlead.cluster.watch.changes import Key


class ClaimIndex:
    """Waiting pods by the claims that they name."""

    def __init__(self) -> None:
        self._by: dict[Key, set[str]] = {}
        self._named: dict[str, frozenset[Key]] = {}

    def put(self, uid: str, claims: Iterable[Key]) -> None:
        """Note which claims a pod names now."""
        named = frozenset(claims)
        before = self._named.get(uid)
        if named == before or not (named or before):
            return  # most pods name none
        self.drop(uid)
        if not named:
            return
        self._named[uid] = named
        for key in named:
            self._by.setdefault(key, set()).add(uid)

    def drop(self, uid: str) -> None:
        """Forget a pod: it waits no more."""
        for key in self._named.pop(uid, ()):
            self._by[key].discard(uid)
            if not self._by[key]:
                del self._by[key]

    @property
    def everybody(self) -> frozenset[str]:
        """Who names any claim."""
        return frozenset(self._named)

    def of(self, claim: Key) -> set[str]:
        """Return who names a claim."""
        return self._by.get(claim, set())

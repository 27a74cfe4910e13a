"""Claims as last seen, by name and by the node on which they hold devices. Pure."""

from collections.abc import Container

from fairlead.cache.pod_changes import pools
from fairlead.cache.types import LiveClaim, LivePod
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.manifest.pod.claim_names import claims_named


class ClaimCache:
    """Every claim of the cluster."""

    def __init__(self) -> None:
        self._claims: dict[Key, LiveClaim] = {}
        self._on: dict[str, set[Key]] = {}

    def on_event(self, change: ObjectChange[LiveClaim]) -> tuple[set[str], set[str]]:
        """Store a change; return the nodes on which the claim held devices, and holds devices now."""
        before, now = self._claims.pop(change.key, None), change.new
        for pool in pools(before):
            self._on[pool].discard(change.key)
        for pool in pools(now):
            self._on.setdefault(pool, set()).add(change.key)
        if now is not None:
            self._claims[change.key] = now
        return pools(before), pools(now)

    def get(self, key: Key) -> LiveClaim | None:
        """Return a claim."""
        return self._claims.get(key)

    def of(self, pod: LivePod) -> dict[str, LiveClaim]:
        """Return the claims that a pod names and that exist, by the pod's name for them."""
        named = claims_named(pod)
        return {name: self._claims[key] for name, key in named.items() if key in self._claims}

    def on(self, node: str) -> list[LiveClaim]:
        """Return the claims that hold devices on a node."""
        return [self._claims[key] for key in self._on.get(node, ())]

    def orphaned(self, pods: Container[str]) -> list[LiveClaim]:
        """Return the allocated claims that none of these pods uses: a controller frees them soon."""
        return [claim for claim in self._claims.values() if claim.results and claim.is_orphaned(pods)]

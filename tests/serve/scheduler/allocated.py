"""The allocated bytes of each device, read from the API's objects alone."""

from collections import Counter
from collections.abc import Iterable

from fairlead.cache.types import PLACEMENT, LiveClaim, LivePod
from fairlead.manifest import amounts
from fairlead.placement import parse_shares

Device = tuple[str, str]
"""A node, and one of its devices."""


def allocated_bytes(pods: Iterable[LivePod], claims: Iterable[LiveClaim], whole: int) -> Counter[Device]:
    """Return the allocated bytes of each device; what a claim holds is not counted again for its pods."""
    held: Counter[Device] = Counter()
    claimed: set[str] = set()
    for claim in claims:
        claimed |= set(claim.users) if claim.results else set()
        for result in claim.results:
            size = amounts.quantity("memory", result.consumed_capacity.get("memory", whole))
            held[result.pool, result.device] += size
    for pod in pods:
        if pod.spec.node_name and not pod.ended and pod.metadata.uid not in claimed:
            for share in parse_shares(pod.metadata.annotations.get(PLACEMENT, "[]")) or ():
                held[pod.spec.node_name, share.device] += share.memory
    return held

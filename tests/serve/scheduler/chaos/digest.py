"""A digest of the cluster in a cache: two caches with the same digest hold the same cluster."""

import hashlib
from contextlib import suppress

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import CLAIMS, NODES, PODS, RULES, SLICES
from fairlead.cluster.client import Client
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import MissingApiError
from tests import catalogs


def digest(cache: SchedulerCache) -> str:
    """Return the digest; equal caches have equal digests."""
    cluster = cache.cluster
    placed = sorted(
        (
            placement.request.id,
            placement.node,
            sorted((share.device, share.memory) for share in placement.shares),
        )
        for placement in cluster.placements()
    )
    free = [cluster.free(name) for name in sorted(node.name for node in cluster.nodes())]
    return hashlib.sha256(repr((placed, free)).encode()).hexdigest()[:16]


async def listed(client: Client, scheduler: str) -> SchedulerCache:
    """Return the cache of a fresh list, as a scheduler of that name would have it."""
    cache = SchedulerCache(catalogs.shipped(), scheduler)
    for kind in (SLICES, CLAIMS, *RULES, NODES, PODS):
        with suppress(MissingApiError):
            for item in (await client.list(kind)).items:
                cache.on_event(ObjectChange(None, item))
    cache.sync()
    return cache

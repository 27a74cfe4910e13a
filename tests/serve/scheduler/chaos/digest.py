"""A short mark of all that a fold says of a cluster: two that agree on it agree on everything."""

import hashlib
from contextlib import suppress

from fairlead.cluster.changes import Change
from fairlead.cluster.client import Client
from fairlead.errors import MissingApiError
from fairlead.serve.scheduler.fold import Fold
from fairlead.serve.scheduler.seen import CLAIMS, NODES, PODS, RULES, SLICES
from tests import catalogs


def digest(fold: Fold) -> str:
    """Return the mark; equal folds have equal marks."""
    cluster = fold.cluster
    placed = sorted(
        (each.request.id, each.node, sorted((share.device, share.memory) for share in each.shares))
        for each in cluster.placements()
    )
    free = [cluster.free(name) for name in sorted(each.name for each in cluster.nodes())]
    return hashlib.sha256(repr((placed, free)).encode()).hexdigest()[:16]


async def listed(client: Client, scheduler: str) -> Fold:
    """Return the fold of a fresh list, as a scheduler of that name would have it."""
    fold = Fold(catalogs.shipped(), scheduler)
    for kind in (SLICES, CLAIMS, *RULES, NODES, PODS):
        with suppress(MissingApiError):
            for item in (await client.list(kind)).items:
                fold.note(Change(None, item))
    fold.settle()
    return fold

"""Pods with allocated claims: they go where the devices are, and take no more devices."""

from collections.abc import Collection
from dataclasses import replace

from fairlead.errors import ManifestError
from fairlead.manifest.types.live import LiveClaim
from fairlead.request import Demand, LabelTerm, MatchOperator, Request, Selector


def with_allocated_claims(request: Request, claims: Collection[LiveClaim]) -> Request:
    """Return the request of a pending pod, limited to the nodes of its allocated claims."""
    allocated = [claim for claim in claims if claim.results]
    if not allocated:
        return request
    if len(allocated) < len(claims):
        raise ManifestError(
            "some of its claims are allocated and some are not", "use one claim, or one pod for each claim"
        )
    pools = {result.pool for claim in allocated for result in claim.results}
    names = tuple(LabelTerm("metadata.name", MatchOperator.IN, (pool,)) for pool in sorted(pools))
    selector = Selector(request.selector.terms, (*request.selector.names, *names))
    return replace(request, demand=Demand(), selector=selector)

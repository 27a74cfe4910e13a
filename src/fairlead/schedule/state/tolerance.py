"""The slowdown that requests tolerate: their SLO over the latency that is expected alone."""

from collections.abc import Iterable
from math import inf

from fairlead.request import Request


def tolerated_slowdown(requests: Iterable[Request], model: str) -> float:
    """Return the largest slowdown that all these requests tolerate on one model; infinite without an SLO."""
    return min((_tolerated(request, model) for request in requests), default=inf)


def _tolerated(request: Request, model: str) -> float:
    estimate = request.estimates.get(model)
    if request.slo is None or estimate is None or not estimate.seconds:
        return inf
    return request.slo / estimate.seconds

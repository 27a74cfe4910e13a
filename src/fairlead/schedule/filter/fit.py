"""Whether there is a place at all: the filters without the scores, for searches that try many things."""

import numpy as np

from fairlead.request import Request
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.inter_pod import SOCIAL_FILTERS
from fairlead.schedule.score.candidates import open_to
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Ints, Mask


def places_of(ask: CompiledRequest, request: Request, rows: Ints) -> tuple[Ints, Mask]:
    """Return the rows that take a request, neighbours and all, and which of their accelerators suffice."""
    rows, free = open_to(ask, rows)
    if len(rows) and (request.social or ask.cluster.crowd.held):
        passed = np.ones(len(rows), np.bool_)
        for rule in SOCIAL_FILTERS.values():
            passed &= rule(ask, request)[rows]
        rows, free = rows[passed], free[passed]
    return rows, free


def fits(cluster: EngineCluster, request: Request, *, whole: bool = False) -> bool:
    """Say whether a request has a place anywhere."""
    ask = CompiledRequest(cluster, request, whole=whole)
    return bool(len(places_of(ask, request, cluster.rows())[0]))

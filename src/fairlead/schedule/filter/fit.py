"""Feasibility: the filters without the scores, for searches that try many variants of a request."""

import numpy as np

from fairlead.request import Request
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.inter_pod import INTER_POD_FILTERS
from fairlead.schedule.filter.rules import BY_REQUEST, SharingRules
from fairlead.schedule.score.candidates import filter_rows
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Ints, Mask


def feasible_rows(compiled: CompiledRequest, request: Request, rows: Ints) -> tuple[Ints, Mask]:
    """Return the rows that pass every filter, inter-pod rules included, and which accelerators suffice."""
    rows, free = filter_rows(compiled, rows)
    if len(rows) and (request.inter_pod or compiled.cluster.pod_counts.existing_terms):
        passed = np.ones(len(rows), np.bool_)
        for rule in INTER_POD_FILTERS.values():
            passed &= rule(compiled, request)[rows]
        rows, free = rows[passed], free[passed]
    return rows, free


def fits(cluster: EngineCluster, request: Request, rules: SharingRules = BY_REQUEST) -> bool:
    """Return whether a request fits anywhere."""
    compiled = CompiledRequest(cluster, request, rules)
    return bool(len(feasible_rows(compiled, request, cluster.rows())[0]))

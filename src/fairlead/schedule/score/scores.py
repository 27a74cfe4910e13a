"""How good a place is: each score looks at many places at once and gives 0 to 100, more being better."""

from collections.abc import Callable
from typing import Final

import numpy as np

from fairlead.request import WHOLE, Request, Taint, TaintEffect
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import matching_rows
from fairlead.schedule.score.candidates import Candidates
from fairlead.schedule.score.fragments import added_fragments
from fairlead.schedule.state.columns import Floats

Score = Callable[[Candidates], Floats | float]


def published_descent(places: Candidates) -> Floats:
    """Like places that leave the fewest fragments, in the hundred steps of the published form."""
    return _steps(added_fragments(places, published=True))


def descent(places: Candidates) -> Floats:
    """Like places that leave the fewest fragments, CPU and memory being spent as requests come."""
    return _steps(added_fragments(places, published=False))


def snug(places: Candidates) -> Floats:
    """Like places that leave little over: on the accelerators taken, and on all of the node's."""
    left = places.idle_left_total / (WHOLE * places.compiled.cluster.scale.devices)
    if places.chosen.shape[1]:
        left = (left + places.idle_left.sum(axis=1) / (WHOLE * places.compiled.count)) / 2
    return 100 * (1 - left)


def best_fit(places: Candidates) -> Floats:
    """Like nodes that have the least CPU and accelerators left over, both against the largest node."""
    scale = places.compiled.cluster.scale
    idle = places.idle_left_total / (WHOLE * scale.devices)
    return 50 * (2 - places.cpu_left / scale.cpu - idle)


def packed(places: Candidates) -> Floats:
    """Like nodes and accelerators that are nearly full."""
    return 100 - _room(places)


def roomy(places: Candidates) -> Floats:
    """Like nodes and accelerators that are nearly empty."""
    return _room(places)


def enough(places: Candidates) -> Floats | float:
    """Like accelerators on which it is expected to be fast; within an SLO all are fast enough."""
    return 0.0 if places.compiled.request.slo is not None else swift(places)


def swift(places: Candidates) -> Floats | float:
    """Like accelerators on which it is expected to be fast."""
    compiled = places.compiled
    if not compiled.request.estimates or not compiled.count:
        return 0.0
    return _relative(compiled.seconds[places.kind].max(axis=1), _least(compiled, compiled.seconds))


def thrifty(places: Candidates) -> Floats | float:
    """Like accelerators on which it is expected to take little energy."""
    compiled = places.compiled
    if not compiled.request.estimates or not compiled.count:
        return 0.0
    return _relative(
        compiled.joules[places.kind].sum(axis=1), compiled.count * _least(compiled, compiled.joules)
    )


def wished(places: Candidates) -> Floats | float:
    """Like nodes that the request prefers, and those without taints that it only bears."""
    request, columns = places.compiled.request, places.compiled.cluster.columns
    if not request.preferences and len(columns.taint_sets) == 1:
        return 0.0
    liked = np.zeros(len(places.row))
    for preference in request.preferences:
        liked += preference.weight * matching_rows(places.compiled, preference.selector, places.row)
    shunned = np.array([_shunned(request, taints) for taints in columns.taint_sets])
    liked -= 100 * shunned[columns.taints[places.row]]
    return 100 * liked / max(sum(preference.weight for preference in request.preferences), 100)


def _shunned(request: Request, taints: tuple[Taint, ...]) -> bool:
    return any(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        and not any(toleration.covers(taint) for toleration in request.tolerations)
        for taint in taints
    )


SCORES: Final[dict[str, Score]] = {
    "wished": wished,
    "descent": descent,
    "published-descent": published_descent,
    "snug": snug,
    "best-fit": best_fit,
    "packed": packed,
    "roomy": roomy,
    "enough": enough,
    "swift": swift,
    "thrifty": thrifty,
}


def _steps(loss: Floats) -> Floats:
    """Return 0 to 99, 50 where nothing is lost; in steps, so that other scores decide among equals."""
    steps: Floats = np.floor(100 / (1 + np.exp(np.minimum(loss / WHOLE, 50))))
    return steps


def _room(places: Candidates) -> Floats:
    columns = places.compiled.cluster.columns
    cpu = places.cpu_left / np.maximum(columns.cpu_total[places.row], 1)
    if not places.chosen.shape[1]:
        return 100 * np.asarray(cpu, np.float64)
    node = places.idle_left_total / (WHOLE * np.maximum(columns.width_total[places.row], 1))
    device = places.idle_left.mean(axis=1) / WHOLE
    room: Floats = 100 * (0.1 * cpu + 0.5 * node + 0.4 * device)
    return room


def _least(compiled: CompiledRequest, figures: Floats) -> float:
    """Return the least that is expected on any accelerator that there is now and that it may be on."""
    there = np.array(compiled.cluster.columns.present, np.int64)
    found = figures[there[compiled.allowed[there]]]
    return float(np.nanmin(found)) if not np.isnan(found).all() else np.nan


def _relative(figures: Floats, least: float) -> Floats:
    """Return 100 for the least, 50 for twice as much, and 0 where nothing is known."""
    share = 100 * max(least, 1e-12) / np.maximum(figures, 1e-12)
    return np.nan_to_num(np.minimum(share, 100), nan=0.0)

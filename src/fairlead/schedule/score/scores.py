"""Scores: each rates many candidate places at once from 0 to 100; more is better."""

from collections.abc import Callable
from typing import Final

import numpy as np

from fairlead.request import WHOLE, Request, Taint, TaintEffect
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import matching_rows
from fairlead.schedule.score.candidates import Candidates
from fairlead.schedule.score.fragments import LASTING, PUBLISHED, SPENT, added_fragments
from fairlead.schedule.state.columns import Floats

Score = Callable[[Candidates], Floats | float]
_NOT_KNOWN: Final = -1.0
"""The score of a figure that is not known: below the worst known one, also where `snug` breaks ties."""


def published_descent(places: Candidates) -> Floats:
    """Prefer places that add the fewest fragments, in the hundred steps of the published form."""
    return _steps(added_fragments(places, PUBLISHED))


def descent(places: Candidates) -> Floats:
    """Prefer places that add the fewest fragments, as CPU and memory run out with more requests."""
    return _steps(added_fragments(places, SPENT))


def lasting(places: Candidates) -> Floats:
    """Prefer places that add the fewest fragments, with no more capacity than CPU and memory last for."""
    return _steps(added_fragments(places, LASTING))


def snug(places: Candidates) -> Floats:
    """Prefer places that leave little free: on the accelerators taken, and on all of the node."""
    left = places.idle_left_total / (WHOLE * places.compiled.cluster.scale.devices)
    if places.chosen.shape[1]:
        left = (left + places.idle_left.sum(axis=1) / (WHOLE * places.compiled.count)) / 2
    return 100 * (1 - left)


def best_fit(places: Candidates) -> Floats:
    """Prefer nodes with the least CPU and accelerator capacity left, relative to the largest node."""
    scale = places.compiled.cluster.scale
    idle = places.idle_left_total / (WHOLE * scale.devices)
    return 50 * (2 - places.cpu_left / scale.cpu - idle)


def lot(places: Candidates) -> Floats:
    """Prefer nodes in an order that is fixed but random: by a hash of the row."""
    hashed = places.row * 2654435761 % (1 << 32)
    return np.asarray(100 * hashed / (1 << 32), np.float64)


def packed(places: Candidates) -> Floats:
    """Prefer nodes and accelerators that are nearly full."""
    return 100 - _room(places)


def roomy(places: Candidates) -> Floats:
    """Prefer nodes and accelerators that are nearly empty."""
    return _room(places)


def most_free(places: Candidates) -> Floats | float:
    """Prefer accelerators with the most free memory."""
    total = places.compiled.total_memory[places.kind]
    if not total.any():
        return 0.0
    free: Floats = (places.device_memory_left / np.maximum(total, 1)).mean(axis=1)
    return 100 * free


def enough(places: Candidates) -> Floats | float:
    """Prefer accelerators with a low expected latency; under an SLO, all that keep it are equal."""
    return 0.0 if places.compiled.request.slo is not None else swift(places)


def swift(places: Candidates) -> Floats | float:
    """Prefer accelerators with a low expected latency."""
    compiled = places.compiled
    if not compiled.request.estimates or not compiled.count:
        return 0.0
    return _relative(compiled.seconds[places.kind].max(axis=1), _least(compiled, compiled.seconds))


def thrifty(places: Candidates) -> Floats | float:
    """Prefer accelerators with a low expected energy."""
    compiled = places.compiled
    if not compiled.request.estimates or not compiled.count:
        return 0.0
    return _relative(
        compiled.joules[places.kind].sum(axis=1), compiled.count * _least(compiled, compiled.joules)
    )


def wished(places: Candidates) -> Floats | float:
    """Prefer nodes by the preferred node affinity, and nodes without untolerated PreferNoSchedule taints."""
    request, columns = places.compiled.request, places.compiled.cluster.columns
    if not request.preferences and len(columns.taint_sets) == 1:
        return 0.0
    score = np.zeros(len(places.row))
    for preference in request.preferences:
        score += preference.weight * matching_rows(places.compiled, preference.selector, places.row)
    untolerated = np.array([_has_untolerated(request, taints) for taints in columns.taint_sets])
    score -= 100 * untolerated[columns.taints[places.row]]
    return 100 * score / max(sum(preference.weight for preference in request.preferences), 100)


def _has_untolerated(request: Request, taints: tuple[Taint, ...]) -> bool:
    return any(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        and not any(toleration.covers(taint) for toleration in request.tolerations)
        for taint in taints
    )


SCORES: Final[dict[str, Score]] = {
    "wished": wished,
    "descent": descent,
    "published-descent": published_descent,
    "lasting": lasting,
    "snug": snug,
    "best-fit": best_fit,
    "lot": lot,
    "packed": packed,
    "roomy": roomy,
    "most-free": most_free,
    "enough": enough,
    "swift": swift,
    "thrifty": thrifty,
}


def _steps(loss: Floats) -> Floats:
    """Return 0 to 99, 50 where no fragments are added; in steps, so that other scores break ties."""
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
    """Return the least expected value over the present kinds of accelerator that the request allows."""
    present = np.array(compiled.cluster.columns.present, np.int64)
    values = figures[present[compiled.allowed[present]]]
    return float(np.nanmin(values)) if not np.isnan(values).all() else np.nan


def _relative(figures: Floats, least: float) -> Floats | float:
    """Return 100 for the least, 50 for twice as much, and less than any known one where none is known."""
    if np.isnan(least):
        return 0.0
    share = 100 * max(least, 1e-12) / np.maximum(figures, 1e-12)
    return np.nan_to_num(np.minimum(share, 100), nan=_NOT_KNOWN)

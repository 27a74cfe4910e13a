"""The need of a pod: from its request, the history of its image or model, and what was measured."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from fairlead.need import DEFAULT_BOUND, Need, NeedSource
from fairlead.series import Series, Staleness
from fairlead.sizing.footprint import BASE_MARGIN, MOST_RAMP, Footprint
from fairlead.sizing.grid import LEVELS, bounded, level
from fairlead.units import Bytes

TERM: Final = 3600.0
"""The seconds for which a placement is judged: the bound is the probability that its pods together need more
than the accelerator has at any sample of this time. Later the guard and every new placement judge again."""
PERIOD: Final = 15.0
"""The seconds between two refreshes of measured use."""
SAMPLES_PER_TERM: Final = int(TERM / PERIOD)
"""By the union bound, the probability per sample is the bound of the placement divided by this."""
FEWEST_SAMPLES: Final = 8
"""Steady samples of a pod below which its own use says nothing."""
HISTORY: Final = 4 * 3600.0
"""The most seconds for which the history of the image counts beside the pod's own samples."""
TAIL: Final = 0.5
"""How far an unseen peak lies above the highest seen, in units of the distance between it and the median."""
LEAST_TAIL: Final = 0.02
"""The same as a part of the highest seen, where use never changed."""


def sample_bound(bound: float) -> float:
    """Return the probability for one sample that keeps a placement of one term within a bound."""
    return bound / SAMPLES_PER_TERM


def need_of(  # noqa: PLR0913, PLR0917 - a need depends on all of them
    requested: Bytes | None,
    footprint: Footprint | None,
    observed: Series,
    started: float | None,
    now: float,
    staleness: Staleness,
    bound: float = DEFAULT_BOUND,
    limit: Bytes | None = None,
) -> Need:
    """Return the memory that a pod is expected to hold of each of its accelerators.

    `started` is None for a pod that does not run yet, `limit` the memory that its framework cannot exceed.
    `bound` is the probability for one placement; the need carries the one for each sample.
    """
    held = Bytes(round(observed.latest or 0.0)) if started is not None else Bytes(0)
    if started is None:
        return _before_start(requested, footprint, sample_bound(bound), limit)
    if limit is not None and held <= limit:
        return _fixed(limit, NeedSource.REQUEST, "", sample_bound(bound), firm=True)
    if limit is not None:
        note = "holds more than its limit: counted by what it holds"
        return _fixed(held, NeedSource.OBSERVED, note, sample_bound(bound))
    if staleness is not Staleness.FRESH:
        note = f"its measured use is {staleness.value}: counted by its request"
        return _fixed(Bytes(max(requested or 0, held)), NeedSource.REQUEST, note, sample_bound(bound))
    ramp = footprint.ramp if footprint is not None and footprint.runs else MOST_RAMP
    steady = observed.values[bisect_left(observed.times, started + ramp) :]
    if now - started < ramp or len(steady) < FEWEST_SAMPLES:
        return _in_ramp(requested, footprint, held, sample_bound(bound))
    return _steady(footprint, steady, _seconds(observed, len(steady)), sample_bound(bound))


def _fixed(size: Bytes, source: NeedSource, note: str, bound: float, *, firm: bool = False) -> Need:
    return Need((size,), (1.0,), firm, source, note, bound)


def _before_start(
    requested: Bytes | None, footprint: Footprint | None, bound: float, limit: Bytes | None
) -> Need:
    if footprint is None or not (footprint.full or footprint.least):
        note = "no history of its image: counted by its request"
        size = requested or Bytes(0) if limit is None else limit
        return _fixed(size, NeedSource.REQUEST, note, bound, firm=limit is not None)
    size = footprint.least if footprint.least is not None else footprint.full
    size = _widened(size, footprint.margin)
    if limit is not None:
        size = min(size, limit)
    firm = footprint.least is not None or limit is not None
    return _fixed(size, _source(footprint), "", bound, firm=firm)


def _in_ramp(requested: Bytes | None, footprint: Footprint | None, held: Bytes, bound: float) -> Need:
    if footprint is None or not footprint.runs or not footprint.full:
        note = "started recently, and no history of its image: counted by its request"
        return _fixed(Bytes(max(requested or 0, held)), NeedSource.REQUEST, note, bound)
    size = max(held, _widened(footprint.full, footprint.margin))
    return _fixed(size, _source(footprint), "may still grow: counted by the peak of its image", bound)


def _steady(footprint: Footprint | None, values: Sequence[float], seconds: float, bound: float) -> Need:
    ordered = sorted(values)
    bins = _merged(_counted(ordered, seconds), footprint)
    top = max(ordered[-1], LEVELS[max(bins)])
    samples = max(len(ordered), footprint.samples if footprint is not None else 0)
    tail = 1.0 / (samples + 1)
    total = sum(bins.values()) / (1 - tail)
    widening = 1 + (footprint.margin if footprint is not None else BASE_MARGIN)
    sizes = [round(LEVELS[index] * widening) for index in sorted(bins)]
    weights = [bins[index] / total for index in sorted(bins)]
    middle = ordered[len(ordered) // 2]
    beyond = top + max(TAIL * (top - middle), LEAST_TAIL * top)
    sizes.append(max(sizes[-1] + 1, round(beyond * widening)))
    weights.append(tail)
    return Need(tuple(map(Bytes, sizes)), tuple(weights), False, NeedSource.OBSERVED, "", bound)


def _counted(ordered: Sequence[float], seconds: float) -> dict[int, float]:
    """Return the seconds on each level of the grid."""
    bins: dict[int, float] = {}
    each = seconds / len(ordered)
    start = 0
    while start < len(ordered):
        index = level(ordered[start])
        end = bisect_left(ordered, LEVELS[index] + 1, start) if index < len(LEVELS) - 1 else len(ordered)
        bins[index] = (end - start) * each
        start = end
    return bins


def _merged(own: dict[int, float], footprint: Footprint | None) -> dict[int, float]:
    if footprint is not None and footprint.weights:
        known = sum(footprint.weights)
        factor = min(1.0, HISTORY / known) if known else 0.0
        for size, weight in zip(footprint.sizes, footprint.weights, strict=True):
            index = level(size)
            own[index] = own.get(index, 0.0) + weight * factor
    return bounded(own)


def _seconds(observed: Series, steady: int) -> float:
    span = observed.times[-1] - observed.times[0]
    return steady * span / (len(observed) - 1)


def _source(footprint: Footprint) -> NeedSource:
    return NeedSource.HISTORY if footprint.runs else NeedSource.PROFILE


def _widened(size: Bytes, margin: float) -> Bytes:
    return Bytes(round(size * (1 + margin)))

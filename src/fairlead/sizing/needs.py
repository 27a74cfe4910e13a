"""The need of a pod: from its request, the history of its image or model, and what was measured."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from fairlead.need import DEFAULT_BOUND, Need, NeedSource
from fairlead.series import Series, Staleness
from fairlead.sizing.footprint import MOST_RAMP, Footprint
from fairlead.sizing.grid import BORDERS, level
from fairlead.units import Bytes

TERM: Final = 3600.0
"""The seconds for which a placement is judged: the bound is the probability that its pods together need more
than the accelerator has at any sample of this time. Later the guard and every new placement judge again."""
PERIOD: Final = 15.0
"""The seconds between two samples of measured use."""
STEADY: Final = 24
"""Samples for which a sum of pods stays about the same: memory moves in steps that last some minutes."""
EXCURSIONS: Final = TERM / PERIOD / STEADY
"""The independent values of one term, ten: each has the probability per sample to be too high."""
SLACK: Final = 10.0
"""How many times Chernoff's bound exceeds the probability itself, about: for a sum that is nearly normal,
sqrt(4 * pi * log(1 / bound)), which is 8 at 1 in 100 and 11 at 1 in 10,000.
With EXCURSIONS it is a calibration, not a theorem: docs/explanation/sharing.md."""
FEWEST_SAMPLES: Final = 8
"""Steady samples of a pod below which its own use says nothing."""
HISTORY: Final = 4 * 3600.0
"""The most seconds for which the history of the image counts beside the pod's own samples."""
FEWEST_RUNS: Final = 2
"""Runs of an image below which its request counts, unless a run took more."""
DWELL: Final = 180.0
"""The seconds for which a pod holds a new peak."""
REACH: Final = 2.25
"""How many times its median use a pod may yet hold: one that has shown such a peak shows few higher ones."""
MOST_TAIL: Final = 0.2
"""The most weight of a peak that was not seen yet."""
EXCESSES: Final = ((1.1, 0.6), (1.25, 0.3), (1.5, 0.1))
"""How far a new peak lies above the highest seen, with the part of new peaks that do."""


ALIKE: Final = 5.0
"""How many times the distance between the peaks of an image's runs weighs in the excess of the next peak."""
ACQUAINTED: Final = 2.0
"""The runs of an image until which it counts as if their peaks were far apart."""


def evidence(footprint: Footprint) -> int:
    """Return 2 where a footprint sizes pods, 1 where its image has run once, 0 where no run has ended."""
    if footprint.least is not None or footprint.stated:
        return FEWEST_RUNS
    return min(footprint.runs, FEWEST_RUNS)


def sample_bound(bound: float) -> float:
    """Return the probability for one sample that keeps a placement of one term within a bound."""
    return bound * SLACK / EXCURSIONS


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
    per_sample = sample_bound(bound)
    if started is None:
        return _before_start(requested, footprint, per_sample, limit)
    held = Bytes(round(observed.latest or 0.0))
    if limit is not None and held <= limit:
        return _fixed(limit, NeedSource.REQUEST, "", per_sample, firm=True)
    if limit is not None:
        return _fixed(held, NeedSource.OBSERVED, "holds more than its limit", per_sample)
    if staleness is not Staleness.FRESH:
        note = f"its measured use is {staleness.value}: counted by its request"
        return _fixed(Bytes(max(requested or 0, held)), NeedSource.REQUEST, note, per_sample)
    ramp = footprint.ramp if footprint is not None and footprint.runs else MOST_RAMP
    steady = observed.values[bisect_left(observed.times, started + ramp) :]
    if now - started < ramp or len(steady) < FEWEST_SAMPLES:
        return _in_ramp(requested, footprint, held, per_sample)
    seconds = len(steady) * (observed.times[-1] - observed.times[0]) / (len(observed) - 1)
    return _steady(footprint, steady, seconds, per_sample)


def _fixed(size: Bytes, source: NeedSource, note: str, bound: float, *, firm: bool = False) -> Need:
    return Need((size,), (1.0,), firm, source, note, bound)


def _before_start(
    requested: Bytes | None, footprint: Footprint | None, bound: float, limit: Bytes | None
) -> Need:
    if footprint is not None and footprint.least is not None:
        size = _widened(footprint.least, footprint.margin)
        size = size if limit is None else min(size, limit)
        return _fixed(size, _source(footprint), "", bound, firm=True)
    if limit is not None:
        return _fixed(limit, NeedSource.REQUEST, "", bound, firm=True)
    if footprint is None or not _peak(footprint):
        note = "no history of its image: counted by its request"
        return _fixed(requested or Bytes(0), NeedSource.REQUEST, note, bound)
    return _by_peaks(requested, footprint, Bytes(0), "", bound)


def _in_ramp(requested: Bytes | None, footprint: Footprint | None, held: Bytes, bound: float) -> Need:
    if footprint is None or not _peak(footprint):
        note = "started recently, and no history of its image: counted by its request"
        return _fixed(Bytes(max(requested or 0, held)), NeedSource.REQUEST, note, bound)
    note = "may still grow: counted by the peak of its image"
    return _by_peaks(requested, footprint, held, note, bound)


def _by_peaks(requested: Bytes | None, footprint: Footprint, held: Bytes, note: str, bound: float) -> Need:
    """Return a need by the highest peak of all runs, with weight for a higher one.

    Of n runs and the next, the next has the highest peak with the probability 1 / (n + 1).
    While the request is not smaller than the peaks seen, nothing contradicts it: no more than it counts.
    """
    peak = max(held, _widened(_peak(footprint), footprint.margin))
    believed = requested if requested is not None and requested >= peak else None
    if believed is not None and 0 < footprint.runs < FEWEST_RUNS:
        return _fixed(believed, NeedSource.REQUEST, "its image has run once: counted by its request", bound)
    tail = 1.0 / (footprint.runs + 1) if footprint.runs else 0.0
    sizes, weights = _with_tail([peak], [1.0], tail, part=_variety(footprint))
    if believed is not None:
        sizes, weights = _joined([min(size, believed) for size in sizes], weights)
    return Need(sizes, weights, False, _source(footprint), note, bound)


def _steady(footprint: Footprint | None, values: Sequence[float], seconds: float, bound: float) -> Need:
    """Return a need by what was observed, never below what is held, with weight for a peak that was not seen.

    After T seconds the next term has a new highest peak with a probability of about TERM / T, for a part
    DWELL / T of the time. In the recording of bench/sizing.py it is 0.48 after 1.5 hours, 0.07 after 12.
    """
    ordered = sorted(values)
    bins = _own(ordered, seconds)
    known = seconds
    if footprint is not None and footprint.weights:
        known = max(known, sum(footprint.weights))
        _add_history(bins, footprint)
    widening = 1 + (footprint.margin if footprint is not None else 0.0)
    held = values[-1]
    total = sum(weight for weight, _ in bins.values())
    middles = sorted(
        (max(held, amount / weight * widening), weight / total) for weight, amount in bins.values()
    )
    tail = min(MOST_TAIL, TERM * DWELL / known**2)
    part = 1.0
    if footprint is not None and footprint.runs >= FEWEST_RUNS:
        tail, part = min(tail, 1.0 / (footprint.runs + 1)), _variety(footprint)
    reach = REACH * ordered[len(ordered) // 2] * widening
    sizes, weights = _with_tail(
        [round(size) for size, _ in middles], [weight for _, weight in middles], tail, reach, part
    )
    return Need(sizes, weights, False, NeedSource.OBSERVED, "", bound)


def _own(ordered: Sequence[float], seconds: float) -> dict[int, tuple[float, float]]:
    """Return the seconds on each level of the grid, and their product with the size."""
    bins = {}
    each = seconds / len(ordered)
    start = 0
    while start < len(ordered):
        index = level(ordered[start])
        end = bisect_left(ordered, BORDERS[index], start + 1) if index < len(BORDERS) else len(ordered)
        bins[index] = ((end - start) * each, sum(ordered[start:end]) * each)
        start = end
    return bins


def _add_history(bins: dict[int, tuple[float, float]], footprint: Footprint) -> None:
    factor = min(1.0, HISTORY / max(1.0, sum(footprint.weights)))
    for size, weight in zip(footprint.sizes, footprint.weights, strict=True):
        index = level(size)
        seconds, amount = bins.get(index, (0.0, 0.0))
        bins[index] = (seconds + weight * factor, amount + min(size, footprint.full) * weight * factor)


def _with_tail(
    sizes: list[int], weights: list[float], tail: float, reach: float = inf, part: float = 1.0
) -> tuple[tuple[Bytes, ...], tuple[float, ...]]:
    """Return sizes with weights and, above the last, peaks that were not seen yet; `part` of their excess."""
    top = sizes[-1]
    if not tail or not top:
        return _joined(sizes, weights)
    least, _ = EXCESSES[0]
    higher = [round(top * (1 + part * (max(least, min(excess, reach / top)) - 1))) for excess, _ in EXCESSES]
    return _joined(
        [*sizes, *higher],
        [*(weight * (1 - tail) for weight in weights), *(part * tail for _, part in EXCESSES)],
    )


def _joined(sizes: Iterable[int], weights: Iterable[float]) -> tuple[tuple[Bytes, ...], tuple[float, ...]]:
    """Return ascending sizes, equal ones as one."""
    joined: dict[int, float] = {}
    for size, weight in zip(sizes, weights, strict=True):
        joined[size] = joined.get(size, 0.0) + weight
    return tuple(map(Bytes, joined)), tuple(joined.values())


def _variety(footprint: Footprint) -> float:
    """Return 1 for an image with few runs or unlike peaks, less for one with many runs that are alike."""
    if not footprint.runs or not footprint.full:
        return 1.0
    apart = 1 - footprint.lowest / footprint.full
    return min(1.0, ALIKE * apart + ACQUAINTED / footprint.runs)


def _peak(footprint: Footprint) -> Bytes:
    """Return the highest peak of whole runs, or the stated one; a run that still grows shows none."""
    return footprint.full if footprint.runs else footprint.stated


def _source(footprint: Footprint) -> NeedSource:
    return NeedSource.HISTORY if footprint.runs else NeedSource.PROFILE


def _widened(size: Bytes, margin: float) -> Bytes:
    return Bytes(round(size * (1 + margin)))

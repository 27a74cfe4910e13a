"""What a GPU did, a sample every 0.2 s; pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

EVERY: Final = 0.2
"""Seconds between two samples."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment; None: the driver does not report it."""

    at: float
    """Seconds since the epoch, as in the records of jobs."""
    memory: int | None = None
    """Bytes in use."""
    busy: float | None = None
    """0 to 1: the part of the time in which some kernel ran."""
    watts: float | None = None
    joules: float | None = None
    """Drawn since the driver was loaded."""


def between(samples: Sequence[GpuSample], begin: float, end: float) -> Sequence[GpuSample]:
    """Return the samples from one time to another; where there is no pair, also those right outside."""
    times = [sample.at for sample in samples]
    first, last = bisect_left(times, begin), bisect_right(times, end)
    return samples[first:last] if last - first > 1 else samples[max(0, first - 1) : last + 1]


def gpu_figures(samples: Sequence[GpuSample]) -> dict[str, Any]:
    """Return the means and the most of what was measured; None: nothing was."""
    memory = _values(sample.memory for sample in samples)
    busy, watts = _values(sample.busy for sample in samples), _values(sample.watts for sample in samples)
    return {
        "memory_mean_mib": _rounded(_mean(memory), 1 / _MIB, 0),
        "memory_max_mib": _rounded(max(memory, default=None), 1 / _MIB, 0),
        "utilisation_percent": _rounded(_mean(busy), 100, 1),
        "power_w": _rounded(_mean(watts), 1, 1),
        "energy_j": _rounded(_energy(samples), 1, 0),
    }


def mean_busy(samples: Sequence[GpuSample]) -> float | None:
    """Return the mean part of the time in which the GPU was busy."""
    return _mean(_values(sample.busy for sample in samples))


def most_memory(samples: Sequence[GpuSample]) -> int | None:
    """Return the most memory in use."""
    return max((sample.memory for sample in samples if sample.memory is not None), default=None)


def _energy(samples: Sequence[GpuSample]) -> float | None:
    """Return the energy by the GPU's own counter, or else the power over the time."""
    counted = _values(sample.joules for sample in samples)
    if len(counted) > 1:
        return counted[-1] - counted[0]
    watts = [(sample.at, sample.watts) for sample in samples if sample.watts is not None]
    if len(watts) < 2:
        return None
    return sum(power * (later - at) for (at, power), (later, _) in pairwise(watts))


def _values(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _rounded(value: float | None, factor: float, digits: int) -> float | None:
    return None if value is None else round(value * factor, digits)

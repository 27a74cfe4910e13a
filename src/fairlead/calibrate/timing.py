"""Summarise many runs of a model: figures that hold on a quiet machine, though this one may be busy."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median
from typing import Final

from fairlead.calibrate import process
from fairlead.units import Seconds

_WARM_UP: Final = 0.15
"""Warm-up before the budget starts, as a share of the budget."""
_FEWEST, _MOST = 5, 10_000
_PATIENCE: Final = 5.0
"""The most that a model may take for its fewest runs, as a multiple of its budget."""


@dataclass(frozen=True, slots=True)
class RunSample:
    """One run."""

    wall: float
    waited: float = 0.0
    """Seconds it was ready to run while other programs had the CPU, a little time around the run included."""
    worked: float = 0.0
    """Seconds its own thread had a CPU."""

    @property
    def seconds(self) -> float:
        """The time of the run on an otherwise idle CPU."""
        return max(self.wall - self.waited, self.worked)


@dataclass(frozen=True, slots=True)
class TimingSummary:
    """The summary of all rounds."""

    seconds: Seconds
    p90: Seconds
    runs: int
    wall: Seconds
    waited: float
    noise: float
    """How far, in logarithms, a usual round and a usual run of the best round lie above `seconds`."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks to read."""

    wall: Callable[[], float] = time.perf_counter
    worked: Callable[[], float] = time.thread_time
    """Seconds this thread has had a CPU."""
    waited: Callable[[], Mapping[str, float]] = process.waits
    """Seconds each thread has waited for a CPU."""


def warm_up(step: Callable[[], object], budget: float, clocks: Clocks) -> None:
    """Run a step until caches, clocks and kernels are steady; these runs are not counted."""
    began = clocks.wall()
    step()
    while clocks.wall() - began < budget * _WARM_UP:
        step()


def sample(step: Callable[[], object], budget: float, clocks: Clocks) -> list[RunSample]:
    """Run a step for as long as the budget lasts, and return every run."""
    samples: list[RunSample] = []
    began = clocks.wall()
    while len(samples) < _MOST:
        spent = clocks.wall() - began
        if spent >= budget and (len(samples) >= _FEWEST or (samples and spent >= budget * _PATIENCE)):
            break
        samples.append(time_step(step, clocks))
    return samples


def time_step(step: Callable[[], object], clocks: Clocks) -> RunSample:
    """Run a step once, and return what it took."""
    waited, start, worked = clocks.waited(), clocks.wall(), clocks.worked()
    step()
    worked, wall = clocks.worked() - worked, clocks.wall() - start
    return RunSample(wall, longest_wait(waited, clocks.waited()), worked)


def longest_wait(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return the longest wait of any thread: a run ends with its last thread, so it lost at least that."""
    return max((total - before.get(thread, total) for thread, total in after.items()), default=0.0)


def summarise(rounds: Sequence[Sequence[RunSample]]) -> TimingSummary:
    """Summarise the quickest round: noise only ever makes a run longer, and comes in spells."""
    calm = sorted((least_disturbed(samples) for samples in rounds if samples), key=_lower_quartile)
    best, usual = calm[0], calm[len(calm) // 2]
    everything = [run for samples in rounds for run in samples]
    whole = sum(run.wall for run in everything)
    return TimingSummary(
        seconds=Seconds(_lower_quartile(best)),
        p90=Seconds(_quantile([run.seconds for run in best], 0.9)),
        runs=len(everything),
        wall=Seconds(median(run.wall for run in best)),
        waited=sum(min(run.waited, run.wall) for run in everything) / whole if whole else 0.0,
        noise=max(_excess(_lower_quartile(usual), best), _excess(median(run.seconds for run in best), best)),
    )


def _excess(seconds: float, best: Sequence[RunSample]) -> float:
    """Return how far a time lies above that of the best round, in logarithms."""
    least = _lower_quartile(best)
    return log(seconds / least) if seconds > least > 0 else 0.0


def least_disturbed(samples: Sequence[RunSample]) -> list[RunSample]:
    """Return the half of the runs that waited least: a run that waits also finds cold caches."""
    most = median(run.waited for run in samples)
    return [run for run in samples if run.waited <= most]


def _lower_quartile(samples: Sequence[RunSample]) -> float:
    """Return the lower quartile: as steady as the minimum, and close to the median without noise."""
    return _quantile([run.seconds for run in samples], 0.25)


def _quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

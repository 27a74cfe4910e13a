"""The engines of the GPU-sharing experiment: sizes, times and how they load the accelerator.

Times of an engine alone come from runs with one engine at a time: the published runs of stock Kubernetes.
The host was not equally fast in all of them, so each level takes them from its own run, for the time in which
an engine is alone. Beside others the host was as fast at 200 % as at 0 %: containers that ran out of memory
took 28 s from start to failure in both, and the slowest tenth of queries 0.19 s. So the times beside others,
fitted to the runs at 0 % over-provision, hold at every level.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from fairlead.reproduce.published import LEVELS, PUBLISHED, STOCK
from fairlead.simulate.trace.job import Job, staged_curve
from fairlead.units import Bytes

MIB: Final = 1 << 20
GPU_MEMORY: Final = Bytes(32510 * MIB)
"""What the driver leaves of 32 GiB; also the largest request of the authors' scheduler."""
CONTEXT: Final = Bytes(307 * MIB)
"""The CUDA context: what an engine holds before its model is loaded (solo series)."""
FIRST_CONTEXT: Final = Bytes(11 * MIB)
"""What the driver adds while any context is open: a lone engine shows 6,994, each further one 6,983 MiB."""
START_PART: Final = 12.4 / 21.3
"""The part of the start-up without any memory: container and libraries; then the context is open (solo)."""
WORK_SPREAD: Final = 0.035
START_SPREAD: Final = 0.15
"""Relative deviations between the engines of one solo run, without that of the 7 s between two samples."""
CROWDED_START: Final = 29.0
"""Seconds of start-up and warm-up beside engines at work. Fitted at 0 %: a container that ran out of memory
three times there started 121 s after its pod, of which 30 s were back-off (0, 10 and 20 s)."""
PRICE: Final = 0.085
"""The slowdown that each co-runner at work adds. Fitted at 0 %."""
LOAD: Final = 0.0455
"""The busy share of one engine alone (solo)."""
OUTSTANDING: Final = 0.56
"""The share of time in which an engine has work outstanding on the accelerator. Fitted at 0 %."""
IDLE_WATTS, AWAKE_WATTS, SLICED_WATTS, FULL_WATTS = 27.0, 40.4, 55.5, 250.0
"""Without an engine, with one (solo), with engines that switch all the time (fitted at 0 %); data sheet."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One kind of engine of a workload."""

    name: str
    count: int
    memory: int
    """MiB that it holds when there is room, with its context: the base of its request."""
    stages: tuple[int, ...]
    """MiB at which its allocator stops if there is no room for more; it runs in the first, and in no less."""
    work: float = 1.0
    """Its work alone, relative to that of ssd-mobilenet."""


_SSD: Final = (841, 2887, 6983)
"""TensorFlow's allocator doubles its regions: 512 MiB, 2 GiB, 4 GiB above the rest. The sums of the series at
0 % show engines that stayed at each of these sizes until their end."""
HOMOGENEOUS: Final = "homogeneous"
MIX: Final = "mlperf-mix"
WORKLOADS: Final[Mapping[str, tuple[EngineKind, ...]]] = {
    HOMOGENEOUS: (EngineKind("ssd-mobilenet", 30, 6994, _SSD),),
    MIX: (
        EngineKind("mobilenet", 4, 872, (872,), 0.385),
        EngineKind("mobilenet-quantised", 4, 872, (872,), 0.385),
        EngineKind("resnet50", 4, 8388, (2244, 4292, 8388), 1.362),
        EngineKind("ssd-mobilenet", 5, 6994, _SSD),
        EngineKind("ssd-mobilenet-quantised", 4, 6994, _SSD),
        EngineKind("ssd-mobilenet-symmetric", 4, 6994, _SSD),
    ),
}
"""The mix has no published solo times. Its work is relative to ssd-mobilenet by the latencies of one device
that ran all three (AGX Xavier, MLPerf v0.5: 0.574, 2.03 and 1.49 ms); quantised models as their originals,
and resnet50 with the region sizes of the same allocator. These are assumptions."""


@dataclass(frozen=True, slots=True)
class SoloTimes:
    """Seconds of an engine alone."""

    start: float
    warm_up: float
    work: float

    @property
    def start_up(self) -> float:
        """Seconds from the placement to the first query."""
        return self.start + self.warm_up


def solo_times(level: float) -> SoloTimes:
    """Return the times of ssd-mobilenet alone: those of the level's own solo run, or between two levels."""
    after = min(bisect_right(LEVELS, level), len(LEVELS) - 1)
    low, high = LEVELS[max(0, after - 1)], LEVELS[after]
    part = min(1.0, max(0.0, (level - low) / (high - low)))
    cycle, work = (a + (b - a) * part for a, b in zip(_measured(low), _measured(high), strict=True))
    return SoloTimes((cycle - work) * START_PART, (cycle - work) * (1 - START_PART), work)


def _measured(level: int) -> tuple[float, float]:
    """Return the seconds of one engine after another, and of its full size: mean memory over full memory."""
    run, jobs = PUBLISHED[level][STOCK], 30
    return run.makespan_s / jobs, run.makespan_s / jobs * run.memory_mean_mib / _SSD[-1]


def arrivals(seed: int, count: int) -> list[float]:
    """Return arrival times as the authors' script draws them, under Python 2; their seed is 2020.

    Every gap is 20 to 40 whole seconds, and the command that creates a job takes 0.3 s (from their log).
    """
    random = Random(seed)  # noqa: S311 - a simulation, no secret
    times = [0.0]
    while len(times) < count:
        times.append(times[-1] + 20 + int(random.random() * 21) + 0.3)
    return times


def kinds_in_order(workload: str, seed: int) -> list[EngineKind]:
    """Return the kind of every engine, in order of arrival."""
    kinds = [kind for kind in WORKLOADS[workload] for _ in range(kind.count)]
    Random(f"{seed}/order").shuffle(kinds)  # noqa: S311 - a simulation, no secret
    return kinds


def engine_job(kind: EngineKind, name: str, arrival: float, solo: SoloTimes, random: Random) -> Job:
    """Return an engine without its request; its times deviate as those of solo runs do."""
    slow = max(0.5, random.gauss(1.0, START_SPREAD))
    work = solo_times(0).work * kind.work * max(0.5, random.gauss(1.0, WORK_SPREAD))
    warm_up = solo.warm_up * slow
    stages = [Bytes(stage * MIB) for stage in kind.stages]
    return Job(
        name,
        arrival,
        work,
        (),
        load=LOAD,
        memory=staged_curve(CONTEXT, stages, warm_up, 1.0),
        start=solo.start * slow,
        warm_up=warm_up,
        crowded_start=CROWDED_START / solo.start_up,
        least_slowdown=max(1.0, solo.work / solo_times(0).work),
        least=stages[0],
        image=kind.name,
        outstanding=OUTSTANDING,
    )

"""Play the GPU-sharing experiment: one workload, level and arrival seed under each scheduler."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from statistics import mean
from typing import Any, Final

from fairlead.need import DEFAULT_BOUND
from fairlead.placement import DeviceState, NodeState
from fairlead.reproduce.engines import (
    AWAKE_WATTS,
    FIRST_CONTEXT,
    FULL_WATTS,
    GPU_MEMORY,
    HOMOGENEOUS,
    IDLE_WATTS,
    MIB,
    PRICE,
    SLICED_WATTS,
    WORKLOADS,
    EngineKind,
    arrivals,
    engine_job,
    kinds_in_order,
    solo_times,
)
from fairlead.reproduce.published import ALIBABA, CBP_PP, SAFE, SCHEDULERS, SEED, STOCK
from fairlead.request import Demand, Request
from fairlead.simulate.play.published import PublishedPolicy
from fairlead.simulate.play.safe import SafePolicy, images_of
from fairlead.simulate.play.simulation import Simulation, SimulationOutcome
from fairlead.simulate.play.world import PlacementPolicy, RequestPolicy
from fairlead.simulate.report.figures import summarize
from fairlead.simulate.trace.job import Job, PowerCurve, SimulatedFleet, Trace
from fairlead.simulate.trace.settings import SimulationSettings
from fairlead.sizing.footprint import FootprintBook
from fairlead.units import Bytes, Watts

MOST_LEVEL: Final = 1000
GIB: Final = 1024
"""MiB in the unit of Alibaba's extender."""
ALIBABA_MOST: Final = 31
"""GiB of the largest request that the authors make of Alibaba's extender."""
QUEUES: Final[Mapping[str, str]] = {STOCK: "kubernetes", ALIBABA: "kubernetes", CBP_PP: "heap", SAFE: "fifo"}


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is played."""

    workload: str = HOMOGENEOUS
    arrival_seed: int = SEED
    profiles: bool = True
    """Whether `fairlead-safe` knows the sizes of the engines from earlier runs."""
    bound: float = DEFAULT_BOUND
    least: float = 1.0
    """What `fairlead-safe` takes as the least size of an engine, relative to the true one."""
    period: float = 15.0
    """Seconds between two samples of `fairlead-safe`."""
    solo_level: float | None = None
    """The level whose solo run gives the times of an engine alone; None: the level that is played."""


def play_level(experiment: Experiment, level: float, scheduler: str) -> dict[str, Any]:
    """Return the figures of one scheduler at one level of over-provision."""
    jobs = tuple(_jobs(experiment, level, scheduler))
    settings = SimulationSettings(
        interference="time-slicing",
        price=PRICE,
        queue=QUEUES[scheduler],
        preemption=False,
        restart_first=0.0,  # the kubelet restarts a container at once the first time
    )
    trace = Trace(f"{experiment.workload}, {level:g} %", jobs)
    policy = _POLICIES[scheduler](experiment, jobs)
    return figures(Simulation(trace, _fleet(), policy, settings, experiment.arrival_seed).play())


def play_levels(
    experiment: Experiment, levels: tuple[float, ...], progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Return the contract of `fairlead reproduce gpu-sharing -o json`; `progress` gets the runs done."""
    rows = []
    for at, level in enumerate(levels):
        schedulers = {}
        for index, scheduler in enumerate(SCHEDULERS):
            schedulers[scheduler] = play_level(experiment, level, scheduler)
            progress(at * len(SCHEDULERS) + index + 1)
        rows.append({"overprovision_percent": level, "schedulers": schedulers})
    return {"levels": rows}


def figures(outcome: SimulationOutcome) -> dict[str, Any]:
    """Return the figures of the contract."""
    records, recorder = outcome.records, outcome.recorder
    jobs = summarize(
        [record.finished - record.job.arrival for record in records if record.finished is not None]
    )
    pending = [
        (outcome.end if record.placed is None else record.placed) - record.job.arrival for record in records
    ]
    return {
        "mean_pending_s": round(mean(pending), 1),
        "worst_job_s": _rounded(jobs["worst"]),
        "p99_job_s": _rounded(jobs["p99"]),
        "makespan_s": round(max((record.finished or outcome.end) for record in records), 1),
        "memory_mean_mib": round(recorder.mean("memory") / MIB),
        "memory_max_mib": round(recorder.peak("memory") / MIB),
        "utilisation_percent": round(100 * recorder.mean("busy"), 1),
        "power_w": round(recorder.mean("watts"), 1),
        "energy_j": round(recorder.total("watts")),
        "restarts": sum(record.kills for record in records),
    }


def requested(kind: EngineKind, level: float, scheduler: str) -> Demand:
    """Return what an engine asks for: its memory and that many percent more, but no more than there is."""
    if scheduler == STOCK:
        return Demand(1)
    if scheduler == ALIBABA:
        units = int(ceil(kind.memory / GIB) * (1 + level / 100))
        return Demand(1, Bytes(min(ALIBABA_MOST, units) * GIB * MIB))
    return Demand(1, Bytes(min(GPU_MEMORY, int(kind.memory * (1 + level / 100)) * MIB)))


def _jobs(experiment: Experiment, level: float, scheduler: str) -> list[Job]:
    seed = experiment.arrival_seed
    kinds = kinds_in_order(experiment.workload, seed)
    solo = solo_times(level if experiment.solo_level is None else experiment.solo_level)
    random = Random(f"{seed}/engines")  # noqa: S311 - a simulation, no secret
    jobs = []
    for at, (kind, arrival) in enumerate(zip(kinds, arrivals(seed, len(kinds)), strict=True)):
        job = engine_job(kind, f"{kind.name}-{at}", arrival, solo, random)
        request = Request(job.name, demand=requested(kind, level, scheduler))
        jobs.append(replace(job, requests=(request,)))
    return jobs


def _fleet() -> SimulatedFleet:
    device = DeviceState("gpu-0", "v100", "NVIDIA", GPU_MEMORY)
    node = NodeState("server", 64_000, Bytes(256 << 30), devices=(device,))
    power = PowerCurve(Watts(IDLE_WATTS), Watts(AWAKE_WATTS), Watts(FULL_WATTS), Watts(SLICED_WATTS))
    return SimulatedFleet((node,), {"v100": power}, {"v100": FIRST_CONTEXT})


def _safe(experiment: Experiment, jobs: tuple[Job, ...]) -> SafePolicy:
    book = FootprintBook()
    for kind in WORKLOADS[experiment.workload] if experiment.profiles else ():
        least = Bytes(round(kind.stages[0] * MIB * experiment.least))
        book.state(kind.name, least=least, full=Bytes(kind.stages[-1] * MIB), now=0.0)
    return SafePolicy(images_of(jobs), book, experiment.bound, experiment.period)


_POLICIES: Final[Mapping[str, Callable[[Experiment, tuple[Job, ...]], PlacementPolicy]]] = {
    STOCK: lambda experiment, jobs: RequestPolicy("exclusive"),
    ALIBABA: lambda experiment, jobs: RequestPolicy("binpack"),
    CBP_PP: lambda experiment, jobs: PublishedPolicy(CBP_PP),
    SAFE: _safe,
}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)

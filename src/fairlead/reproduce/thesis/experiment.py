"""Measure the application: by processes and image size on this machine, and by cut on two emulated hosts."""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import (
    CUTS,
    STAGES,
    StageArrangement,
    ThesisWorkload,
    crossing_bytes,
    cut,
    pipeline_text,
    stage_splits,
)
from fairlead.reproduce.thesis.in_pods import MeasuredFrames
from fairlead.reproduce.thesis.published import THROUGHPUT
from fairlead.reproduce.thesis.rig import Rig, TwoHosts, background, two_hosts
from fairlead.reproduce.thesis.stages import PACE

_LEAST, _MOST, _PACED = 12, 3000, 30


@dataclass(frozen=True, slots=True)
class Emulation:
    """What the emulated hosts and their link have."""

    bits_per_s: float
    delay_s: float = 0.0
    loss: float = 0.0
    edge_cpu: float = 0.25


@dataclass(frozen=True, slots=True)
class ThesisExperiment:
    """What is measured."""

    workloads: tuple[ThesisWorkload, ...]
    processes: tuple[int, ...]
    rounds: int
    seconds: float
    """Of each run, about."""
    cut_workloads: tuple[ThesisWorkload, ...] = ()
    emulation: Emulation | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One arrangement in one round."""

    rate: float
    latency_s: float
    processes: tuple[float, ...] = ()
    """Seconds that the stages of each process work on one frame; empty: the program has no stages."""

    @property
    def compute_s(self) -> float:
        """Seconds that the stages work on one frame."""
        return sum(self.processes)

    @property
    def most_gain(self) -> float:
        """How many times as fast as one process this arrangement can be: sum/max, whatever the cores."""
        return self.compute_s / max(self.processes) if self.processes else inf

    @property
    def ratio(self) -> float | None:
        """Communication by computation: what a frame waits and travels, by what is computed on it."""
        if not self.compute_s:
            return None
        return max(0.0, self.latency_s - self.compute_s) / self.compute_s


def measure(
    experiment: ThesisExperiment, folder: Path, on_step: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Return the contract of `fairlead reproduce pipeline -o json`, without what is missing."""
    for kernel in {each.kernel for each in (*experiment.workloads, *experiment.cut_workloads)}:
        kernels.build(kernel, folder)
    single = [
        row for each in experiment.workloads for row in _on_one_machine(experiment, each, folder, on_step)
    ]
    cuts, how = _on_two_hosts(experiment, folder, on_step) if experiment.emulation else ([], None)
    return {
        "cores": os.cpu_count(),
        "rounds": experiment.rounds,
        "published": [asdict(each) | {"gain": each.gain} for each in THROUGHPUT],
        "one_machine": single,
        "emulated": how,
        "cuts": cuts,
        "missing": [],
    }


def _on_one_machine(
    experiment: ThesisExperiment, workload: ThesisWorkload, folder: Path, on_step: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    cores = os.cpu_count() or 1
    estimate = measure_alone(folder, workload, 1, 1, 0.5).rate
    cases: dict[str, Callable[[], Measured]] = {
        f"{number} process{'es' * (number > 1)}": _piped(experiment, Rig(folder), workload, number, estimate)
        for number in experiment.processes
    }
    seconds = experiment.seconds
    cases[f"{cores} copies"] = lambda: measure_alone(folder, workload, cores, 1, seconds)
    cases[f"{cores} threads"] = lambda: measure_alone(folder, workload, 1, cores, seconds)
    rounds = interleave(
        experiment.rounds, cases, lambda name: on_step(f"{workload.kernel} {workload.size}: {name}")
    )
    base = median(each.rate for each in rounds[next(iter(cases))])
    for name, found in rounds.items():
        limit = min(float(cores), median(each.most_gain for each in found))
        gain = median(each.rate for each in found) / base
        yield row_of(workload, found) | {"arrangement": name, "gain": gain, "limit": limit}


def _on_two_hosts(
    experiment: ThesisExperiment, folder: Path, on_step: Callable[[str], None]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    settings = experiment.emulation
    assert settings is not None
    shaped = bool(settings.delay_s or settings.loss)
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        hosts = stack.enter_context(two_hosts(folder, settings.edge_cpu, with_relay=shaped))
        hosts.pair.set_rate(settings.bits_per_s)
        if shaped:
            hosts.shape(delay_s=settings.delay_s, loss=settings.loss)
        for workload in experiment.cut_workloads:
            alone = measure_alone(folder, workload, 1, 1, 0.5).latency_s
            cases = {letters: _cut_case(experiment, hosts, workload, letters, alone) for letters in CUTS}
            rounds = interleave(experiment.rounds, cases, lambda name: on_step(f"cut {name}"))
            for letters, found in rounds.items():
                moved = {"cut": letters, "bytes": crossing_bytes(letters, workload)}
                rows.append(moved | row_of(workload, found))
        how = asdict(settings) | {"quota": hosts.quota.label if hosts.quota else "none"}
    return rows, how


def interleave(
    rounds: int, cases: dict[str, Callable[[], Measured]], on_case: Callable[[str], None]
) -> dict[str, list[Measured]]:
    """Measure every case once a round, beginning with another one each time."""
    found: dict[str, list[Measured]] = {name: [] for name in cases}
    names = list(cases)
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            on_case(name)
            found[name].append(cases[name]())
    return found


def row_of(workload: ThesisWorkload, found: Sequence[Measured]) -> dict[str, Any]:
    """Return the medians of what was measured of a workload."""
    ratios = [each.ratio for each in found if each.ratio is not None]
    return {
        "kernel": workload.kernel,
        "width": workload.width,
        "height": workload.height,
        "frames_per_s": median(each.rate for each in found),
        "latency_s": median(each.latency_s for each in found),
        "ccr": median(ratios) if ratios else None,
    }


def _piped(
    experiment: ThesisExperiment, rig: Rig, workload: ThesisWorkload, processes: int, estimate: float
) -> Callable[[], Measured]:
    arrangement = StageArrangement(split=stage_splits(processes))
    return lambda: _run_twice(rig, workload, arrangement, experiment.seconds, estimate)


def _cut_case(
    experiment: ThesisExperiment, hosts: TwoHosts, workload: ThesisWorkload, letters: str, alone: float
) -> Callable[[], Measured]:
    assert experiment.emulation is not None
    estimate = expected_rate(experiment.emulation, workload, letters, alone)
    arrangement = cut(letters, hosts.address)
    return lambda: _run_twice(hosts.rig, workload, arrangement, experiment.seconds, estimate)


def expected_rate(settings: Emulation, workload: ThesisWorkload, letters: str, alone: float) -> float:
    """Return about the frames a second of a cut; `alone` are the seconds of a frame in one program."""
    on_link = 8 * crossing_bytes(letters, workload) / settings.bits_per_s
    on_edge = alone / settings.edge_cpu if letters.count("E") > 1 else 0.0
    return 1 / max(on_link, on_edge, alone)


def frames_for(seconds: float, expected: float, least: int = _LEAST) -> MeasuredFrames:
    """Return how many frames take about so long, and how many are enough for the latency."""
    fast = min(_MOST, max(least, round(seconds * expected)))
    return MeasuredFrames(fast, min(fast, max(_LEAST, min(_PACED, round(seconds * PACE * expected)))))


def _run_twice(
    rig: Rig, workload: ThesisWorkload, arrangement: StageArrangement, seconds: float, estimate: float
) -> Measured:
    """Run as fast as it goes for the rate, then paced for the latency."""
    frames = frames_for(seconds, estimate).fast
    fast = rig.run(pipeline_text(workload, arrangement, frames))
    pace = PACE * fast.rate
    calm_frames = min(frames, max(_LEAST, min(_PACED, round(seconds * pace))))
    calm = rig.run(pipeline_text(workload, arrangement, calm_frames, pace))
    return Measured(fast.rate, calm.latency, process_seconds(calm.stage_seconds, arrangement.split))


def process_seconds(stages: Mapping[str, float], split: Collection[str]) -> tuple[float, ...]:
    """Return the seconds of each process, by those of the stages and by the stages that begin one."""
    processes = [0.0]
    for name in STAGES:
        if name in split:
            processes.append(0.0)
        processes[-1] += stages[name]
    return tuple(processes)


def measure_alone(
    folder: Path, workload: ThesisWorkload, copies: int, threads: int, seconds: float
) -> Measured:
    """Measure copies of the whole program side by side; the rate is that of all."""
    module = [sys.executable, "-m", "fairlead.reproduce.thesis.baselines"]
    size = (str(workload.height), str(workload.width))
    words = [str(folder / f"{workload.kernel}.so"), *size, str(threads), str(seconds)]
    answers = []
    with ExitStack() as stack:
        programs = [
            stack.enter_context(background([*module, *words], folder, "baseline.log", pipes=True))
            for _ in range(copies)
        ]
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
        for program in programs:
            assert program.stdin is not None
            program.stdin.write("go\n")
            program.stdin.flush()
        for program in programs:
            assert program.stdout is not None
            answers.append(json.loads(program.stdout.readline()))
    return Measured(sum(each["rate"] for each in answers), median(each["seconds"] for each in answers))

"""Hold the planner's arrangement of the thesis's application on this machine against its limit.

Convolution, ReLU and max-pool on 1280x720. With the slow kernel (C without optimisation) `pipeline plan`
arranges the stages, with replicas where it proposes them: at least 95 % of the limit that it prints,
min(cores, sum/max), beside one process. With the fast kernel (-O3) the plan must refuse to split and say why;
what a split would have brought is measured as well. Copies of the whole program and a program with threads
are the baselines that the thesis left out. Interleaved rounds, medians. Exit code 1: a bar is missed.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.pipeline_replicas import cpu_seconds, own_seconds
from fairlead.errors import EmulationError
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import StageArrangement, ThesisWorkload, pipeline_text
from fairlead.reproduce.thesis.experiment import measure_alone
from fairlead.reproduce.thesis.rig import Rig

PART: Final = 0.95
FRAMES: Final = {kernels.SLOW: 30, kernels.FAST: 800}
"""For each second of a run, about."""
SECONDS: Final = 5.0


def plan(rig: Rig, workload: ThesisWorkload) -> tuple[dict[str, Any], str]:
    """Profile and plan on this machine; return the plan and its words. It writes `planned.yaml`."""
    frames = round(FRAMES[workload.kernel] * SECONDS)
    file = rig.write(pipeline_text(workload, StageArrangement(), frames), "free.yaml")
    rig.fairlead("pipeline", "profile", file, "--out", "profile.json")
    words = ("pipeline", "plan", file, "--profile", "profile.json")
    answer = json.loads(rig.fairlead(*words, "--replicas", "--out", "planned.yaml", "-o", "json"))
    lines = [line for line in rig.fairlead(*words).splitlines() if line.endswith(".")]
    return answer, "\n".join(f"    {line}" for line in lines)


def interleave(rounds: int, cases: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measure every case once a round, beginning with another one each time."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            found[name].append(cases[name]())
    return found


def report(found: dict[str, list[float]], limits: dict[str, float]) -> dict[str, float]:
    """Print frames/s, gains and limits; return the gains by case."""
    base = next(iter(found.values()))
    gains = {}
    for name, rates in found.items():
        ratios = [rate / one for rate, one in zip(rates, base, strict=True)]
        gains[name] = statistics.median(ratios)
        print(
            f"    {name:24}{statistics.median(rates):9.1f}/s {gains[name]:5.2f}x "
            f"({min(ratios):.2f}-{max(ratios):.2f}), limit {limits[name]:.2f}x"
        )
    return gains


def measure(rig: Rig, workload: ThesisWorkload, rounds: int) -> bool:
    """Measure one kernel; return whether its bar is held."""
    answer, words = plan(rig, workload)
    print(f"{workload.kernel} kernel, {workload.size}: the plan says\n{words}")
    cores, limit = os.cpu_count() or 1, float(answer["limit"]["gain"])
    planned = (rig.folder / "planned.yaml").read_text()
    frames = round(FRAMES[workload.kernel] * SECONDS)
    forced = StageArrangement(replicas={answer["limit"]["slowest"]: 2})
    cases: dict[str, Callable[[], float]] = {
        "one process": lambda: rig.run(pipeline_text(workload, StageArrangement(), frames)).rate,
        "as planned": lambda: rig.run(planned).rate,
        "two replicas, by force": lambda: rig.run(pipeline_text(workload, forced, frames)).rate,
        f"{cores} copies": lambda: measure_alone(rig.folder, workload, cores, 1, SECONDS).rate,
        f"{cores} threads": lambda: measure_alone(rig.folder, workload, 1, cores, SECONDS).rate,
    }
    begin, own = cpu_seconds(), own_seconds()
    found = interleave(rounds, cases)
    foreign = cpu_seconds() - begin - (own_seconds() - own)
    replicas = answer["replicas"] or {}
    limits = dict.fromkeys(cases, float(cores)) | {"one process": 1.0}
    gains = report(found, limits)
    print(f"    {foreign:.0f} CPU seconds of other processes meanwhile")
    if workload.kernel == kernels.FAST:
        held = replicas.get("stage") is None
        print(f"{'held  ' if held else 'MISSED'}  the plan refuses to split the fast kernel")
        return held
    part = gains["as planned"] / limit
    held = part >= PART
    print(
        f"{'held  ' if held else 'MISSED'}  as planned {gains['as planned']:.2f}x, {part:.0%} of the printed "
        f"limit {limit:.2f}x, target {PART:.0%}; {gains['as planned'] / cores:.0%} of {cores} cores"
    )
    return held


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, load {load:.2f}")
    with tempfile.TemporaryDirectory() as name:
        rig = Rig(Path(name))
        try:
            for kernel in (kernels.SLOW, kernels.FAST):
                kernels.build(kernel, rig.folder)
        except EmulationError as error:
            print(f"{error}; {error.hint}", file=sys.stderr)
            return 2
        held = [
            measure(rig, ThesisWorkload(kernel), options.rounds) for kernel in (kernels.SLOW, kernels.FAST)
        ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

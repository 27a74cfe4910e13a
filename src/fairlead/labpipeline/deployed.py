"""One run of the thesis's application as pods: deployed, measured by what its claims have, deleted."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fairlead.errors import LabError
from fairlead.labpipeline.objects import pods
from fairlead.labpipeline.site import PodSite
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import (
    EDGE,
    FREE,
    LOCAL,
    OUTPUT,
    StageArrangement,
    ThesisWorkload,
)
from fairlead.reproduce.thesis.in_pods import MeasuredFrames, pods_text
from fairlead.reproduce.thesis.rig import RunFigures, figures, read_times
from fairlead.reproduce.thesis.stages import CAPTURED, END

_STALL_S: Final = 120.0
"""Seconds without a frame after which a run is given up."""
_POLL_S: Final = 0.2
_PAGES_PORT: Final = 9090
_FILE: Final = "thesis.yaml"
Calls = Mapping[str, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class PodRun:
    """What one run gave."""

    figures: RunFigures
    """The rate of the fast frames; the latencies of the calm ones, and the seconds of stages with them."""
    places: Mapping[str, str]
    """By stage between source and sink: its host."""


def run_in_pods(
    site: PodSite,
    folder: Path,
    workload: ThesisWorkload,
    arrangement: StageArrangement,
    frames: MeasuredFrames,
    profile: Path | None = None,
) -> PodRun:
    """Deploy an arrangement, with a profile for the stages that it leaves free, and measure it."""
    kernels.build(workload.kernel, folder)
    file = folder / _FILE
    file.write_text(pods_text(workload, arrangement, frames, pods(site.nodes)), encoding="utf-8")
    _clear(site)
    words = ["--include", f"{workload.kernel}.so", "--wait", "--timeout", "180s", "-o", "json"]
    words += ["--profile", str(profile)] if profile else []
    status = json.loads(site.fairlead("pipeline", "deploy", str(file), *words))
    done = PodRun(_measure(site, frames), places(status))
    # After an error or SIGINT the lab ends with all pods: to wait for them first would only take longer.
    (site.data(EDGE) / END).touch()
    site.fairlead("pipeline", "delete", f"thesis-{workload.kernel}", "--wait", "--timeout", "180s")
    return done


def places(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the host of each stage between source and sink, by the status of a pipeline. Pure."""
    hosts = {stage: host["name"] for host in status["hosts"] for stage in host["stages"]}
    return {stage: hosts[stage] for stage in FREE}


def stage_calls(status: Mapping[str, Any]) -> Calls:
    """Return the seconds and the number of calls of each stage, by the status of a run. Pure."""
    calls = {stage["name"]: stage["times"]["process"] for stage in status["stages"] if stage["times"]}
    return {name: (each["sum"], each["count"]) for name, each in calls.items() if name in FREE}


def means_between(before: Calls, after: Calls) -> dict[str, float]:
    """Return the mean seconds of the calls of each stage between two moments. Pure."""
    counted = {
        name: (sums - before[name][0], count - before[name][1]) for name, (sums, count) in after.items()
    }
    return {name: seconds / count if count else 0.0 for name, (seconds, count) in counted.items()}


def combined(frames: MeasuredFrames, begins: list[float], ends: list[float]) -> RunFigures:
    """Return the rate of the fast frames with the latencies of the calm ones. Pure."""
    fast = figures(begins[: frames.fast], ends[: frames.fast])
    calm = figures(begins[frames.fast :], ends[frames.fast :])
    return replace(fast, latencies=calm.latencies)


def _measure(site: PodSite, frames: MeasuredFrames) -> RunFigures:
    output = site.data(LOCAL) / OUTPUT
    _await_lines(site, output, frames.fast)
    before = stage_calls(json.loads(site.page(LOCAL, _PAGES_PORT, "/status")))
    _await_lines(site, output, frames.count)
    after = stage_calls(json.loads(site.page(LOCAL, _PAGES_PORT, "/status")))
    times = read_times(site.data(EDGE) / CAPTURED, output)
    return replace(combined(frames, *times), stage_seconds=means_between(before, after))


def _await_lines(site: PodSite, path: Path, wanted: int) -> None:
    lines, until = -1, time.monotonic() + _STALL_S
    while lines < wanted:
        now = path.read_bytes().count(b"\n") if path.exists() else 0
        if now > lines:
            lines, until = now, time.monotonic() + _STALL_S
        elif time.monotonic() > until:
            state = site.kubectl("get", "pods,pipelines", "-A", "--no-headers")
            raise LabError(
                f"no frame for {_STALL_S:.0f} s after {lines} of {wanted}; the cluster has:\n{state}"
            )
        else:
            time.sleep(_POLL_S)


def _clear(site: PodSite) -> None:
    for host in (EDGE, LOCAL):
        for path in site.data(host).iterdir():
            path.unlink()

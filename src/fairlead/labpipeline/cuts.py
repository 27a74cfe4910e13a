"""The five cuts of the thesis as pods, in interleaved rounds."""

import io
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairlead.lab.run.steps import StepPrinter
from fairlead.labpipeline.deployed import run_in_pods
from fairlead.labpipeline.images import PipelineImages
from fairlead.labpipeline.objects import NODES
from fairlead.labpipeline.site import PodSite, pod_site
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import CUTS, EDGE, LOCAL, ThesisWorkload, cut
from fairlead.reproduce.thesis.experiment import (
    Measured,
    ThesisExperiment,
    expected_rate,
    frames_for,
    interleave,
    measure_alone,
    process_seconds,
    row_of,
)
from fairlead.reproduce.thesis.in_pods import LEAST_FAST

Json = dict[str, Any]


def measure_pods(
    experiment: ThesisExperiment, images: PipelineImages, on_step: Callable[[str], None] = lambda line: None
) -> Json:
    """Return how the cuts did as pods: `how`, and `rows` as those of the emulated hosts."""
    settings = experiment.emulation
    assert settings is not None
    on_step("lab: two real nodes")
    rows: list[Json] = []
    silent = StepPrinter(io.StringIO())
    with tempfile.TemporaryDirectory() as text, pod_site(images, settings, silent) as site:
        folder = Path(text)
        for workload in experiment.cut_workloads:
            cases = pod_cases(experiment, site, folder, workload)
            names = lambda name: on_step(f"cut {name} as pods")  # noqa: E731
            for letters, found in interleave(experiment.rounds, cases, names).items():
                rows.append({"cut": letters} | row_of(workload, found))
        how = asdict(settings) | {"quota": site.quota, "edge": NODES[EDGE], "server": NODES[LOCAL]}
    return {"how": how, "rows": rows}


def pod_cases(
    experiment: ThesisExperiment, site: PodSite, folder: Path, workload: ThesisWorkload
) -> dict[str, Callable[[], Measured]]:
    """Return what measures each cut of a workload once."""
    kernels.build(workload.kernel, folder)
    alone = measure_alone(folder, workload, 1, 1, 0.5).latency_s
    return {letters: _case(experiment, site, folder, workload, letters, alone) for letters in CUTS}


def _case(
    experiment: ThesisExperiment,
    site: PodSite,
    folder: Path,
    workload: ThesisWorkload,
    letters: str,
    alone: float,
) -> Callable[[], Measured]:
    assert experiment.emulation is not None
    expected = expected_rate(experiment.emulation, workload, letters, alone)
    frames = frames_for(experiment.seconds, expected, LEAST_FAST)
    arrangement = cut(letters, "")

    def measure() -> Measured:
        run = run_in_pods(site, folder, workload, arrangement, frames).figures
        return Measured(run.rate, run.latency, process_seconds(run.stage_seconds, arrangement.split))

    return measure


def with_pods(answer: Json, pods: Json | None) -> Json:
    """Return the answer of the experiment with what was measured as pods in each cut. Pure."""
    keys = ("kernel", "width", "height", "cut")
    found = {tuple(row[key] for key in keys): row for row in pods["rows"]} if pods else {}
    figures = ("frames_per_s", "latency_s", "ccr")
    cuts = []
    for row in answer["cuts"]:
        mine = found.get(tuple(row[key] for key in keys))
        cuts.append({**row, "pods": {key: mine[key] for key in figures} if mine else None})
    return {**answer, "lab": pods["how"] if pods else None, "cuts": cuts}

"""Hold the operator's plan between an edge and a server against every cut as pods: `make bench-cut-lab`.

A lab with two real nodes: the edge has a quarter of a CPU (its control group), the link between them 20 to
300 Mbit/s each way (tbf). For each setting the thesis's stages are profiled on both nodes and over that link
by `fairlead pipeline profile`: the edge is a `fairlead pipeline worker` in the network and under the quota of
its node, with certificates. Then, in interleaved rounds, the pipeline is deployed with this profile and no
pins, so that the operator chooses the host of each stage, and with the pins of every cut. All of them are
pods, deployed by `fairlead pipeline deploy`; frames/s are those at the sink. Bar: what the operator chose has
at least 90 % of the median of the best cut. Exit code 1: it is missed; 2: no lab can run here.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.operator_load import machine
from fairlead.lab.node import namespaces
from fairlead.lab.run.state import NodeNamespaces
from fairlead.lab.run.steps import StepPrinter
from fairlead.labpipeline import link
from fairlead.labpipeline.deployed import run_in_pods
from fairlead.labpipeline.images import PipelineImages
from fairlead.labpipeline.objects import EDGE_NUMBER
from fairlead.labpipeline.site import PodSite, obstacle, pod_site
from fairlead.pipeline.hosts.certificates import write_certificates
from fairlead.reproduce.emulation.quota import ROOT, GroupQuota
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import (
    EDGE,
    FREE,
    STAGES,
    StageArrangement,
    ThesisWorkload,
    all_cuts,
    cut,
    letters_of,
    pipeline_text,
)
from fairlead.reproduce.thesis.experiment import (
    Emulation,
    Measured,
    expected_rate,
    frames_for,
    interleave,
    measure_alone,
)
from fairlead.reproduce.thesis.rig import background
from tests.images import operator_archive, pipeline_archive

NEAR: Final = 0.9
PLANNED: Final = "planned"
SHARE: Final = 0.25
PORT: Final = 7079
"""Of the worker that is profiled: that of pods is relayed."""
_FAIRLEAD: Final = (sys.executable, "-m", "fairlead")
_START_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One link and one workload."""

    rate: int
    """Mbit/s."""
    workload: ThesisWorkload

    @property
    def name(self) -> str:
        """The setting for people."""
        return f"{self.rate} Mbit/s, {self.workload.kernel} {self.workload.size}"


SETTINGS: Final = (
    Setting(100, ThesisWorkload(kernels.SLOW)),
    Setting(300, ThesisWorkload(kernels.SLOW)),
    Setting(20, ThesisWorkload(kernels.SLOW, 240, 320)),
)


@dataclass(frozen=True, slots=True)
class Rounds:
    """What was measured of a setting: frames/s."""

    planned: list[float]
    cuts: dict[str, list[float]]
    expected: dict[str, float]
    """By the plan."""
    chosen: list[str]
    """What the operator chose, in each round."""


@contextmanager
def worker(site: PodSite, folder: Path, keys: Path) -> Iterator[str]:
    """Serve the folder on the edge's node, in its control group; the block gets the address."""
    group = ROOT / ("" if (ROOT / "cgroup.controllers").exists() else "cpu") / site.edge_group / "profiled"
    group.mkdir(exist_ok=True)
    address = f"{site.edge.address}:{PORT}"
    words = ["pipeline", "worker", "--listen", address, "--folder", str(folder), *tls(keys, EDGE)]
    argv = GroupQuota(group, "").command([*_FAIRLEAD, *words])
    log = folder / "worker.log"
    with background(entered(site.edge, argv), folder, log.name) as process:
        until = time.monotonic() + _START_S
        while "listens on" not in log.read_text():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the worker of the edge does not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield address


def profile(site: PodSite, folder: Path, setting: Setting) -> Path:
    """Profile a setting on both nodes, and return the profile."""
    kernels.build(setting.workload.kernel, folder)
    keys, out = folder / "keys", folder / "profile.json"
    if not keys.exists():
        write_certificates(str(keys), [f"{EDGE},{site.edge.address}", f"server,{site.server.address}"], 2)
    with worker(site, folder, keys) as address:
        text = pipeline_text(setting.workload, StageArrangement(address=address), 1_000_000)
        (folder / "free.yaml").write_text(text, encoding="utf-8")
        words = ["free.yaml", "--out", str(out), "--frames", "20", "--seconds", "3s", *tls(keys, "server")]
        run(entered(site.server, [*_FAIRLEAD, "pipeline", "profile", *words]), folder)
    return out


def entered(node: NodeNamespaces, argv: list[str]) -> list[str]:
    """Return a command line that runs in the network of a node and ends with this process."""
    return namespaces.enter_network(node, ["setpriv", "--pdeathsig", "KILL", *argv])


def tls(keys: Path, name: str) -> list[str]:
    """Return the options that name the certificates of a host."""
    return [f"--ca={keys}/ca.crt", f"--cert={keys}/{name}.crt", f"--key={keys}/{name}.key"]


def run(argv: list[str], folder: Path) -> str:
    """Run a program, which must succeed, and return its output."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv[-12:])}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def planned_rates(folder: Path) -> dict[str, float]:
    """Return the frames/s of each cut that the planner expects with the profile."""
    words = ["plan", "free.yaml", "--profile", "profile.json", "--explore", "-o", "json"]
    explored = json.loads(run([*_FAIRLEAD, "pipeline", *words], folder))
    rates = {}
    for each in filter(lambda cut: cut["possible"], explored["cuts"]):
        # The source's stage is on the edge, and the sink on the server: their letters say nothing.
        rates[letters_of(dict(zip(("camera", *FREE), each["assignment"], strict=False)))] = (
            1 / each["period_s"]
        )
    return rates


def measure(site: PodSite, folder: Path, setting: Setting, rounds: int, seconds: float) -> Rounds:
    """Deploy a setting as planned and in every cut, in interleaved rounds."""
    link.set_rate(site.lab, EDGE_NUMBER, setting.rate * 1e6)
    planned = profile(site, folder, setting)
    alone = measure_alone(folder, setting.workload, 1, 1, 0.5).latency_s
    settings = Emulation(setting.rate * 1e6, edge_cpu=SHARE)
    expected = {
        each: expected_rate(settings, setting.workload, each[: len(STAGES)], alone) for each in all_cuts()
    }
    chosen: list[str] = []

    def case(
        arrangement: StageArrangement, rate: float, stored: Path | None = None
    ) -> Callable[[], Measured]:
        def once() -> Measured:
            frames = frames_for(seconds, rate)
            done = run_in_pods(site, folder, setting.workload, arrangement, frames, stored)
            if stored:
                chosen.append(letters_of(done.places))
            return Measured(done.figures.rate, done.figures.latency)

        return once

    cases = {PLANNED: case(StageArrangement(), max(expected.values()), planned)}
    cases |= {letters: case(cut(letters, ""), rate) for letters, rate in expected.items()}
    measured = interleave(rounds, cases, lambda name: print(f"  {name}", file=sys.stderr, flush=True))
    rates = {name: [each.rate for each in found] for name, found in measured.items()}
    return Rounds(rates.pop(PLANNED), rates, planned_rates(folder), chosen)


def report(setting: Setting, found: Rounds) -> bool:
    """Print a setting, and return whether the bar is held."""
    best = max(found.cuts, key=lambda name: statistics.median(found.cuts[name]))
    parts = [mine / forced for mine, forced in zip(found.planned, found.cuts[best], strict=True)]
    part = statistics.median(found.planned) / statistics.median(found.cuts[best])
    held = part >= NEAR
    print(
        f"{'held  ' if held else 'MISSED'}  {setting.name}: chosen {', '.join(dict.fromkeys(found.chosen))} "
        f"{spread(found.planned)}, best {best} {spread(found.cuts[best])}: {part:.0%} "
        f"(by round {min(parts):.0%} to {max(parts):.0%}; at least {NEAR:.0%})"
    )
    cuts = (f"{name} {spread(rates)} {found.expected[name]:.2f}" for name, rates in found.cuts.items())
    print(f"        measured, planned: {', '.join(cuts)}")
    sys.stdout.flush()
    return held


def spread(rates: list[float]) -> str:
    """Return the median with the smallest and the largest."""
    return f"{statistics.median(rates):.2f}/s ({min(rates):.2f}-{max(rates):.2f})"


def main() -> int:
    """Run on a lab of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run, about; default: %(default)s")
    parser.add_argument("--rates", help="settings with these links alone, Mbit/s; default: 100,300,20")
    options = parser.parse_args()
    if why := obstacle():
        print(f"no lab can run here: {why}", file=sys.stderr)
        return 2
    images = PipelineImages(operator_archive(), pipeline_archive())
    rates = set(map(int, options.rates.split(","))) if options.rates else {each.rate for each in SETTINGS}
    wanted, steps = [each for each in SETTINGS if each.rate in rates], StepPrinter(sys.stderr)
    with (
        tempfile.TemporaryDirectory() as text,
        pod_site(images, Emulation(1e8, edge_cpu=SHARE), steps) as site,
    ):
        print(f"edge: {SHARE:g} CPU ({site.quota}); {options.rounds} interleaved rounds, medians (range)")
        held = [
            report(each, measure(site, Path(text), each, options.rounds, options.seconds)) for each in wanted
        ]
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}\nrepeat: make bench-cut-lab")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

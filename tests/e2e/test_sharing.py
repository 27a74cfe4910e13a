"""Sharing by measured use, on a real kubelet with a real Prometheus: agents replay recorded series.

A library stands in for the driver and reports the pods' real processes with the memory of recorded series, in
the forms of two public traces. Everything else is real: attribution, agent, Prometheus, scheduler, eviction.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.rightsize.csvfile import read_series
from fairlead.serve.scheduler.use.store import SIZES
from fairlead.settings.scheduler import FOOTPRINTS_NAME
from fairlead.sizing.footprint import Footprint
from fairlead.sizing.footprint_format import footprints_text
from fairlead.units import Bytes
from tests.e2e.api import CORE, Document, wait_for
from tests.e2e.install import Site
from tests.e2e.pods import IMAGE, Pods, is_running
from tests.e2e.processes import GPU, ReportedProcesses
from tests.e2e.schedulers import running_scheduler
from tests.test_nvml import needs_compiler

GIB, MIB = 1 << 30, 1 << 20
REQUESTED = 9000
"""MiB: by requests the accelerator takes one of these pods."""
LEASES = "kube-system"
STEADY = "timestamp_anon,value,container_ip\n" + "".join(
    f"{1662858720 + 57 * sample}.0,{3.0 * GIB + 0.1 * GIB * (sample % 5):.1f},recorded\n"
    for sample in range(60)
)
"""A pod that serves, every 57 s, in bytes."""
GROWING = "".join(f"{second},{min(3100 + 250 * second, 9100)}.0\n" for second in range(60))
"""An engine that grows, every second, in MiB; without a header. With two others it nearly fills the memory,
and never does, however late the scheduler acts on a busy machine."""


@needs_compiler
def test_pods_are_packed_by_use_and_one_that_grows_is_evicted_before_the_memory_is_full(
    pods: Pods, site: Site, tmp_path: Path
) -> None:
    processes = ReportedProcesses(site)
    processes.install(tmp_path)
    steady, growing = read_steady(tmp_path), read_growing()
    with learned_sizes(site), measured_by_prometheus(site):
        pods.start(["one"], {"fairlead.dev/gpu-mem": REQUESTED}, scheduler="fairlead")
        with replaying(processes, pods, dict.fromkeys(("one", "two", "three", "four"), steady)) as replay:
            pods.start(["two", "three", "four"], {"fairlead.dev/gpu-mem": REQUESTED}, scheduler="fairlead")
            wait_for("three pods to run", lambda: len(pods.running()) == 3, pods.explain)
            (late,) = pods.all().keys() - set(pods.running())
            pods.wait_pending(late, "0 of 1 accelerators can take")
            assert telemetry(site, pods, late) == "fresh"

            grows, *others = sorted(set(pods.running()) - {"one"})
            replay.restart(grows, growing)
            wait_for("an eviction", lambda: gone(pods, grows), pods.explain)
            reason = f"Evicted before an allocation fails: {GPU} of {site.name} has"
            wait_for("its reason", lambda: reason in pods.events(grows), pods.explain)
            assert {"one", *others} <= set(pods.running())


class Replay:
    """Plays a series for each pod, one sample every half second."""

    def __init__(self, processes: ReportedProcesses, pods: Pods, series: Mapping[str, Sequence[int]]) -> None:
        self._processes, self._namespace = processes, pods.namespace
        self._series = {name: list(values) for name, values in series.items()}
        self._at = dict.fromkeys(series, 0)
        self.stopped = threading.Event()

    def restart(self, name: str, values: Sequence[int]) -> None:
        """Play another series for a pod, from its first sample."""
        self._at[name] = 0
        self._series[name] = list(values)

    def run(self) -> None:
        """Play until stopped; the last sample holds."""
        while not self.stopped.wait(0.5):
            memory = {}
            for name, pid in self._processes.pids(self._namespace).items():
                if name in self._series:
                    values = self._series[name]
                    memory[pid] = values[min(self._at[name], len(values) - 1)]
                    self._at[name] += 1
            self._processes.write(memory)


@contextmanager
def replaying(
    processes: ReportedProcesses, pods: Pods, series: Mapping[str, Sequence[int]]
) -> Iterator[Replay]:
    """Replay series during the block."""
    replay = Replay(processes, pods, series)
    thread = threading.Thread(target=replay.run)
    thread.start()
    try:
        yield replay
    finally:
        replay.stopped.set()
        thread.join()


def read_steady(folder: Path) -> list[int]:
    """Return the bytes of a series with a header, a time in seconds and an id."""
    path = folder / "steady.csv"
    path.write_text(STEADY, encoding="ascii")
    ((recorded,), _) = read_series(str(path))
    return [int(value) for value in recorded.memory.values]


def read_growing() -> list[int]:
    """Return the bytes of a series of seconds and MiB."""
    return [int(float(line.split(",")[1])) * MIB for line in GROWING.splitlines()]


@contextmanager
def learned_sizes(site: Site) -> Iterator[None]:
    """Keep what earlier runs of the image have held, as a scheduler writes it."""
    footprint = Footprint(f"image:{IMAGE}", None, Bytes(round(3.6 * GIB)), ramp=2.0, runs=3, samples=100)
    path = f"{CORE}/namespaces/{LEASES}/configmaps"
    body = {"metadata": {"name": FOOTPRINTS_NAME}, "data": {SIZES: footprints_text([footprint])}}
    site.api.create(path, [body])
    try:
        yield
    finally:
        site.api.delete([f"{path}/{FOOTPRINTS_NAME}"])


@contextmanager
def measured_by_prometheus(site: Site) -> Iterator[None]:
    """Run the scheduler by measured use, read from a Prometheus that scrapes the agent."""
    options = ("--policy", "fairlead-safe", "--prometheus", site.lab.prometheus(), "--usage-period", "1s")
    with running_scheduler(site.lab, *options):
        yield


def telemetry(site: Site, pods: Pods, pod: str) -> str:
    """Return how current the leader's figures are, by `fairlead explain`."""
    program = [sys.executable, "-c", "from fairlead.cli.main import run; run()", "explain", pod]
    where = ["-n", pods.namespace, "--kubeconfig", str(site.lab.kubeconfig), "-o", "json"]
    done = subprocess.run([*program, *where], capture_output=True, text=True, timeout=300, check=False)
    explanation: Document = json.loads(done.stdout)[0] if done.stdout else {}
    return str(explanation.get("telemetry", {}).get("staleness", ""))


def gone(pods: Pods, name: str) -> bool:
    """Return whether a pod has ended, or is ending."""
    with suppress(KeyError):
        return not is_running(pods.all()[name])
    return True

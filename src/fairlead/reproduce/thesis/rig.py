"""Run pipelines of the application with the real runtime, on this machine or on two emulated hosts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from fairlead.errors import EmulationError
from fairlead.reproduce.emulation.namespaces import SERVER, EmulatedHost, HostPair, host_pair
from fairlead.reproduce.emulation.quota import CpuQuota, cpu_quota
from fairlead.reproduce.thesis.application import OUTPUT
from fairlead.reproduce.thesis.stages import CAPTURED

PORT: Final = 7070
RELAY_PORT: Final = 7071
_START_S: Final = 30.0
_RUN_S: Final = 600.0
_FAIRLEAD: Final = (sys.executable, "-m", "fairlead")
_FILE: Final = "thesis.yaml"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What one run gave."""

    rate: float
    """Frames a second, after a warm-up."""
    latencies: tuple[float, ...]
    """Seconds from the read of each frame until it was done, after the warm-up."""
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    """By stage: the mean of its calls."""

    @property
    def latency(self) -> float:
        """The median."""
        return median(self.latencies)


@dataclass(frozen=True, slots=True)
class Rig:
    """Where `fairlead` runs: this machine, or the server of an emulated pair."""

    folder: Path
    """With the kernels, the stages and the pipeline's file; both hosts have it."""
    host: EmulatedHost | None = None
    tls: tuple[str, ...] = ()

    def fairlead(self, *words: str) -> str:
        """Run a command of fairlead in the folder, and return what it prints; EmulationError if it fails."""
        done = self.start(*words)
        try:
            out, err = done.communicate(timeout=_RUN_S)
        finally:
            end_process(done)
        if done.returncode:
            lines = [line.strip() for line in err.strip().splitlines()] or ["no reason given"]
            raise EmulationError(f"fairlead {' '.join(words[:2])} failed: {'; '.join(lines[-2:])}")
        return out

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command of fairlead in the folder."""
        argv = [*_FAIRLEAD, *words, *self.tls]
        return subprocess.Popen(  # noqa: S603 - no shell; every argument is ours
            self.host.command(argv) if self.host else argv,
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def write(self, text: str, name: str = _FILE) -> str:
        """Write the file of a pipeline, and return its name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def run(self, text: str) -> RunFigures:
        """Run a pipeline to its end."""
        (self.folder / OUTPUT).unlink(missing_ok=True)
        status = json.loads(self.fairlead("pipeline", "run", self.write(text), "-o", "json"))
        calls = {stage["name"]: stage["times"]["process"] for stage in status["stages"]}
        means = {name: each["sum"] / each["count"] for name, each in calls.items() if each["count"]}
        return replace(read_figures(self.folder), stage_seconds=means)


@dataclass(frozen=True, slots=True)
class TwoHosts:
    """An edge with a part of a CPU and a server, joined by a link."""

    rig: Rig
    """On the server, where the coordinator is."""
    pair: HostPair
    quota: CpuQuota | None
    address: str
    """By which the coordinator reaches the edge."""
    relay: "subprocess.Popen[str] | None" = field(default=None)

    def shape(self, **changes: float | bool | None) -> None:
        """Change the relay: `delay_s`, `bytes_per_s`, `loss`, or `cut=True`."""
        if self.relay is None or self.relay.stdin is None or self.relay.stdout is None:
            raise EmulationError("there is no relay to change")
        self.relay.stdin.write(json.dumps(changes) + "\n")
        self.relay.stdin.flush()
        answer = json.loads(self.relay.stdout.readline())
        if "problem" in answer:
            raise EmulationError(f"the relay refused {changes}: {answer['problem']}")


def read_figures(folder: Path) -> RunFigures:
    """Return the figures of a run that is done; EmulationError where a frame is lost or out of order."""
    return figures(*read_times(folder / CAPTURED, folder / OUTPUT))


def read_times(captured: Path, output: Path) -> tuple[list[float], list[float]]:
    """Return when frames were read and done; EmulationError where one is lost, repeated or out of order."""
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    times = [line.split() for line in captured.read_text(encoding="ascii").splitlines()]
    begins = {int(number): float(at) for number, at in times}
    if [line["sequence"] for line in lines] != [*range(len(lines))] or len(lines) != len(begins):
        raise EmulationError("a frame was lost, repeated or out of order")
    return [begins[line["sequence"]] for line in lines], [line["value"]["at"] for line in lines]


def figures(begins: Sequence[float], ends: Sequence[float]) -> RunFigures:
    """Return the figures of frames by the times at which they were read and done; a quarter warms up."""
    warm = min(len(ends) // 4, 20)
    seconds = ends[-1] - ends[warm]
    ages = tuple(end - begin for begin, end in zip(begins, ends, strict=True))[warm:]
    return RunFigures((len(ends) - 1 - warm) / seconds if seconds > 0 else 0.0, ages)


@contextmanager
def two_hosts(folder: Path, share: float | None, *, with_relay: bool = False) -> Iterator[TwoHosts]:
    """Yield an edge at a part of a CPU and a server, with the folder on both; all ends with the block."""
    from fairlead.pipeline.hosts.certificates import (  # noqa: PLC0415  # one machine needs no cryptography
        write_certificates,
    )

    with ExitStack() as stack:
        pair = stack.enter_context(host_pair())
        quota = None if share is None else stack.enter_context(cpu_quota(share))
        keys = folder / "keys"
        edge, server = pair.hosts  # the relay in front of the edge has the server's address
        named = [f"{edge.name},{edge.address},{server.address}", f"{server.name},{server.address}"]
        write_certificates(str(keys), named, 2)
        stack.enter_context(_worker(folder, pair, quota))
        rig = Rig(folder, pair.server, _tls_words(keys, SERVER))
        if not with_relay:
            yield TwoHosts(rig, pair, quota, f"{pair.edge.address}:{PORT}")
            return
        relay = stack.enter_context(_relay(folder, pair))
        yield TwoHosts(rig, pair, quota, f"{pair.server.address}:{RELAY_PORT}", relay)


@contextmanager
def _worker(folder: Path, pair: HostPair, quota: CpuQuota | None) -> "Iterator[subprocess.Popen[str]]":
    edge = pair.edge
    words = ["pipeline", "worker", "--listen", f"{edge.address}:{PORT}", "--folder", str(folder)]
    argv = edge.command([*_FAIRLEAD, *words, *_tls_words(folder / "keys", edge.name)])
    with background(quota.command(argv) if quota else argv, folder, "worker.log") as worker:
        if quota is not None:
            quota.on_start(worker.pid)
        _await_line(worker, folder / "worker.log", "listens on")
        yield worker


@contextmanager
def _relay(folder: Path, pair: HostPair) -> "Iterator[subprocess.Popen[str]]":
    server, edge = pair.server, pair.edge
    module = [sys.executable, "-m", "fairlead.reproduce.emulation.relay"]
    argv = server.command([*module, server.address, str(RELAY_PORT), edge.address, str(PORT)])
    with background(argv, folder, "relay.log", pipes=True) as relay:
        assert relay.stdout is not None
        if not relay.stdout.readline():
            raise EmulationError(f"the relay did not start: {(folder / 'relay.log').read_text().strip()}")
        yield relay


@contextmanager
def background(
    argv: Sequence[str], folder: Path, log: str, *, pipes: bool = False
) -> "Iterator[subprocess.Popen[str]]":
    """Yield a process that ends with the block; what it says of errors goes to a file of the folder."""
    with open(folder / log, "w", encoding="utf-8") as errors:
        child = subprocess.Popen(  # noqa: S603 - no shell; every argument is ours
            argv,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        end_process(child)


def end_process(child: "subprocess.Popen[str]") -> None:
    """End a process and the group that it leads."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def _await_line(child: "subprocess.Popen[str]", log: Path, words: str) -> None:
    until = time.monotonic() + _START_S
    while words not in log.read_text(encoding="utf-8"):
        if child.poll() is not None or time.monotonic() > until:
            lines = log.read_text(encoding="utf-8").strip().splitlines() or ["no reason given"]
            raise EmulationError(f"the worker of the edge did not start: {lines[-1]}")
        time.sleep(0.02)


def _tls_words(keys: Path, name: str) -> tuple[str, ...]:
    return ("--ca", f"{keys}/ca.crt", "--cert", f"{keys}/{name}.crt", "--key", f"{keys}/{name}.key")


def _environment() -> dict[str, str]:
    """Return the environment of children: they find this program wherever it was imported from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

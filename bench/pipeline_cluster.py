"""A deployed pipeline beside the same arrangement of bare processes: a part of `make bench-pipeline-cluster`.

A source and a stage on one host, a stage on another, the sink on a third: frames of 640 x 480 cross one
link, small records the next one, both with mutual TLS. Deployed, these are pods that the operator made of a
file that `fairlead pipeline deploy` stored, on a lab with one real node. Bare, two `fairlead pipeline worker`
and a `run --follow` have the same file, and so the same processes, in a control group that weighs as much
against others as that of the node's pods: on two emulated hosts, which are network namespaces joined by a
veth pair, with the coordinator on the first; and on the loopback of this machine, where no frame crosses an
interface. Fused is a run on the loopback that follows no file: its camera and flip share a process. Rounds
are interleaved, each in another order than the one before; the first frames of a run do not count. Exit code
1: the deployed pipeline has less than 90 % of the frames/s of the same processes on two hosts.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.labs import apply, run_lab
from bench.operator_load import machine
from fairlead.lab.build.prerequisites import build
from fairlead.lab.node import cgroups
from fairlead.lab.node.load import load
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec
from fairlead.reproduce.emulation.namespaces import host_pair
from tests.images import pipeline_archive

FRAMES, WARM = 9000, 1500
LEAST = 0.9
NAME, HOSTS = "rates", ("edge", "server")
NAMESPACE = "default"
PATIENCE = 300.0
_FAIRLEAD = (sys.executable, "-m", "fairlead")
_FILE = f"""
pipeline: {NAME}
stages:
  - {{name: camera, source: numbers, options: {{count: {FRAMES}, shape: [480, 640, 3]}}, on: edge}}
  - {{name: flip, run: "rates.py:flip", on: edge, in: Image, out: Image}}
  - {{name: mean, run: "rates.py:mean", on: server, in: Image, out: Record}}
  - {{name: rate, run: "rates.py:Rate", in: Record, out: Record}}
  - {{name: log, sink: stdout}}
hosts: %s
cluster: {{schedulerName: default-scheduler, imagePullPolicy: Never}}
"""
_CODE = f"""
import time


def flip(image):
    return image[::-1].copy()


def mean(image):
    return {{"mean": float(image[::8, ::8].mean())}}


class Rate:
    def open(self):
        self.taken = 0

    def process(self, record):
        self.taken += 1
        if self.taken == {WARM}:
            self.begin = time.monotonic()
        if self.taken == {FRAMES}:
            return {{"rate": {FRAMES - WARM} / (time.monotonic() - self.begin)}}
"""
_COMPLETED = 'jsonpath={.status.conditions[?(@.type=="Ready")].reason}=Completed'
Measure = Callable[[], float]


def write_pipeline(folder: Path, hosts: dict[str, dict[str, object]]) -> str:
    """Write the file and its code, and return the file."""
    folder.mkdir()
    (folder / "rates.py").write_text(_CODE, encoding="utf-8")
    file = folder / "rates.yaml"
    file.write_text(_FILE % json.dumps(hosts), encoding="utf-8")
    return str(file)


def fairlead(*words: str, inside: Sequence[str] = ()) -> str:
    """Run a command of fairlead, which must succeed, and return its output; `inside` starts it in a group."""
    done = subprocess.run([*inside, *_FAIRLEAD, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"fairlead {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def read_rate(lines: str) -> float:
    """Return what the sink has printed."""
    return float(json.loads(lines.splitlines()[-1])["value"]["rate"])


@dataclass(frozen=True)
class BareHost:
    """Where bare processes run: an address, and what makes a command line run there."""

    address: str
    command: Callable[[Sequence[str]], list[str]] = list


def on_loopback() -> dict[str, BareHost]:
    """Return hosts that are this machine."""
    return {host: BareHost("127.0.0.1") for host in HOSTS}


@contextmanager
def bare(folder: Path, at: Mapping[str, BareHost], *options: str) -> Iterator[Measure]:
    """Serve the hosts by bare processes; the block gets what measures one run with these options.

    The coordinator runs on the first host.
    """
    addresses = {host: f"{at[host].address}:{free_port()}" for host in HOSTS}
    file = write_pipeline(folder, {host: {"address": address} for host, address in addresses.items()})
    keys = folder / "keys"
    named = [word for host in HOSTS for word in ("--host", f"{host},{at[host].address}")]
    fairlead("pipeline", "certificates", str(keys), *named)
    with ExitStack() as stack:
        inside = stack.enter_context(group(folder.name))
        for host, address in addresses.items():
            words = ["pipeline", "worker", "--listen", address, "--folder", str(folder), *tls(keys, host)]
            stack.enter_context(running(words, at[host].command(inside)))

        def measure() -> float:
            words = ("-q", "--hosts-within", f"{PATIENCE:.0f}s", *tls(keys, "coordinator"), *options)
            return read_rate(fairlead("pipeline", "run", file, *words, inside=at[HOSTS[0]].command(inside)))

        yield measure


@contextmanager
def deployed(folder: Path, lab: Lab) -> Iterator[Measure]:
    """Run the operator of a lab; the block gets what measures one run as pods."""
    file = write_pipeline(folder, {host: {"pod": {}} for host in HOSTS})
    where = ("--kubeconfig", str(lab.kubeconfig), "-n", NAMESPACE, "-o", "json")
    programs = build(["kubectl", "ctr"], StepPrinter(sys.stderr))
    load(lab, [pipeline_archive()], programs["ctr"])
    apply(lab, fairlead("manifests", "pipelines"))
    kubectl = [str(programs["kubectl"]), "--kubeconfig", str(lab.kubeconfig), "-n", NAMESPACE]
    # One process waits: a status that is asked for each second takes a tenth of a core from the pods.
    ended = ["wait", f"pipelines.fairlead.dev/{NAME}", f"--for={_COMPLETED}", f"--timeout={PATIENCE:.0f}s"]

    def measure() -> float:
        fairlead("pipeline", "deploy", file, *where, "--wait")
        subprocess.run([*kubectl, *ended], capture_output=True, check=False)
        status = read_status(where)
        if status["reason"] != "Completed":
            raise SystemExit(f"the deployed pipeline does not end: {status}")
        words = [*kubectl, "logs", status["pod"]]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        fairlead("pipeline", "delete", NAME, *where, "--wait")
        return read_rate(lines)

    with running(["serve", "operator", "--kubeconfig", str(lab.kubeconfig), "--listen", "127.0.0.1:0"]):
        yield measure


def read_status(where: Sequence[str]) -> dict[str, str]:
    """Return why the pipeline is ready or not, and the coordinator's pod."""
    words = [*_FAIRLEAD, "pipeline", "status", NAME, *where]  # its exit code is 1 while it is not ready
    document = json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)
    ready = next(each for each in document["conditions"] if each["type"] == "Ready")
    pods = {each["name"]: each["pod"] for each in document["hosts"]}
    return {"reason": ready["reason"], "message": ready["message"], "pod": pods.get("local", "")}


def tls(keys: Path, name: str) -> list[str]:
    """Return the options that name the certificates of a host."""
    return [
        "--ca",
        str(keys / "ca.crt"),
        "--cert",
        str(keys / f"{name}.crt"),
        "--key",
        str(keys / f"{name}.key"),
    ]


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def group(name: str) -> Iterator[list[str]]:
    """Make control groups like those of a node; the block gets the words that start a program in them."""
    name = f"{cgroups.PREFIX}bench-{os.getpid()}-{name}"
    cgroups.create(name)
    procs = [str(hierarchy / name / "cgroup.procs") for hierarchy in cgroups.hierarchies()]
    try:
        yield ["sh", "-c", 'for file in $0; do echo $$ > "$file"; done; exec "$@"', " ".join(procs)]
    finally:
        for file in procs:
            Path(file).parent.rmdir()


@contextmanager
def running(words: Sequence[str], inside: Sequence[str] = ()) -> Iterator[None]:
    """Run a program of fairlead during the block."""
    with subprocess.Popen([*inside, *_FAIRLEAD, *words], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def measure_rounds(ways: dict[str, Measure], number: int) -> list[dict[str, float]]:
    """Return the frames/s of each way in each round."""
    rounds = []
    for index in range(number):
        order = list(ways) if index % 2 == 0 else [*reversed(ways)]
        rounds.append({way: ways[way]() for way in order})
        print("  ".join(f"{way} {rounds[-1][way]:.1f}" for way in ways), flush=True)
    return rounds


def main() -> int:
    """Run on a lab of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    options = parser.parse_args()
    spec = LabSpec(LabProfile.NODE, "bench-deployed", owner=os.getpid())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pair = stack.enter_context(host_pair())
        emulated = {host.name: BareHost(host.address, host.command) for host in pair.hosts}
        ways = {
            "two hosts": stack.enter_context(bare(folder / "hosts", emulated, "--follow")),
            "loopback": stack.enter_context(bare(folder / "bare", on_loopback(), "--follow")),
            "fused": stack.enter_context(bare(folder / "fused", on_loopback())),
            "deployed": stack.enter_context(deployed(folder / "pods", stack.enter_context(run_lab(spec)))),
        }
        rounds = measure_rounds(ways, options.rounds)
    for way in ways:
        rates = sorted(each[way] for each in rounds)
        print(f"{way}: median {statistics.median(rates):.1f} frames/s, {rates[0]:.1f} to {rates[-1]:.1f}")
    ratios = {
        way: statistics.median(each["deployed"] / each[way] for each in rounds)
        for way in ("two hosts", "loopback")
    }
    print(
        f"deployed over bare, medians of {len(rounds)} interleaved rounds: two hosts "
        f"{ratios['two hosts']:.2f} (at least {LEAST}), loopback {ratios['loopback']:.2f}"
    )
    print(f"{machine()}\nrepeat: make bench-pipeline-cluster")
    return 0 if ratios["two hosts"] >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())

"""Measure how soon `fairlead explain` says why a pod waits, beside listing the cluster and deciding anew.

A lab of nodes that kwok plays, eight GPUs each, full of pods that are bound already, and a few that wait:
half of them for more than any GPU has, half for CPU that others hold. A scheduler of ours leads. Whole
commands are timed, as a person runs them; beside that, how long the leader itself takes, and the processor
time of the command. Exit code 1: the bar was missed.
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import msgspec

from bench.labs import HOUSE, started
from bench.scheduler_lab import fleet, furnish, many
from fairlead.cli.output import to_table
from fairlead.cluster import kubeconfig
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import LEASES
from fairlead.keys import PLACEMENT
from fairlead.lab.state import Lab, Profile
from fairlead.lab.up import Wish
from fairlead.manifest.live import PODS
from fairlead.manifest.seen import SCHEDULED
from fairlead.placement import Share
from fairlead.serve.scheduler.explain import PATH
from fairlead.units import Bytes
from fairlead.whatif import leader

BAR = 1.0
"""Seconds that a whole `fairlead explain` may take."""
MIB = 2048
REST = 4.0
"""Seconds between questions on different pods: for each the smallest change is looked for anew."""
PATIENCE = 600.0
FIRST, AGAIN = "its scheduler, first time", "its scheduler, again"
ITSELF, HERE = "its scheduler's page alone", "decided anew here"
RUN = (sys.executable, "-c", "from fairlead.cli.main import run; run()")


def pod(name: str, mib: int, node: str = "", device: str = "", cpu: str = "100m") -> dict[str, Any]:
    """Return a pod that asks for part of a GPU; one with a node has it already."""
    size = {"fairlead.dev/gpu-mem": str(mib)}
    resources = {"requests": {"cpu": cpu, **size}, "limits": size}
    note = json.dumps([Share(device, Bytes(mib << 20)).to_json()])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {PLACEMENT: note} if node else {}},
        "spec": {
            "schedulerName": "fairlead",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "x", "resources": resources}],
            **({"nodeName": node} if node else {}),
        },
    }


async def fill(client: Client, nodes: int, pods: int, waiting: int) -> None:
    """Make the pods: those that are bound, then those that wait."""
    names = [f"gpu-{number % nodes}" for number in range(pods)]
    bodies = [pod(f"bound-{number}", MIB, node, "pci-0000-01-00-0") for number, node in enumerate(names)]
    bodies += [
        pod(f"late-{number}", 17_000 + number) if number % 2 else pod(f"late-{number}", MIB, cpu="64")
        for number in range(waiting)
    ]
    path = PODS.path("default")
    await many(bodies, lambda body: client.request("POST", path, body=msgspec.json.encode(body)))


@contextmanager
def serving(lab: Lab) -> Iterator[None]:
    """Run a scheduler."""
    words = ("serve", "scheduler", "--listen", "127.0.0.1:0", "--kubeconfig", str(lab.kubeconfig))
    with subprocess.Popen([*RUN, *words], cwd=HOUSE, env=_environment()) as child:
        try:
            yield
        finally:
            child.terminate()


@dataclass(frozen=True, slots=True)
class Took:
    """How long a question took, in seconds."""

    wall: float
    cpu: float
    """Of the command itself."""


def explain(lab: Lab, name: str, *words: str, code: int = 1) -> tuple[Took, dict[str, Any]]:
    """Run the command, and return how long it took and what it said."""
    command = [*RUN, "explain", name, "-o", "json", "--kubeconfig", str(lab.kubeconfig), *words]
    began, before = time.monotonic(), _used()
    done = subprocess.run(command, capture_output=True, text=True, cwd=HOUSE, env=_environment(), check=False)
    took = Took(time.monotonic() - began, _used() - before)
    if done.returncode != code:
        raise SystemExit(f"explain {name}: exit {done.returncode}: {done.stderr}")
    (told,) = json.loads(done.stdout)
    return took, told


def _environment() -> dict[str, str]:
    """Return what a user's environment would be: modules stay compiled from one command to the next."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def leader_itself(address: str, name: str) -> Took:
    """Ask the leader for its page, without a command around it."""
    began = time.monotonic()
    with urlopen(f"http://{address}{PATH}default/{name}", timeout=PATIENCE) as answer:
        answer.read()
    return Took(time.monotonic() - began, 0.0)


async def told(client: Client, waiting: int) -> None:
    """Wait until every pod that waits has been told why, and every other runs."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await client.list(PODS, "default", fields="status.phase=Pending")).items
            if len(found) == waiting and all(each.condition(SCHEDULED).message for each in found):
                return
            await asyncio.sleep(2.0)


def quantile(times: list[float], part: float) -> float:
    """Return what that part of all stays below."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))]


def row(name: str, times: list[Took]) -> tuple[str, ...]:
    """Return a line of the table."""
    walls = [each.wall for each in times]
    figures = (quantile(walls, 0.5), quantile(walls, 0.99), max(walls))
    spent = quantile([each.cpu for each in times], 0.5)
    return (name, str(len(times)), *(f"{each:.2f} s" for each in figures), f"{spent:.2f} s" if spent else "-")


async def measured(lab: Lab, options: argparse.Namespace) -> dict[str, list[Took]]:
    """Return how long each way took, time for time."""
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig)), connections=64) as client:
        began = time.monotonic()
        await furnish(lab, client, options.nodes)
        await fill(client, options.nodes, options.pods, options.waiting)
        print(f"the cluster is full after {time.monotonic() - began:.0f} s", file=sys.stderr)
        with serving(lab):
            await told(client, options.waiting)
            lease = await client.get(LEASES, leader.LEASE, "kube-system")
            await asyncio.sleep(REST)
            return await asyncio.to_thread(ask, lab, leader.Leader.of(lease).address, options)


def ask(lab: Lab, address: str, options: argparse.Namespace) -> dict[str, list[Took]]:
    """Ask about one pod after the other, then again and again about one, then decide anew."""
    found: dict[str, list[Took]] = {FIRST: [], AGAIN: [], ITSELF: [], HERE: []}
    explain(lab, "bound-0", code=0)  # modules are compiled by who runs them first
    time.sleep(REST)
    for number in range(options.waiting):
        took, said = explain(lab, f"late-{number}")
        if said["source"] != "scheduler" or said["sentence"] != said["condition"]:
            raise SystemExit(f"late-{number}: not as it should be told: {said}")
        found[FIRST].append(took)
        print(f"late-{number}: {took.wall:.2f} s, {took.cpu:.2f} s of CPU", file=sys.stderr)
        time.sleep(max(REST, REST * took.wall))
    for number in range(options.waiting):
        took = leader_itself(address, f"late-{number}")
        found[ITSELF].append(took)
        time.sleep(max(REST, 2 * REST * took.wall))
    found[AGAIN] = [explain(lab, "late-0")[0] for _ in range(options.again)]
    found[HERE] = [explain(lab, "late-0", "--local")[0] for _ in range(options.local)]
    return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--waiting", type=int, default=20, help="pods that wait, each asked about once")
    parser.add_argument("--again", type=int, default=50, help="questions on one pod")
    parser.add_argument("--local", type=int, default=3, help="times that the peer decides anew")
    options = parser.parse_args()
    wish = Wish(Profile.CONTROL, "bench-explain", fleet=fleet(options.nodes))
    with started(wish) as lab:
        found = asyncio.run(measured(lab, options))
    machine = f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}"
    print(f"{options.nodes} nodes with 8 GPUs, {options.pods} pods; {machine}")
    print(
        to_table(("asked", "times", "p50", "p99", "worst", "CPU p50"), [row(*each) for each in found.items()])
    )
    ours, peer = (quantile([each.wall for each in found[name]], 0.5) for name in (FIRST, HERE))
    worst = max(quantile([each.wall for each in found[name]], 0.99) for name in (FIRST, AGAIN))
    print(f"beside deciding anew: {peer / ours:.1f} times as fast")
    print(f"the bar of {BAR:g} s: p99 {worst:.2f} s: {'kept' if worst <= BAR else 'missed'}")
    return 0 if worst <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())

"""A full cluster with pending pods, and the ways to ask why: the whole command, and the leader's page."""

import asyncio
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import msgspec

from bench.labs import HOUSE
from bench.pairs import AFTER, Checkout
from bench.scheduler_lab import create_claim_objects, for_each
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS
from fairlead.keys import PLACEMENT
from fairlead.lab.run.state import Lab
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from fairlead.units import Bytes

MIB = 2048
PATIENCE = 600.0
RUN = (sys.executable, "-c", "from fairlead.cli.main import run; run()")


def pod(name: str, mib: int, node: str = "", device: str = "", cpu: str = "100m") -> dict[str, Any]:
    """Return a pod that requests part of a GPU; with a node, it holds that part already."""
    size = {"fairlead.dev/gpu-mem": str(mib)}
    resources = {"requests": {"cpu": cpu, **size}, "limits": size}
    placement = PLACEMENTS.encode((DeviceShare(device, Bytes(mib << 20)),))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {PLACEMENT: placement} if node else {}},
        "spec": {
            "schedulerName": "fairlead",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "x", "resources": resources}],
            **({"nodeName": node} if node else {}),
        },
    }


async def fill(client: Client, nodes: int, pods: int, waiting: int) -> None:
    """Create the pods: the bound ones, then the pending ones."""
    names = [f"gpu-{number % nodes}" for number in range(pods)]
    bodies = [pod(f"bound-{number}", MIB, node, "pci-0000-01-00-0") for number, node in enumerate(names)]
    bodies += [
        pod(f"late-{number}", 17_000 + number) if number % 2 else pod(f"late-{number}", MIB, cpu="64")
        for number in range(waiting)
    ]
    path = PODS.path("default")
    await for_each(bodies, lambda body: client.request("POST", path, body=msgspec.json.encode(body)))


async def fill_cluster(lab: Lab, client: Client, nodes: int, pods: int, waiting: int) -> None:
    """Fill the cluster."""
    began = time.monotonic()
    await create_claim_objects(lab, client, nodes)
    await fill(client, nodes, pods, waiting)
    print(f"the cluster is full after {time.monotonic() - began:.0f} s", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Duration:
    """The duration of a request, in seconds."""

    wall: float
    cpu: float
    """CPU time of the command itself."""


def explain(
    lab: Lab, name: str, *words: str, code: int = 1, side: Checkout = AFTER
) -> tuple[Duration, dict[str, Any]]:
    """Run the command, and return its duration and its answer."""
    command = [*RUN, "explain", name, "-o", "json", "--kubeconfig", str(lab.kubeconfig), *words]
    began, before = time.monotonic(), _children_cpu()
    done = subprocess.run(command, capture_output=True, text=True, cwd=HOUSE, env=side.environ(), check=False)
    took = Duration(time.monotonic() - began, _children_cpu() - before)
    if done.returncode != code:
        raise SystemExit(f"explain {name}: exit {done.returncode}: {done.stderr}")
    (answer,) = json.loads(done.stdout)
    return took, answer


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ask_leader(page: str, name: str, uid: str) -> tuple[Duration, dict[str, Any]]:
    """Get the leader's page without the command; return the duration and the answer."""
    began = time.monotonic()
    with urlopen(f"{page}/explain/default/{name}/{uid}", timeout=PATIENCE) as response:
        answer: dict[str, Any] = json.load(response)
    return Duration(time.monotonic() - began, 0.0), answer


async def wait_for_reasons(client: Client, waiting: int) -> dict[str, str]:
    """Wait until every pending pod has a reason in its conditions, and return their names and uids."""
    async with asyncio.timeout(PATIENCE):
        while True:
            pods = (await client.list(PODS, "default", fields="status.phase=Pending")).items
            if len(pods) == waiting and all(
                any(one.type == "PodScheduled" and one.message for one in each.status.conditions)
                for each in pods
            ):
                return {each.metadata.name: each.metadata.uid for each in pods}
            await asyncio.sleep(2.0)

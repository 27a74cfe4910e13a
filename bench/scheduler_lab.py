"""A lab for schedulers: nodes with eight GPUs each, objects for claims, and the CPU of its programs."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.labs import HOUSE, apply
from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import RESOURCE_SLICES
from fairlead.lab.control.fleet import Fleet, FleetDevice, NodeGroup
from fairlead.lab.control.kwok_nodes import inventory, manifests
from fairlead.lab.run import process
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab
from fairlead.publish.slices import slices
from fairlead.units import parse_bytes

IN_FLIGHT = 32
CLASSES = HOUSE / "deploy" / "manifests" / "deviceclasses.yaml"
PLACEMENT_FORMAT = ("fairlead.dev/placement-format", "1")
"""The annotation of a node whose agent honours the scheduler's choice of devices."""
SHARE = "share"
"""The template of the claims: as much memory as the pods without claims request."""
SHARE_MIB = 2048
_T = TypeVar("_T")
_TICKS = os.sysconf("SC_CLK_TCK")


def group(nodes: int) -> NodeGroup:
    """Return servers with eight GPUs of 16 GiB each."""
    gpu = load().devices["t4"]
    return NodeGroup("gpu", nodes, (FleetDevice(gpu, 8),), cpu=64, memory=parse_bytes("256GiB"))


def fleet(nodes: int) -> tuple[dict[str, Any], ...]:
    """Return the nodes, annotated as by agents that honour the scheduler's choice of devices."""
    documents = manifests(Fleet((group(nodes),)), load())
    for node in documents:
        node["metadata"]["annotations"] |= dict([PLACEMENT_FORMAT])
    return tuple(documents)


async def create_claim_objects(lab: Lab, client: Client, nodes: int) -> None:
    """Create the objects for claims: classes, a template, and the slices that agents would publish."""
    apply(lab, CLASSES.read_text(encoding="utf-8"))
    apply(lab, msgspec.yaml.encode(_template()).decode())
    wanted = group(nodes)
    seen = inventory(wanted, load())
    bodies = [body for name in wanted.node_names() for body in slices(name, "", seen, (), 1)]
    await for_each(bodies, lambda body: _post(client, RESOURCE_SLICES.path(), body))


async def for_each(items: Iterable[_T], action: Callable[[_T], Awaitable[object]]) -> None:
    """Run an action for each item, IN_FLIGHT at once."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await action(item)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


def cpu(of: Process) -> float:
    """Return the CPU seconds of a process and its threads; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{of.pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    user, system = fields.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """CPU seconds of each program at one moment."""

    at: float
    seconds: Mapping[str, float]

    @classmethod
    def now(cls, programs: Mapping[str, Process]) -> "CpuUsage":
        """Read the CPU seconds of programs."""
        return cls(time.monotonic(), {name: cpu(each) for name, each in programs.items()})

    def since(self, before: "CpuUsage") -> dict[str, float]:
        """Return the CPU seconds between two samples."""
        return {name: seconds - before.seconds.get(name, 0.0) for name, seconds in self.seconds.items()}


def programs(lab: Lab) -> dict[str, Process]:
    """Return the lab's own programs without its scheduler."""
    return {program.name: program.process for program in lab.programs if program.name != "kube-scheduler"}


def stop_scheduler(lab: Lab) -> tuple[str, ...]:
    """Stop the lab's scheduler, and return its command line: only one scheduler runs at a time."""
    scheduler = next(program for program in lab.programs if program.name == "kube-scheduler")
    stop(scheduler.process)
    return scheduler.argv


def stop(running: Process, patience: float = 30.0) -> None:
    """Stop a program; kill it if it does not end."""
    process.send_signal(running, signal.SIGTERM)
    until = time.monotonic() + patience
    while process.alive(running) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill([running])


async def _post(client: Client, path: str, body: Mapping[str, Any]) -> None:
    await client.request("POST", path, body=msgspec.json.encode(body))


def _template() -> dict[str, Any]:
    exactly = {
        "deviceClassName": "gpu.fairlead.dev",
        "capacity": {"requests": {"memory": f"{SHARE_MIB}Mi"}},
    }
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": SHARE, "namespace": "default"},
        "spec": {"spec": {"devices": devices}},
    }

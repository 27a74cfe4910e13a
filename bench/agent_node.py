"""A real node of a lab with the agent's pod of the chart: install it, watch it, measure its usage."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from bench.labs import CHART, NAMESPACE, node_writes
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, PODS, Kind
from fairlead.lab.build.programs import ensure
from fairlead.lab.control import helm
from fairlead.lab.node.load import load
from fairlead.lab.run.state import Lab
from fairlead.lab.run.steps import StepPrinter
from fairlead.publish.parts import MemoryUnit
from tests.e2e.machines import Machine
from tests.images import agent_archive

SETTLE, SCRAPES, PATIENCE = 30.0, 15.0, 180.0
PORT = 19809
PARTS = {"agent": "serve agent", "warden": "fairlead.warden.__main__"}
"""By container: a part of its process's command line."""
DAEMON_SETS = Kind.of("apps", "v1", "daemonsets", namespaced=True)
ONE_GIB = {MemoryUnit.MIB.resource: "1024", MemoryUnit.GIB.resource: "1"}
_WRITES = re.compile(r"^fairlead_api_writes_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Memory and CPU of a process."""

    resident: float
    """MiB."""
    own: float
    """MiB, with shared pages counted in proportion (PSS)."""
    cpu: float
    """Percent of a core."""

    def __add__(self, other: "ProcessUsage") -> "ProcessUsage":
        """Return the sum of two processes."""
        return ProcessUsage(self.resident + other.resident, self.own + other.own, self.cpu + other.cpu)


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """The usage of agent and warden during a window, and the writes to the API server."""

    agent: ProcessUsage
    warden: ProcessUsage
    writes: int
    """Writes to the API server, by the agent's own counter."""
    served: int
    """Writes of nodes and slices by any client, by the API server's counter; without a node's status."""


class AgentNode:
    """The real node."""

    def __init__(self, lab: Lab, client: Client) -> None:
        self._lab = lab
        self._client = client
        self._pod = ""

    def install(self, host: str, values: Sequence[str]) -> None:
        """Install the chart on a node that replays another machine."""
        machine = Machine(self._lab.folder / "machine")
        machine.replay(host)
        load(self._lab, [agent_archive()], ensure(["ctr"])["ctr"])
        program = helm.program(StepPrinter(sys.stderr))
        command = [str(program), "install", "fairlead", str(CHART), "--namespace", NAMESPACE]
        command += ["--create-namespace", "--set", f"replay.root={machine.folder}"]
        command += [word for value in values for word in ("--set", value)]
        env = helm.environment(self._lab, os.environ)
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)

    async def change(self, python: str, environ: Sequence[str]) -> None:
        """Add options of the interpreter and environment variables to the containers."""
        more: dict[str, Any] = {}
        if environ:
            more["env"] = [dict(zip(("name", "value"), each.split("=", 1), strict=True)) for each in environ]
        if python:
            more["command"] = ["/usr/bin/python3", "-IS", *shlex.split(python), "/usr/bin/fairlead"]
        if more:
            patch = {
                "spec": {"template": {"spec": {"containers": [{"name": part, **more} for part in PARTS]}}}
            }
            await self._client.patch(DAEMON_SETS, "fairlead-agent", patch, NAMESPACE, patch_type="strategic")

    async def ready(self) -> None:
        """Wait until the DaemonSet's pod is ready, and the only one."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            daemon_set = (await self._client.get(DAEMON_SETS, "fairlead-agent", NAMESPACE)).document()
            state = daemon_set["status"]
            current = state.get("observedGeneration") == daemon_set["metadata"]["generation"]
            pods = (await self._client.list(PODS, NAMESPACE)).items
            if current and state.get("numberReady") == state.get("updatedNumberScheduled") == len(pods) == 1:
                self._pod = pods[0].metadata.name
                return
            await asyncio.sleep(1)
        raise SystemExit(f"the agent's pod is not ready\n{await self._logs()}")

    async def hold(self, count: int) -> bool:
        """Start pods that hold 1 GiB each, and wait until all run; False if the node offers no memory."""
        node = (await self._client.get(NODES.raw(), self._lab.namespaces[0].node)).document()
        offered = [name for name in ONE_GIB if node["status"]["allocatable"].get(name, "0") != "0"]
        if not offered:
            return False
        share = {"limits": {offered[0]: ONE_GIB[offered[0]]}}
        container = {"name": "main", "image": "localhost/busybox:1", "command": ["sleep", "100000"]}
        spec = {"containers": [{**container, "resources": share}]}
        for number in range(count):
            await self._client.create(
                PODS, {"metadata": {"name": f"share-{number}"}, "spec": spec}, "default"
            )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            pods = (await self._client.list(PODS, "default")).items
            if sum(pod.status.phase == "Running" for pod in pods) == count:
                return True
            await asyncio.sleep(1)
        raise SystemExit(f"the pods that hold shares do not run\n{await self._logs()}")

    async def watch(self, seconds: float) -> AgentUsage:
        """Wait until both processes are idle, then measure them for a while."""
        await self._scrape(SETTLE)
        pids = self._processes()
        writes, served = await self._writes(), await node_writes(self._client)
        before, began = {part: cpu_seconds(pid) for part, pid in pids.items()}, time.monotonic()
        await self._scrape(seconds)
        passed = time.monotonic() - began
        weights = {
            part: process_usage(pid, (cpu_seconds(pid) - before[part]) / passed) for part, pid in pids.items()
        }
        writes, served = await self._writes() - writes, await node_writes(self._client) - served
        return AgentUsage(weights["agent"], weights["warden"], writes, served)

    def _processes(self) -> dict[str, int]:
        inside = psutil.Process(self._lab.namespaces[0].init.pid).children(recursive=True)
        lines = {each.pid: " ".join(each.cmdline()) for each in inside}
        return {part: next(pid for pid in lines if sign in lines[pid]) for part, sign in PARTS.items()}

    async def _scrape(self, seconds: float) -> None:
        """Scrape the agent's metrics repeatedly, as a Prometheus would."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await self._metrics()
            await asyncio.sleep(min(SCRAPES, left))

    async def _metrics(self) -> str:
        path = f"{PODS.path(NAMESPACE)}/{self._pod}:{PORT}/proxy/metrics"
        return (await self._client.request("GET", path)).decode()

    async def _writes(self) -> int:
        return round(sum(map(float, _WRITES.findall(await self._metrics()))))

    async def _logs(self) -> str:
        """Return the last log lines of the containers."""
        lines = []
        for pod in (await self._client.list(PODS, NAMESPACE)).items:
            for part in PARTS:
                path = PODS.path(NAMESPACE, pod.metadata.name, "log")
                text = await self._client.request("GET", path, query={"container": part, "tailLines": "20"})
                lines += [f"--- {part}", text.decode()]
        return "\n".join(lines)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process: by its threads' clocks, or its own if that is more.

    The threads' clocks are exact but end with their threads; the process's clock counts in hundredths.
    """
    threads = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            threads += int(file.read().split()[0])
    own: tuple[float, ...] = psutil.Process(pid).cpu_times()
    return max(threads / 1e9, own[0] + own[1])


def process_usage(pid: int, share: float) -> ProcessUsage:
    """Return the memory of a process, with its share of CPU time."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in file if line.endswith("kB\n")}
    return ProcessUsage(kib["Rss"] / 1024, kib["Pss"] / 1024, 100 * share)

"""Weigh the agent as it is shipped: the chart's pod on a real node, everything on, beside what NFD asks for.

A lab with a real kubelet gets the image and the chart; the node looks like one of the hosts in tests/hosts.
Labels, device plugin, claims and warden are on, with the chart's own periods. The kubelet probes the agent,
and its metrics are read every 15 seconds. It is watched while nothing happens, then while pods hold shares of
an accelerator. Writes are counted by the agent and, independently, by the API server.
"""

import argparse
import asyncio
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import psutil

from bench.labs import CHART, NAMESPACE, node_writes, started
from fairlead.cli.output import to_table
from fairlead.cluster import kubeconfig
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS, Kind
from fairlead.lab import helm
from fairlead.lab.build import ensure
from fairlead.lab.load import load
from fairlead.lab.narrate import Narrator
from fairlead.lab.state import Lab, Profile
from fairlead.lab.up import Wish
from tests.e2e.machines import Machine
from tests.images import agent_archive

MEMORY_BAR, CPU_BAR, WRITES_BAR = 64.0, 0.2, 0.0
"""MiB, percent of a core, and a number."""
NFD = "node-feature-discovery v0.19.0, deployment/helm/node-feature-discovery/values.yaml, worker.resources"
NFD_MEMORY, NFD_CPU = "64, limit 512", "0.5"
"""What it asks for there: 64Mi and 5m."""
SETTLE, SCRAPES, PATIENCE = 30.0, 15.0, 180.0
PORT = 19809
PARTS = {"agent": "serve agent", "warden": "fairlead.warden.__main__"}
"""The containers, and what is on the command line of each one's process."""
DAEMON_SETS = Kind.of("apps", "v1", "daemonsets", namespaced=True)
SHARE = {"fairlead.dev/gpu-mem": "1024"}
"""MiB of an accelerator that one pod holds."""
HEAD = ("WHILE", "WHAT", "AGENT", "WARDEN", "TOGETHER", "BAR", "AGENT", "TOGETHER", "NFD'S WORKER ASKS FOR")
_WRITES = re.compile(r"^fairlead_api_writes_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Weight:
    """What a process costs."""

    resident: float
    """MiB."""
    own: float
    """MiB, pages that processes share counted in part (PSS)."""
    cpu: float
    """Percent of a core."""

    def __add__(self, other: "Weight") -> "Weight":
        """Return what two cost together."""
        return Weight(self.resident + other.resident, self.own + other.own, self.cpu + other.cpu)


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen for a while."""

    name: str
    agent: Weight
    warden: Weight
    writes: int
    """By the agent's own count."""
    seen: int
    """Of nodes and slices by the API server's count, whoever wrote them; a node's status aside."""

    @property
    def met(self) -> bool:
        """Whether the agent keeps within its bars."""
        figures = (self.agent.resident, MEMORY_BAR), (self.agent.cpu, CPU_BAR), (self.writes, WRITES_BAR)
        return all(value <= bar for value, bar in figures) and not self.seen

    def rows(self) -> list[tuple[str, ...]]:
        """Return it for a table."""
        three = self.agent, self.warden, self.agent + self.warden
        memory, own = [each.resident for each in three], [f"{each.own:.1f}" for each in three]
        writes = float(self.writes), 0.0, float(self.seen)
        return [
            (self.name, *_row("resident, MiB", memory, MEMORY_BAR, ".1f"), NFD_MEMORY),
            ("", "PSS, MiB", *own, "", "", "", ""),
            ("", *_row("CPU, % of a core", [each.cpu for each in three], CPU_BAR, ".3f"), NFD_CPU),
            ("", *_row("API writes (seen by server)", writes, WRITES_BAR, ".0f"), ""),
        ]


def _row(what: str, figures: "list[float] | tuple[float, ...]", bar: float, form: str) -> tuple[str, ...]:
    alone, together = ("PASS" if figures[index] <= bar else "over" for index in (0, 2))
    return what, *(f"{value:{form}}" for value in figures), f"<= {bar:g}", alone, together


class Node:
    """The real node, with the agent's pod on it."""

    def __init__(self, lab: Lab, client: Client) -> None:
        self._lab = lab
        self._client = client
        self._pod = ""

    def install(self, host: str) -> None:
        """Install the chart on a node that looks like another machine."""
        machine = Machine(self._lab.folder / "machine")
        machine.become(host)
        load(self._lab, [agent_archive()], ensure(["ctr"])["ctr"])
        program = helm.program(Narrator(sys.stderr))
        command = [str(program), "install", "fairlead", str(CHART), "--namespace", NAMESPACE]
        command += ["--create-namespace", "--set", f"replay.root={machine.folder}"]
        env = helm.environment(self._lab, os.environ)
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)

    async def change(self, python: str, environ: list[str]) -> None:
        """Run the containers with other options of the interpreter, and with other variables."""
        variables = [dict(zip(("name", "value"), each.split("=", 1), strict=True)) for each in environ]
        more: dict[str, Any] = {"env": variables} if variables else {}
        if python:
            more["command"] = ["/usr/bin/python3", "-IS", *shlex.split(python), "/usr/bin/fairlead"]
        if more:
            containers = [{"name": name, **more} for name in PARTS]
            patch = {"spec": {"template": {"spec": {"containers": containers}}}}
            await self._client.patch(DAEMON_SETS, "fairlead-agent", patch, NAMESPACE, how="strategic")

    async def ready(self) -> None:
        """Wait until the DaemonSet's pod is ready, and the only one."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            document = (await self._client.get(DAEMON_SETS, "fairlead-agent", NAMESPACE)).document()
            state = document["status"]
            current = state.get("observedGeneration") == document["metadata"]["generation"]
            pods = (await self._client.list(PODS, NAMESPACE)).items
            if current and state.get("numberReady") == state.get("updatedNumberScheduled") == len(pods) == 1:
                self._pod = pods[0].metadata.name
                return
            await asyncio.sleep(1)
        raise SystemExit(f"the agent's pod is not ready: {await self.said()}")

    async def said(self) -> str:
        """Return what the containers said, for a person to read."""
        lines = []
        for pod in (await self._client.list(PODS, NAMESPACE)).items:
            for part in PARTS:
                path = PODS.path(NAMESPACE, pod.metadata.name, "log")
                text = await self._client.request("GET", path, query={"container": part, "tailLines": "20"})
                lines += [f"--- {part}", text.decode()]
        return "\n".join(lines)

    async def hold(self, count: int) -> None:
        """Start pods that hold shares of the accelerator, and wait until all run."""
        container = {"name": "main", "image": "localhost/busybox:1", "command": ["sleep", "100000"]}
        spec = {"containers": [{**container, "resources": {"limits": SHARE}}]}
        names = [f"share-{number}" for number in range(count)]
        for name in names:
            await self._client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            pods = (await self._client.list(PODS, "default")).items
            if sum(pod.status.phase == "Running" for pod in pods) == count:
                return
            await asyncio.sleep(1)
        raise SystemExit(f"the pods that hold shares do not run: {await self.said()}")

    async def watch(self, name: str, window: float) -> Watched:
        """Let things settle, then watch both processes for a while."""
        processes = self._processes()
        await self._scrape(SETTLE)
        writes, seen = await self._writes(), await node_writes(self._client)
        before, began = {part: busy(each.pid) for part, each in processes.items()}, time.monotonic()
        await self._scrape(window)
        passed = time.monotonic() - began
        weights = {
            part: weigh(each.pid, (busy(each.pid) - before[part]) / passed)
            for part, each in processes.items()
        }
        writes, seen = await self._writes() - writes, await node_writes(self._client) - seen
        return Watched(name, weights["agent"], weights["warden"], writes, seen)

    def _processes(self) -> dict[str, psutil.Process]:
        inside = psutil.Process(self._lab.spaces[0].init.pid).children(recursive=True)
        lines = {each: " ".join(each.cmdline()) for each in inside}
        return {part: next(each for each in inside if sign in lines[each]) for part, sign in PARTS.items()}

    async def _scrape(self, seconds: float) -> None:
        """Read the agent's metrics again and again, as a Prometheus would."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await self._metrics()
            await asyncio.sleep(min(SCRAPES, left))

    async def _metrics(self) -> str:
        path = f"{PODS.path(NAMESPACE)}/{self._pod}:{PORT}/proxy/metrics"
        return (await self._client.request("GET", path)).decode()

    async def _writes(self) -> int:
        return round(sum(map(float, _WRITES.findall(await self._metrics()))))


def busy(pid: int) -> float:
    """Return the seconds that a process has computed: by its threads' clocks, or its own where that is more.

    The first are exact but end with their threads, the second counts in hundredths.
    """
    threads = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            threads += int(file.read().split()[0])
    own: tuple[float, ...] = psutil.Process(pid).cpu_times()
    return max(threads / 1e9, own[0] + own[1])


def weigh(pid: int, share: float) -> Weight:
    """Return what a process costs, which computed for such a share of the time."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in file if line.endswith("kB\n")}
    return Weight(kib["Rss"] / 1024, kib["Pss"] / 1024, 100 * share)


async def run(lab: Lab, options: argparse.Namespace) -> list[Watched]:
    """Watch the idle agent, then one whose accelerator is shared."""
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig))) as client:
        node = Node(lab, client)
        await asyncio.to_thread(node.install, options.host)
        await node.change(options.python, options.env)
        await node.ready()
        found = [await node.watch("idle", options.window)]
        if options.shares:
            await node.hold(options.shares)
            found.append(await node.watch(f"{options.shares} x 1 GiB held", options.window))
        return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="server-t4", help="the machine to be, of tests/hosts (%(default)s)")
    parser.add_argument("--window", type=float, default=120, help="seconds to watch (%(default)g)")
    parser.add_argument("--shares", type=int, default=10, help="pods that hold 1 GiB each (%(default)d)")
    parser.add_argument("--python", metavar="FLAGS", default="", help="more options for the interpreter")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="may be repeated")
    options = parser.parse_args()
    with started(Wish(Profile.NODE, f"agent-{os.getpid()}", owner=os.getpid())) as lab:
        found = asyncio.run(run(lab, options))
    print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}; {options.host}")
    print(to_table(HEAD, [row for each in found for row in each.rows()]))
    print(f"NFD: {NFD}")
    print("Repeat with: make bench-agent")
    return 0 if all(each.met for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())

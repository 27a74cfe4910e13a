"""Let 500 simulated agents publish 500 nodes through a real API server, while another client writes to them.

A lab with nodes that kwok simulates gets the shipped roles, admission policies and DaemonSet. Each pod of the
DaemonSet lends its bound token to one agent: the real publishing code, without a kubelet.

  start    all agents start at once, on nodes that another writer writes to as well
  storm    on every fifth node accelerators come and go, and the other writer undoes some of the agents' work;
           the time counts from when it stops
  quiet    nothing happens

A stage's time ends with the last write of an agent. The check then reads the objects of the API server alone.
Exit code 1: a write was lost, or an agent wrote without need.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.agents_check import ExpectedNode, faults
from bench.agents_other_writer import OtherWriter
from bench.agents_setup import PATIENCE, Roles, assign_machines, bare_fleet, bound_tokens, wait_for_policies
from bench.labs import HOUSE, MANIFESTS, apply, detect_machine, machines, node_writes, run_lab
from fairlead.catalog import load
from fairlead.cli.output.show import to_table
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.config.types import ClusterConfig
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.up import LabSpec

SHOWN = 10
HEAD = ("STAGE", "TIME", "LABELS", "SLICES", "REQUESTS", "FAILED", "WRITE P50", "P99", "CPU PER AGENT")
Report = dict[str, Any]


class Worker:
    """The process of the agents."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, line: str) -> Report:
        """Send a command, and return the counters so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        report: Report = json.loads(self._process.stdout.readline())
        return report


@contextmanager
def run_worker(config: ClusterConfig, roles: Roles) -> Iterator[Worker]:
    """Run the agents' process."""
    command = [sys.executable, "-m", "bench.agents_worker"]
    with subprocess.Popen(
        command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        worker = Worker(process)
        worker.send(json.dumps({"server": config.server, "ca": config.ca.decode(), "roles": roles}))
        try:
            yield worker
        finally:
            process.communicate()


@dataclass(frozen=True, slots=True)
class Stage:
    """The agents' work between two reports."""

    name: str
    agents: int
    seconds: float
    before: Report
    after: Report

    def grown(self, what: str) -> Counter[str]:
        """Return the growth of a counter."""
        return Counter(self.after[what]) - Counter(self.before[what])

    def row(self) -> tuple[str, ...]:
        """Return the stage as a row of a table."""
        written, took = self.grown("written"), sorted(self.after["took"][len(self.before["took"]) :])
        slow = [f"{took[int(len(took) * part)] * 1e3:.0f} ms" if took else "-" for part in (0.5, 0.99)]
        failed = [f"{count} {what}" for what, count in self.grown("failed").items()]
        return (
            self.name,
            f"{self.seconds:.1f} s",
            str(written["labels"] + written["annotation"]),
            str(written["slice"]),
            str(self.grown("asked").total()),
            ", ".join(failed) or "0",
            *slow,
            f"{(self.after['cpu'] - self.before['cpu']) / self.agents * 1e3:.1f} ms",
        )


class Scenario:
    """The stages, one after the other."""

    def __init__(self, client: Client, worker: Worker, wanted: dict[str, ExpectedNode], roles: Roles) -> None:
        self._client = client
        self._worker = worker
        self._wanted = wanted
        self._roles = roles
        self.stages: list[Stage] = []
        self.wrong: list[str] = []

    async def start(self) -> None:
        """Start all agents at once."""
        began = time.monotonic()
        before = self._worker.send("start")
        await self._wait_until_settled("start", began, before, foreign=False)

    async def storm(self, writer: OtherWriter, seconds: float) -> None:
        """Let accelerators come and go while the other writer undoes the agents' work, for a while."""
        catalog = load()
        writer.undoes = True
        before = self._worker.send("change")
        for role in self._roles:
            self._wanted[role["node"]].inventory = detect_machine(role["later"], catalog)
        await asyncio.sleep(seconds)
        await writer.stop()
        await self._wait_until_settled("storm", time.monotonic(), before, foreign=True)

    async def rest(self, seconds: float) -> int:
        """Do nothing; return how many writes of nodes and slices the API server counted."""
        before, seen = self._worker.send("report"), await node_writes(self._client)
        await asyncio.sleep(seconds)
        self._add("quiet", seconds, before, self._worker.send("report"))
        return await node_writes(self._client) - seen

    async def _wait_until_settled(self, name: str, began: float, before: Report, *, foreign: bool) -> None:
        """Wait until every node is as expected, or the time is over."""
        until = time.monotonic() + PATIENCE
        wrong = await faults(self._client, self._wanted, foreign=foreign)
        while wrong and time.monotonic() < until:
            await asyncio.sleep(1)
            wrong = await faults(self._client, self._wanted, foreign=foreign)
        self.wrong += [f"after the {name}: {fault}" for fault in wrong]
        after = self._worker.send("report")
        self._add(name, max(0.0, after["last"] - began), before, after)

    def _add(self, name: str, seconds: float, before: Report, after: Report) -> None:
        self.stages.append(Stage(name, len(self._roles), seconds, before, after))


async def run(config: ClusterConfig, options: argparse.Namespace) -> int:
    """Run all stages; return the exit code."""
    dice = random.Random(options.seed)
    async with Client.connect(config) as client:
        tokens = await bound_tokens(client, options.nodes)
        await wait_for_policies(config, tokens)
        wanted, roles = assign_machines(tokens, dice)
        with run_worker(config, roles) as worker:
            scenario = Scenario(client, worker, wanted, roles)
            writer = OtherWriter(client, wanted, options.pace, dice)
            await scenario.start()
            await scenario.storm(writer, options.seconds)
            seen = await scenario.rest(options.quiet)
    return print_verdict(scenario, writer, seen)


def print_verdict(scenario: Scenario, writer: OtherWriter, seen: int) -> int:
    """Print the result; return the exit code."""
    print(to_table(HEAD, [stage.row() for stage in scenario.stages]))
    print("the other writer:", ", ".join(f"{count} {what}" for what, count in writer.done.items()))
    quiet = scenario.stages[-1].grown("written").total()
    print(f"in the quiet time: {quiet} writes by agents; {seen} of nodes and slices as the API server counts")
    for fault in scenario.wrong[:SHOWN]:
        print(f"  LOST {fault}")
    right = not (scenario.wrong or quiet or seen)
    lost = f"{len(scenario.wrong)} faults" if scenario.wrong else "nothing was lost"
    print(f"{'PASS' if right else 'FAIL'}: {lost}, {max(quiet, seen)} writes when nothing changed")
    return 0 if right else 1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pace", type=float, default=100, help="writes of the other writer in a second")
    parser.add_argument("--seconds", type=float, default=15, help="how long it undoes the agents' work")
    parser.add_argument("--quiet", type=float, default=30, help="how long nothing changes at the end")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fleet = bare_fleet(options.nodes)
    with run_lab(LabSpec(LabProfile.CONTROL, f"agents-{os.getpid()}", fleet=fleet, owner=os.getpid())) as lab:
        print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()};", end=" ")
        print(f"{options.nodes} nodes, {len(machines())} kinds of machines", flush=True)
        apply(lab, MANIFESTS.read_text(encoding="utf-8"))
        code = asyncio.run(run(kubeconfig.load(str(lab.kubeconfig)), options))
    print("Repeat with: make bench-agents")
    return code


if __name__ == "__main__":
    sys.exit(main())

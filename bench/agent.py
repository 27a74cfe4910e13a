"""Measure memory and CPU of the agent as it is shipped, beside the resources that NFD requests.

A lab with a real kubelet gets the image and the chart; the node replays one of the hosts in tests/hosts.
Labels, device plugin, claims and warden are on, with the chart's own periods. The kubelet probes the agent,
and its metrics are scraped every 15 seconds. It is measured while nothing happens, then while pods hold
shares of an accelerator. The agent and, independently, the API server count the writes.

--set, --python and --env try other values of the chart, options of the interpreter and variables.
"""

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Mapping, Sequence

from bench.agent_node import AgentNode, AgentUsage
from bench.labs import run_lab
from fairlead.cli.output.show import to_table
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.up import LabSpec

MEMORY_BAR, CPU_BAR, WRITES_BAR = 64.0, 0.2, 0
"""MiB, percent of a core, and a number."""
NFD = "node-feature-discovery v0.19.0, deployment/helm/node-feature-discovery/values.yaml, worker.resources"
NFD_MEMORY, NFD_CPU = "64 (limit 512)", "0.5"
"""NFD's requests there: 64Mi (limit 512Mi) and 5m."""
HEAD = ("WHILE", "WHAT", "AGENT", "WARDEN", "BOTH", "BAR", "AGENT", "BOTH", "NFD'S WORKER ASKS FOR")


def rows(name: str, seen: AgentUsage) -> list[tuple[str, ...]]:
    """Return the usage as rows of a table."""
    three = seen.agent, seen.warden, seen.agent + seen.warden
    own = [f"{each.own:.1f}" for each in three]
    writes = [("API writes, as the agent counts", seen.writes), ("  as the server counts", seen.served)]
    return [
        (name, *judge("resident, MiB", [each.resident for each in three], MEMORY_BAR, ".1f"), NFD_MEMORY),
        ("", "  shared pages in part (PSS)", *own, "", "", "", ""),
        ("", *judge("CPU, % of a core", [each.cpu for each in three], CPU_BAR, ".3f"), NFD_CPU),
        *(("", *judge(what, [count, 0, count], WRITES_BAR, ".0f"), "") for what, count in writes),
    ]


def judge(what: str, figures: Sequence[float], bar: float, form: str) -> tuple[str, ...]:
    """Return figures of the agent, the warden and both, and whether the first and the last meet the bar."""
    verdicts = ("PASS" if figures[index] <= bar else "over" for index in (0, 2))
    return what, *(f"{value:{form}}" for value in figures), f"<= {bar:g}", *verdicts


def met(seen: AgentUsage) -> bool:
    """Return whether agent and warden together meet all bars."""
    both = seen.agent + seen.warden
    quiet = max(seen.writes, seen.served) <= WRITES_BAR
    return both.resident <= MEMORY_BAR and both.cpu <= CPU_BAR and quiet


async def run(lab: Lab, options: argparse.Namespace) -> Mapping[str, AgentUsage]:
    """Measure the idle agent, then one with a shared accelerator."""
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig))) as client:
        node = AgentNode(lab, client)
        await asyncio.to_thread(node.install, options.host, options.set)
        await node.change(options.python, options.env)
        await node.ready()
        usages = {"idle": await node.watch(options.window)}
        if options.shares and await node.hold(options.shares):
            usages[f"{options.shares} x 1 GiB held"] = await node.watch(options.window)
        return usages


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--host", default="server-t4", help="the machine to replay, of tests/hosts (%(default)s)"
    )
    parser.add_argument("--window", type=float, default=120, help="seconds to watch (%(default)g)")
    parser.add_argument("--shares", type=int, default=10, help="pods that hold 1 GiB each (%(default)d)")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a value of the chart"
    )
    parser.add_argument("--python", metavar="FLAGS", default="", help="options of the interpreter")
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="a variable of the containers"
    )
    options = parser.parse_args()
    with run_lab(LabSpec(LabProfile.NODE, f"agent-{os.getpid()}", owner=os.getpid())) as lab:
        usages = asyncio.run(run(lab, options))
    print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}; {options.host}")
    print(to_table(HEAD, [row for name, seen in usages.items() for row in rows(name, seen)]))
    print(f"NFD: {NFD}")
    print("Repeat with: make bench-agent")
    return 0 if all(map(met, usages.values())) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Compare the CPU of an explanation with that of an earlier commit: the command, the leader, and `--local`.

The schedulers of both checkouts lead alternately on one cluster; a checkout's command asks its own scheduler.
"""

import argparse
import asyncio
import re
import statistics
import time
from pathlib import Path
from urllib.request import urlopen

from bench import pairs
from bench.explain_lab import PATIENCE, ask_leader, explain, fill_cluster, wait_for_reasons
from bench.pairs import AFTER, Checkout, Costs
from bench.scheduler_lab import cpu
from bench.scheduler_peers import Peer, PeerRunner
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab

TRIES = 100
_REFUSED = re.compile(r'^fairlead_scheduler_decisions_total\{.*result="refused".*\} (\S+)$', re.MULTILINE)
REST = 10
"""The pause after an answer, as a multiple of its duration: the leader itself rests nine times as long."""


def compare(lab: Lab, options: argparse.Namespace) -> int:
    """Print the result of the pairs; return the exit code."""
    stable = PeerRunner(lab, (), options.before)
    asyncio.run(_fill_cluster(lab, options))

    def measure(side: Checkout) -> Costs:
        with stable.running("fairlead" if side is AFTER else "fairlead before") as peer:
            uids = asyncio.run(_wait_for_reasons(lab, options.waiting))
            wait_for_refusals(peer, len(uids))
            return {
                "leader's answer": leader_cpu(peer, uids),
                "command": command_cpu(lab, side, list(uids)),
                "command --local": command_cpu(lab, side, list(uids)[: options.local], "--local"),
            }

    measured = pairs.measure_pairs(options.before, options.pairs, measure)
    return pairs.report(measured, options.before, "explain")


def wait_for_refusals(peer: Peer, waiting: int) -> None:
    """Wait until this scheduler has refused every pending pod."""
    for _ in range(TRIES):
        with urlopen(f"{peer.page}/metrics", timeout=PATIENCE) as page:
            if sum(map(float, _REFUSED.findall(page.read().decode()))) >= waiting:
                return
        time.sleep(0.2)
    raise SystemExit("the scheduler does not decide about every pending pod")


def leader_cpu(peer: Peer, uids: dict[str, str]) -> float:
    """Return the leader's CPU seconds for the first full answer about a pod; it caches answers."""
    (leader,) = peer.processes
    return sum(_answer_cpu(leader, peer.page, name, uid) for name, uid in uids.items()) / len(uids)


def _answer_cpu(leader: Process, page: str, name: str, uid: str) -> float:
    for _ in range(TRIES):
        before = threads_cpu(leader)
        took, answer = ask_leader(page, name, uid)
        spent = threads_cpu(leader) - before
        time.sleep(REST * took.wall)
        if "decided_seconds_ago" in answer and not answer["note"]:
            return spent
    raise SystemExit(f"{name}: the leader gives no full answer: {answer}")


def command_cpu(lab: Lab, side: Checkout, names: list[str], *words: str) -> float:
    """Return the median CPU seconds of a whole command."""
    explain(lab, names[0], *words, side=side)  # the first run compiles the modules
    return statistics.median(explain(lab, name, *words, side=side)[0].cpu for name in names)


def threads_cpu(of: Process) -> float:
    """Return the CPU seconds of a process's living threads; in clock ticks on older kernels."""
    threads = Path(f"/proc/{of.pid}/task").glob("*/schedstat")
    times = [int(thread.read_text(encoding="ascii").split()[0]) for thread in threads]
    return sum(times) / 1e9 if times else cpu(of)


async def _fill_cluster(lab: Lab, options: argparse.Namespace) -> None:
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig)), connections=64) as client:
        await fill_cluster(lab, client, options.nodes, options.pods, options.waiting)


async def _wait_for_reasons(lab: Lab, waiting: int) -> dict[str, str]:
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig))) as client:
        return await wait_for_reasons(client, waiting)

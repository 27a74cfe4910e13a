"""Measure how fast `fairlead explain` answers, beside listing the cluster and deciding locally.

A lab of nodes that kwok simulates, eight GPUs each, full of bound pods, with a few pending pods: half of them
request more than any GPU has, half CPU that other pods hold. A fairlead scheduler leads. Whole commands are
timed, as a person runs them; beside that, the time of the leader itself, and the CPU time of the command.
Exit code 1: the bar is missed.

`--short` has a tenth of the nodes and pods. With `--before CHECKOUT`, the CPU of the command and of the
leader is compared with that of an earlier commit, in interleaved pairs.
"""

import argparse
import asyncio
import os
import sys
import time
from typing import Final

from bench import explain_pairs, pairs
from bench.explain_lab import Duration, ask_leader, explain, fill_cluster, wait_for_reasons
from bench.labs import run_lab
from bench.scheduler_lab import fleet
from bench.scheduler_peers import PeerRunner
from fairlead.cli.output.show import to_table
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.up import LabSpec

BAR = 1.0
"""Seconds that a whole `fairlead explain` may take."""
REST = 4.0
"""Seconds between requests for different pods: the leader searches the smallest change for each."""
FIRST, AGAIN = "the scheduler, first time", "the scheduler, again"
ITSELF, HERE = "the scheduler's page alone", "decided locally"
SIZES: Final = {
    "long": {"nodes": 5_000, "pods": 20_000, "waiting": 20, "again": 50, "local": 3},
    "short": {"nodes": 500, "pods": 2_000, "waiting": 8, "again": 15, "local": 2},
    "long pair": {"nodes": 5_000, "pods": 20_000, "waiting": 16, "again": 0, "local": 2},
    "short pair": {"nodes": 500, "pods": 2_000, "waiting": 16, "again": 0, "local": 4},
}
"""The size of the cluster and the number of requests, in each form."""


def quantile(times: list[float], part: float) -> float:
    """Return the quantile `part` of the times."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))]


def row(name: str, times: list[Duration]) -> tuple[str, ...]:
    """Return a row of the table."""
    walls = [time_.wall for time_ in times]
    figures = (quantile(walls, 0.5), quantile(walls, 0.99), max(walls))
    spent = quantile([time_.cpu for time_ in times], 0.5)
    return (
        name,
        str(len(times)),
        *(f"{figure:.2f} s" for figure in figures),
        f"{spent:.2f} s" if spent else "-",
    )


async def measure(lab: Lab, options: argparse.Namespace) -> dict[str, list[Duration]]:
    """Return the durations of each way to ask."""
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig)), connections=64) as client:
        await fill_cluster(lab, client, options.nodes, options.pods, options.waiting)
        with PeerRunner(lab, ()).running("fairlead") as peer:
            uids = await wait_for_reasons(client, options.waiting)
            await asyncio.sleep(REST)
            return await asyncio.to_thread(ask, lab, peer.page, uids, options)


def ask(lab: Lab, page: str, uids: dict[str, str], options: argparse.Namespace) -> dict[str, list[Duration]]:
    """Ask about one pod after the other, then repeatedly about one, then decide locally."""
    durations: dict[str, list[Duration]] = {FIRST: [], AGAIN: [], ITSELF: [], HERE: []}
    explain(lab, "bound-0", code=0)  # the first run compiles the modules
    time.sleep(REST)
    for number in range(options.waiting):
        took, answer = explain(lab, f"late-{number}")
        if answer["source"] != "scheduler" or answer["sentence"] != answer["condition"]:
            raise SystemExit(f"late-{number}: unexpected answer: {answer}")
        durations[FIRST].append(took)
        print(f"late-{number}: {took.wall:.2f} s, {took.cpu:.2f} s of CPU", file=sys.stderr)
        time.sleep(max(REST, REST * took.wall))
    for name, uid in uids.items():
        took, _ = ask_leader(page, name, uid)
        durations[ITSELF].append(took)
        time.sleep(max(REST, 2 * REST * took.wall))
    durations[AGAIN] = [explain(lab, "late-0")[0] for _ in range(options.again)]
    durations[HERE] = [explain(lab, "late-0", "--local")[0] for _ in range(options.local)]
    return durations


def report(durations: dict[str, list[Duration]], options: argparse.Namespace) -> int:
    """Print the durations of each way; return the exit code."""
    load = os.getloadavg()[0]
    print(f"{options.nodes} nodes with 8 GPUs, {options.pods} pods; {pairs.machine()}; load {load:.1f}")
    print(
        to_table(
            ("asked", "times", "p50", "p99", "worst", "CPU p50"), [row(*item) for item in durations.items()]
        )
    )
    ours, peer = (quantile([each.wall for each in durations[name]], 0.5) for name in (FIRST, HERE))
    worst = max(quantile([each.wall for each in durations[name]], 0.99) for name in (FIRST, AGAIN))
    print(f"beside deciding locally: {peer / ours:.1f} times as fast")
    print(f"the bar of {BAR:g} s: p99 {worst:.2f} s: {'kept' if worst <= BAR else 'missed'}")
    print(f"Repeat with: {pairs.repeat('explain', sys.argv[1:])}")
    return 0 if worst <= BAR else 1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pairs.add_forms(parser)
    for name, count in SIZES["long"].items():
        parser.add_argument(f"--{name}", type=int, help=f"default: {count}, short: {SIZES['short'][name]}")
    options = parser.parse_args()
    for name, count in SIZES[pairs.form(options)].items():
        setattr(options, name, getattr(options, name) or count)
    spec = LabSpec(
        LabProfile.CONTROL, f"explain-{os.getpid()}", fleet=fleet(options.nodes), owner=os.getpid()
    )
    with run_lab(spec) as lab:
        if options.before:
            return explain_pairs.compare(lab, options)
        return report(asyncio.run(measure(lab, options)), options)


if __name__ == "__main__":
    sys.exit(main())

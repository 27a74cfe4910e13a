"""Time the scheduling engine: decisions on 500 to 20,000 nodes, gangs, and the smallest change.

`--short` leaves out the largest clusters. With `--before CHECKOUT`, the CPU of a decision, a gang and a
search is compared with that of an earlier commit, in interleaved pairs. Exit code 1: a bar is missed.
"""

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bench import pairs
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Demand, Gang, Request
from fairlead.schedule import EngineCluster, decide, place_gang, with_suggestions
from fairlead.share import DeviceShare
from fairlead.units import Bytes

GIB = 1 << 30
MIB = 1 << 20
SIZES = (500, 1000, 2000, 5000, 10_000, 20_000)
SHORT_SIZES = SIZES[:4]
DECISIONS = 2000
PAIR_SIZES: Final = {
    "short pair": {"nodes": 2000, "decisions": 3000, "gang": 257, "gangs": 40, "full": 500, "changes": 30},
    "long pair": {"nodes": 5000, "decisions": 6000, "gang": 513, "gangs": 40, "full": 1000, "changes": 30},
}
"""The work for each side of a pair, in the short form and in the long one."""
MODELS = (("t4", 16), ("a10", 24), ("a100", 40))
POLICY = "fairlead"
BARS = {"decision": 0.001, "gang": 0.2, "change": 1.0}
"""Seconds: a decision on 5,000 nodes, a gang of 512 on 500 nodes, the smallest change on 5,000 nodes."""


def node(number: int) -> NodeState:
    """Return a server with eight accelerators."""
    model, memory = MODELS[number % len(MODELS)]
    devices = tuple(DeviceState(f"gpu-{at}", model, "nvidia", Bytes(memory * GIB)) for at in range(8))
    return NodeState(f"node-{number:05}", 96_000, Bytes(384 * GIB), 250, devices=devices)


def share(name: str, mebibytes: int) -> Request:
    """Return a pod that requests some memory of one accelerator."""
    return Request(name, cpu=500, memory=Bytes(GIB), demand=Demand(1, memory=Bytes(mebibytes * MIB)))


def half_full(nodes: int, chance: random.Random) -> EngineCluster:
    """Return a cluster in which half of all accelerators are shared already."""
    cluster = EngineCluster(node(number) for number in range(nodes))
    for number in range(nodes):
        for at in range(8):
            if chance.random() < 0.5:
                pod = share(f"old-{number}-{at}", chance.choice(range(512, 8193, 512)))
                cluster.bind(
                    Placement(
                        pod, f"node-{number:05}", (DeviceShare(f"gpu-{at}", pod.demand.memory or Bytes(0)),)
                    )
                )
    return cluster


def time_decisions(
    cluster: EngineCluster, pods: Sequence[Request], before: Callable[[], object]
) -> list[float]:
    """Return the seconds of each decision, including the change of state that follows it."""
    seconds = []
    for pod in pods:
        before()
        started = time.perf_counter()
        decision = decide(cluster, pod, POLICY)
        if decision.placement is not None:
            cluster.bind(decision.placement)
        seconds.append(time.perf_counter() - started)
    return seconds


def time_sampled_loop(nodes: int, pods: Sequence[Request], chance: random.Random) -> list[float]:
    """Time a plain loop over a sample of nodes, as stock schedulers do: best fit by free memory."""
    part = max(5.0, 50 - nodes / 125)
    sample = max(100, round(nodes * part / 100))
    free = [[16 * GIB - chance.choice((0, 4, 8)) * GIB for _ in range(8)] for _ in range(nodes)]
    seconds, start = [], 0
    for pod in pods:
        need = pod.demand.memory or 0
        began = time.perf_counter()
        best, where = None, (0, 0)
        for step in range(sample):
            at = (start + step) % nodes
            for column, room in enumerate(free[at]):
                left = room - need
                if left >= 0 and (best is None or left < best):
                    best, where = left, (at, column)
        free[where[0]][where[1]] -= need if best is not None else 0
        start += sample
        seconds.append(time.perf_counter() - began)
    return seconds


def row(nodes: int, decisions: int) -> float:
    """Print the times for one size of cluster, and return the mean of a decision."""
    chance = random.Random(nodes)
    cluster = half_full(nodes, chance)
    few = [share(f"a-{at}", chance.choice(range(1024, 8193, 256))) for at in range(decisions)]
    time_decisions(cluster, few[: decisions // 4], lambda: None)
    ours = time_decisions(cluster, few[decisions // 4 :], lambda: None)
    unlike = time_decisions(
        cluster, [share(f"b-{at}", chance.randrange(512, 8192)) for at in range(500)], lambda: None
    )
    again = time_decisions(
        cluster, [replace(pod, name=f"c-{pod.name}") for pod in few[:20]], cluster.memo.clear
    )
    stock = time_sampled_loop(nodes, few[:200], chance)
    figures = [statistics.fmean(each) for each in (ours, unlike, again, stock)]
    tail = sorted(ours)[int(0.99 * len(ours))]
    print(
        f"{nodes:>7}{1e6 * figures[0]:>10.0f}{1e6 * tail:>10.0f}{1e6 * figures[1]:>14.0f}"
        f"{1e6 * figures[2]:>16.0f}{1e6 * figures[3]:>18.0f}{figures[2] / figures[0]:>8.1f}x",
        flush=True,
    )
    return figures[0]


def gangs() -> float:
    """Print the time of a gang of 512 on 500 nodes, placed and refused; return the longer."""
    longest = 0.0
    for compute, word in ((1000, "placed"), (1000, "refused")):
        cluster = EngineCluster(node(number) for number in range(500))
        count = 1 if word == "placed" else 8
        demand = Demand(count, compute=compute)
        members = [Request(f"m-{at}", cpu=4000, demand=demand, gang=Gang("g", 512)) for at in range(512)]
        started = time.perf_counter()
        decisions = place_gang(cluster, members, POLICY)
        seconds = time.perf_counter() - started
        assert all(decision.placed == (word == "placed") for decision in decisions)
        print(f"gang of 512 on 500 nodes, {word}: {seconds:.3f} s")
        longest = max(longest, seconds)
    print(f"  {decisions[0].sentence()}")
    return longest


def full_cluster(nodes: int) -> EngineCluster:
    """Return a cluster in which every accelerator has 1 GiB left."""
    cluster = EngineCluster(node(number) for number in range(nodes))
    for number in range(nodes):
        state = node(number)
        for device in state.devices:
            pod = replace(
                share(f"{number}-{device.id}", 0), demand=Demand(1, memory=Bytes(device.memory - GIB))
            )
            cluster.bind(Placement(pod, state.name, (DeviceShare(device.id, Bytes(device.memory - GIB)),)))
    return cluster


def change(nodes: int) -> float:
    """Print the time to find the smallest change on a full cluster."""
    cluster = full_cluster(nodes)
    decision = decide(cluster, share("late", 3 * 1024), POLICY)
    started = time.perf_counter()
    explanation = with_suggestions(cluster, decision)
    seconds = time.perf_counter() - started
    print(f"smallest change on {nodes} nodes with {8 * nodes} pods: {seconds:.3f} s")
    print(f"  {explanation.sentence()}")
    return seconds


def table(sizes: Sequence[int], decisions: int) -> int:
    """Print the table; return 1 if a bar is missed."""
    print(f"{pairs.machine()}, one core; microseconds a decision")
    print("a memory share by policy fairlead, the change of state included; peers in the same run\n")
    head = ("nodes", "mean", "p99", "all unlike", "full rescore", "sampled loop", "gain")
    widths = (7, 10, 10, 14, 16, 18, 9)
    print("".join(f"{word:>{width}}" for word, width in zip(head, widths, strict=True)))
    gc.disable()
    means = {nodes: row(nodes, decisions) for nodes in sizes}
    growth = means[sizes[-1]] / means[sizes[0]]
    print(f"\n{sizes[-1] // sizes[0]} times the nodes: {growth:.1f} times the time")
    reached = {"decision": means[5000], "gang": gangs(), "change": change(5000)}
    missed = [
        f"{name}: {reached[name]:.4f} s, bar {bar} s" for name, bar in BARS.items() if reached[name] > bar
    ]
    missed += ["growth is not below linear"] if growth >= sizes[-1] / sizes[0] else []
    print("every bar is reached" if not missed else f"missed: {'; '.join(missed)}")
    print(f"Repeat with: {pairs.repeat('engine', sys.argv[1:])}")
    return 1 if missed else 0


def compare(options: argparse.Namespace) -> int:
    """Compare the CPU for each decision, gang and search with that of an earlier commit."""
    sizes = {name: getattr(options, name) or size for name, size in PAIR_SIZES[pairs.form(options)].items()}
    measured = pairs.measure_pairs(
        options.before, options.pairs, lambda side: side.work("engine_worker", (), sizes)
    )
    return pairs.report(measured, options.before, "engine")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pairs.add_forms(parser)
    for name, size in PAIR_SIZES["long pair"].items():
        more = f"; without: {DECISIONS} at each size" if name == "decisions" else ""
        small = PAIR_SIZES["short pair"][name]
        text = f"with --before (default: {size}, short: {small}){more}"
        parser.add_argument(f"--{name}", type=int, help=text)
    options = parser.parse_args()
    if options.before:
        return compare(options)
    return table(SHORT_SIZES if options.short else SIZES, options.decisions or DECISIONS)


if __name__ == "__main__":
    sys.exit(main())

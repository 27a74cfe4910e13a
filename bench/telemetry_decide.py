"""Compare a decision by `fairlead-safe`, with needs, with one by `fairlead`, on 5,000 nodes x 8 accelerators.

Both decide for the same pods on the same cluster, in interleaved pairs of one run. In the cluster of
`fairlead-safe` every pod is soft and a quarter of them has an SLO; before each pair as many pods are rebooked
as are then decided for, as a refresh of measured use does. Exit code 1: the ratio is above the bar.
"""

import argparse
import gc
import random
import statistics
import sys
import time
from dataclasses import replace
from typing import Final

from bench.engine import GIB, MIB, MODELS, node
from fairlead.need import Need, NeedSource
from fairlead.placement import Placement, share_of
from fairlead.request import Demand, Expectation, Request
from fairlead.schedule import EngineCluster, decide
from fairlead.units import Bytes

BAR: Final = 2.0
"""A decision by `fairlead-safe` takes at most that many times one by `fairlead`."""
LEVELS: Final = 12
"""Sizes of a need, as a pod with a history has them."""


def need(chance: random.Random, peak: int) -> Need:
    """Return the need of a pod that mostly holds less than its peak."""
    sizes = tuple(Bytes(peak * (LEVELS + at) // (2 * LEVELS)) for at in range(1, LEVELS + 1))
    weights = [chance.random() for _ in range(LEVELS)]
    total = sum(weights)
    return Need(sizes, tuple(weight / total for weight in weights), source=NeedSource.OBSERVED)


def pod(name: str, chance: random.Random) -> Request:
    """Return a pod with a need below what it asks for; one of four has an SLO."""
    size = chance.randrange(1024, 8192) * MIB
    slow = chance.random() < 0.25
    estimates = {model: Expectation(0.010) for model, _ in MODELS} if slow else {}
    return Request(
        name,
        cpu=500,
        memory=Bytes(GIB),
        demand=Demand(1, memory=Bytes(size)),
        slo=0.015 if slow else None,
        estimates=estimates,
        need=need(chance, size * 3 // 4),
    )


def half_full(nodes: int, seed: int) -> EngineCluster:
    """Return a cluster in which half of all accelerators have a pod."""
    chance = random.Random(seed)
    cluster = EngineCluster(node(number) for number in range(nodes))
    for state in cluster.nodes():
        for device in state.devices:
            if chance.random() < 0.5:
                request = pod(f"old-{state.name}-{device.id}", chance)
                cluster.bind(Placement(request, state.name, (share_of(request, device),)))
    return cluster


def without_needs(cluster: EngineCluster) -> EngineCluster:
    """Return the same cluster with every pod counted by its request."""
    devices = {(state.name, device.id): device for state in cluster.nodes() for device in state.devices}
    plain = []
    for placement in cluster.placements():
        request = replace(placement.request, need=None)
        shares = (share_of(request, devices[placement.node, share.device]) for share in placement.shares)
        plain.append(Placement(request, placement.node, tuple(shares)))
    return EngineCluster(cluster.nodes(), plain)


def seconds_each(cluster: EngineCluster, pods: list[Request], policy: str) -> float:
    """Return the CPU seconds of one decision and its binding."""
    gc.collect()
    began, placed = time.process_time(), 0
    for request in pods:
        decision = decide(cluster, request, policy)
        if decision.placement is not None:
            cluster.bind(decision.placement)
            placed += 1
    if placed < len(pods) // 2:
        raise SystemExit(f"{policy}: only {placed} of {len(pods)} pods are placed")
    return (time.process_time() - began) / len(pods)


def rebook(cluster: EngineCluster, chance: random.Random, count: int) -> None:
    """Change what some bound pods are expected to hold, as a refresh of measured use does."""
    for placement in chance.sample(cluster.placements(), count):
        request = replace(placement.request, need=need(chance, placement.request.demand.memory or GIB))
        device = cluster.device_named(cluster.row(placement.node), placement.shares[0].device)
        cluster.rebook(request.id, (share_of(request, device),), request)


def main() -> int:
    """Run the pairs and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--decisions", type=int, default=300, help="for each side of a pair")
    options = parser.parse_args()
    safe = half_full(options.nodes, 1)
    plain = without_needs(safe)
    chance = random.Random(2)
    ratios = []
    for pair in range(-1, options.pairs):
        pods = [pod(f"new-{pair}-{at}", chance) for at in range(options.decisions)]
        bare = [replace(request, need=None) for request in pods]
        rebook(safe, chance, options.decisions)
        ours, theirs = seconds_each(safe, pods, "fairlead-safe"), seconds_each(plain, bare, "fairlead")
        if pair < 0:  # the first pair fills the caches of both
            continue
        ratios.append(ours / theirs)
        print(
            f"fairlead-safe {1e6 * ours:6.0f} us   fairlead {1e6 * theirs:6.0f} us   ratio {ratios[-1]:.2f}"
        )
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:.2f}, bar {BAR:g}: {'kept' if ratio <= BAR else 'MISSED'}")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())

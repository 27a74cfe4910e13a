"""Run the engine in a process of its own, and print the CPU of each unit of work.

Run by engine.py: `python -m bench.engine_worker`, with the sizes as JSON on standard input. A job whose work
changes gets a new name: an earlier checkout runs its own worker, and jobs of the same name are compared.
"""

import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.engine import POLICY, full_cluster, half_full, node, share
from fairlead.request import Demand, Gang, Request
from fairlead.schedule import EngineCluster, decide, place_gang, with_suggestions

Costs = dict[str, float]
Sizes = dict[str, int]


@contextmanager
def count_cpu(costs: Costs, job: str, units: int) -> Iterator[None]:
    """Record the CPU seconds per unit of a job."""
    gc.collect()
    began = time.process_time()
    yield
    costs[job] = (time.process_time() - began) / units


def place_all(cluster: EngineCluster, pods: list[Request]) -> None:
    """Decide for each pod, and bind it in the cluster."""
    for pod in pods:
        decision = decide(cluster, pod, POLICY)
        if decision.placement is not None:
            cluster.bind(decision.placement)


def decisions(sizes: Sizes, costs: Costs) -> None:
    """Place pods with equal requests, then pods with different ones."""
    chance = random.Random(sizes["nodes"])
    cluster = half_full(sizes["nodes"], chance)
    count = sizes["decisions"]
    alike = [share(f"a-{at}", chance.choice(range(1024, 8193, 256))) for at in range(count + 200)]
    place_all(cluster, alike[:200])
    with count_cpu(costs, "decision", count):
        place_all(cluster, alike[200:])
    unlike = [share(f"b-{at}", chance.randrange(512, 8192)) for at in range(count // 2)]
    with count_cpu(costs, "decision, all unlike", len(unlike)):
        place_all(cluster, unlike)


def gangs(sizes: Sizes, costs: Costs) -> None:
    """Place a gang repeatedly, and refuse one repeatedly."""
    for job, count in (("gang, placed", 1), ("gang, refused", 8)):
        demand = Demand(count, compute=1000)
        size = sizes["gang"]
        members = [Request(f"m-{at}", cpu=4000, demand=demand, gang=Gang("g", size)) for at in range(size)]
        clusters = [EngineCluster(node(number) for number in range(size - 1)) for _ in range(sizes["gangs"])]
        with count_cpu(costs, job, sizes["gangs"]):
            for cluster in clusters:
                placed = [each.placed for each in place_gang(cluster, members, POLICY)]
        if any(placed) is not (job == "gang, placed"):
            raise SystemExit(f"{job}: {sum(placed)} of {size} members are placed")


def changes(sizes: Sizes, costs: Costs) -> None:
    """Search for the smallest change on a full cluster."""
    cluster = full_cluster(sizes["full"])
    refused = [
        decide(cluster, share(f"late-{at}", (3 + at) * 1024), POLICY) for at in range(sizes["changes"])
    ]
    with count_cpu(costs, "smallest change", len(refused)):
        for decision in refused:
            with_suggestions(cluster, decision)


JOBS: tuple[Callable[[Sizes, Costs], None], ...] = (decisions, gangs, changes)


def main() -> None:
    """Do all jobs."""
    sizes, costs = json.load(sys.stdin), Costs()
    gc.disable()
    for job in JOBS:
        job(sizes, costs)
    print(json.dumps(costs))


if __name__ == "__main__":
    main()

"""Every plan of a small chain, tried one by one: the contract again, sharing no code with the planner.

A problem is the document of the contract; `random_problem` makes one from a seed. A field `hop_s`, which is
not part of the contract, is the CPU time that a hop takes its two nodes together; `sink` has the node that
results go to, and their bytes.
"""

import random
from itertools import product
from typing import Any

Document = dict[str, Any]


def plans(problem: Document) -> list[tuple[float, float, tuple[str, ...]]]:
    """Return (period, latency, assignment) of every plan that fits."""
    memory = {node["name"]: node["memory_bytes"] for node in problem["nodes"]}
    links = {(link["from"], link["to"]): link for link in problem["links"]}
    fitting = []
    for assignment in product(memory, repeat=len(problem["stages"])):
        if _one_run_each(assignment):
            times = _times(problem, assignment, memory, links)
            if times is not None:
                fitting.append((*times, assignment))
    return fitting


def best(problem: Document) -> tuple[float, float] | None:
    """Return the smallest period and the smallest latency with it; None where no plan fits."""
    fitting = plans(problem)
    if not fitting:
        return None
    period = min(each[0] for each in fitting)
    return period, min(each[1] for each in fitting if each[0] <= period * (1 + 1e-9))


def fastest(problem: Document) -> tuple[float, float] | None:
    """Return the smallest latency and the smallest period with it, as (period, latency)."""
    fitting = plans(problem)
    if not fitting:
        return None
    latency = min(each[1] for each in fitting)
    return min(each[0] for each in fitting if each[1] <= latency * (1 + 1e-9)), latency


def _one_run_each(assignment: tuple[str, ...]) -> bool:
    begun: list[str] = []
    for node in assignment:
        if begun and begun[-1] == node:
            continue
        if node in begun:
            return False
        begun.append(node)
    return True


def _times(
    problem: Document,
    assignment: tuple[str, ...],
    memory: dict[str, float],
    links: dict[tuple[str, str], Document],
) -> tuple[float, float] | None:
    hop, slowness = problem.get("hop_s", 0.0), problem.get("slowness", {})
    held, busy, on_link = dict.fromkeys(memory, 0), dict.fromkeys(memory, 0.0), [0.0]
    latency, where = 0.0, problem["source"]
    for stage, node in zip(problem["stages"], assignment, strict=True):
        if node not in stage["seconds"]:
            return None
        held[node] += stage["memory_bytes"]
        busy[node] += stage["seconds"][node]
        if where != node:
            link = links.get((where, node))
            if link is None:
                return None
            on_link.append(stage["input_bytes"] / link["bytes_per_s"])
            latency += on_link[-1] + link["delay_s"] + hop
            busy[where] += hop / 2 * slowness.get(where, 1.0)
            busy[node] += hop / 2 * slowness.get(node, 1.0)
        latency += stage["seconds"][node]
        where = node
    sink = problem.get("sink")
    if sink is not None and where != sink["node"]:
        link = links.get((where, sink["node"]))
        if link is None:
            return None
        on_link.append(sink["bytes"] / link["bytes_per_s"])
        latency += on_link[-1] + link["delay_s"] + hop
        busy[where] += hop / 2
        busy[sink["node"]] += hop / 2
    limit = problem["max_latency_s"]
    if any(held[node] > memory[node] for node in memory):
        return None
    if limit is not None and latency > limit * (1 + 1e-9):
        return None
    return max(*busy.values(), *on_link), latency


def random_problem(seed: int, most_stages: int = 8, most_nodes: int = 4) -> Document:
    """Return a problem: memory, limits, missing links and nodes matter; every third has equal costs."""
    rng = random.Random(seed)
    stages = 1 if seed % 11 == 0 else rng.randint(2, most_stages)
    nodes = 1 if seed % 13 == 0 else rng.randint(2, most_nodes)
    names = [f"n{index}" for index in range(nodes)]
    coarse = seed % 3 == 0  # few different values: ties, and times that are equal up to rounding
    problem: Document = {
        "source": rng.choice(names),
        "nodes": [{"name": name, "memory_bytes": rng.randint(5, 2 * stages + 5) * 10} for name in names],
        "links": [
            {
                "from": one,
                "to": two,
                "bytes_per_s": rng.choice((1e6, 2e6)) if coarse else rng.uniform(1e6, 2e7),
                "delay_s": rng.choice((0, 0.1)) if coarse else rng.uniform(0, 0.01),
            }
            for one in names
            for two in names
            if one != two and rng.random() < (1.0 if seed % 5 else 0.7)
        ],
        "stages": [_random_stage(rng, index, names, coarse) for index in range(stages)],
        "max_latency_s": None,
    }
    if seed % 4 < 2:  # one stage sets the period, and the others are free to be fast
        slowest = rng.choice(problem["stages"])["seconds"]
        slowest.update({name: 10 * seconds for name, seconds in slowest.items()})
    if seed % 17 == 0:  # the source's node runs nothing
        for stage in problem["stages"]:
            stage["seconds"].pop(problem["source"], None)
    return _limited(problem, rng) if seed % 2 else problem


def _random_stage(rng: random.Random, index: int, names: list[str], coarse: bool) -> Document:
    base = rng.choice((0.1, 0.2, 0.3)) if coarse else rng.uniform(0.001, 0.05)
    seconds = {
        name: base if coarse else base * rng.uniform(0.2, 3)
        for name in names
        if len(names) == 1 or rng.random() < 0.9
    }
    return {
        "name": f"s{index}",
        "memory_bytes": rng.randint(0, 5) * 10,
        "input_bytes": rng.choice((0, 100_000, 300_000)) if coarse else rng.randint(0, 300_000),
        "seconds": seconds,
    }


def _limited(problem: Document, rng: random.Random) -> Document:
    """Return the problem with a latency that one of its plans has exactly, or that is below all."""
    latencies = sorted({each[1] for each in plans(problem)})
    if not latencies:
        return problem
    low = latencies[int(len(latencies) * rng.random() ** 3)]  # most plans exceed it
    limit = low if rng.random() < 0.9 else latencies[0] * 0.999
    return {**problem, "max_latency_s": limit}

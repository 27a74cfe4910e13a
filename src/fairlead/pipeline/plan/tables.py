"""The costs of a chain as arrays, for the search. Pure.

`busy[d, i, k]` is for stages i to k-1 on node d; `transfer[a, b, i]` for frames from a to b, into stage i.
Infinite where it is impossible.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.pipeline.plan.cut import CutNode, CutProblem, CutStage

Costs = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ChainTables:
    """A chain, with the nodes that can run a stage of it alone."""

    nodes: tuple[str, ...]
    work: Costs
    """Seconds of a run of stages, as they count for the latency; the last run has the way to the sink."""
    busy: Costs
    """Seconds that a run keeps its node busy: with its part of hops."""
    first: Costs
    """By node: the transfer of a frame from the source to the first stage there."""
    first_delay: Costs
    transfer: Costs
    delay: Costs
    """By pair of nodes."""
    twins: tuple[int, ...]
    """By node: the node before it that is equal to it in everything, or -1."""

    @property
    def stages(self) -> int:
        """The number of stages."""
        return int(self.work.shape[1])


def chain_tables(problem: CutProblem) -> ChainTables:
    """Return the costs of a chain."""
    nodes = [node for node in problem.nodes if any(_runs(node, stage) for stage in problem.stages)]
    names = [node.name for node in nodes]
    count = len(problem.stages)
    work = np.stack([_work(problem, node) for node in nodes]) if nodes else np.zeros((0, count, count + 1))
    links = problem.links_by_ends()
    inputs = np.array([stage.input_bytes for stage in problem.stages], dtype=float)
    transfer = np.full((len(nodes), len(nodes), count), math.inf)
    delay = np.zeros((len(nodes), len(nodes)))
    first, first_delay = np.full(len(nodes), math.inf), np.zeros(len(nodes))
    with np.errstate(over="ignore"):  # a transfer that takes for ever is a link that cannot be used
        for at, name in enumerate(names):
            if name == problem.source:
                first[at] = 0.0
            elif link := links.get((problem.source, name)):
                first[at], first_delay[at] = inputs[0] / link.bytes_per_s, link.delay_s
            for to, other in enumerate(names):
                if at != to and (link := links.get((name, other))):
                    transfer[at, to], delay[at, to] = inputs / link.bytes_per_s, link.delay_s
    if problem.hop_s:
        first_delay += np.where([name == problem.source for name in names], 0.0, problem.hop_s)
        delay += problem.hop_s
    busy = work + _hop_seconds(problem, names)
    if problem.sink is not None:  # the last run carries its results away: the longer of the two is its period
        back, back_delay = _return_costs(problem, names)
        busy[:, :, count] = np.maximum(busy[:, :, count], back[:, None])
        work[:, :, count] += (back + back_delay)[:, None]
    twins = _twins(problem, names, (work, busy, first, first_delay, transfer, delay))
    return ChainTables(tuple(names), work, busy, first, first_delay, transfer, delay, twins)


def _return_costs(problem: CutProblem, names: list[str]) -> tuple[Costs, Costs]:
    """Return by node the transfer and the delay of results from there to the sink."""
    links, sink = problem.links_by_ends(), problem.sink
    back, delay = np.full(len(names), math.inf), np.zeros(len(names))
    for at, name in enumerate(names):
        if sink is None or name == sink.node:
            back[at] = 0.0
        elif link := links.get((name, sink.node)):
            back[at], delay[at] = sink.bytes / link.bytes_per_s, link.delay_s + problem.hop_s
    return back, delay


def _runs(node: CutNode, stage: CutStage) -> bool:
    return node.name in stage.seconds and stage.memory_bytes <= node.memory_bytes


def _work(problem: CutProblem, node: CutNode) -> Costs:
    """Return the seconds of every run of stages on a node, added in the order of the stages."""
    count = len(problem.stages)
    work = np.full((count, count + 1), math.inf)
    for begin in range(count):
        seconds: float = 0
        memory: float = 0  # an int, as long as all are: whole bytes add up exactly
        for index, stage in enumerate(problem.stages[begin:], begin):
            memory += stage.memory_bytes
            if node.name not in stage.seconds or memory > node.memory_bytes:
                break
            seconds += stage.seconds[node.name]
            work[begin, index + 1] = seconds
    return work


def _hop_seconds(problem: CutProblem, names: list[str]) -> Costs:
    """Return what hops add to the busy time of each run: half of one for each end on its node."""
    count = len(problem.stages)
    ends = np.zeros((len(names), count, count + 1))
    for at, name in enumerate(names):
        ends[at, :, :count] += 1  # frames leave for the next run
        ends[at, 1:] += 1  # frames come from the run before
        if name == problem.source:
            ends[at, 1:] += 1  # and the source's node sends its frames to the first run as well
        else:
            ends[at, 0] += 1
        if problem.sink is not None and name == problem.sink.node:
            ends[at, :, :count] += 1  # results come back from the last run
        elif problem.sink is not None:
            ends[at, :, count] += 1
    end_seconds = problem.end_seconds()
    by_node: Costs = np.array([end_seconds[name] for name in names], dtype=float)
    return np.asarray(ends * by_node[:, None, None], dtype=float)


def _twins(problem: CutProblem, names: list[str], arrays: tuple[Costs, ...]) -> tuple[int, ...]:
    """Return for each node the last one before it with which it can change places."""
    twins = []
    fixed = {problem.source, problem.sink.node if problem.sink else problem.source}
    for at, name in enumerate(names):
        others = [
            other
            for other in range(at)
            if not fixed.intersection((name, names[other])) and _interchangeable(other, at, arrays)
        ]
        twins.append(others[-1] if others else -1)
    return tuple(twins)


def _interchangeable(one: int, two: int, arrays: tuple[Costs, ...]) -> bool:
    *own, transfer, delay = arrays
    if not all(np.array_equal(each[one], each[two]) for each in own):
        return False
    order = list(range(len(delay)))
    order[one], order[two] = two, one
    # Links of the two to others, of others to them, and between them.
    return all(
        np.array_equal(each[one], each[two][order]) and np.array_equal(each[:, one], each[order, two])
        for each in (transfer, delay)
    )

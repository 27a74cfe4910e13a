"""The cheapest way of a chain through its nodes: a layered shortest path, exact. Pure.

A state is (stages done, last node, nodes used); layer r holds the states with r nodes. In each layer and for
each next node, two array operations take the best node before and the best stage to begin with.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.pipeline.plan.cut import SAME
from fairlead.pipeline.plan.tables import Costs

_MOST_STATES: Final = 1 << 25
"""Of one search: 8 bytes each."""
_MOST_STEPS: Final = 1 << 30
"""Of one search, for seconds; a plan takes about a dozen."""
_BLOCK: Final = 1 << 15
"""Steps that are compared at once: they stay in the cache of a core."""


class Run(NamedTuple):
    """Neighbouring stages on one node."""

    node: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class PathCosts:
    """What each step of a path costs; infinite: it cannot be taken."""

    first: Costs
    """By node: to reach it with the first stage."""
    hop: Costs
    """By node before, node behind and stage behind."""
    run: Costs
    """By node, first stage, and stage behind the last."""
    twins: tuple[int, ...]

    def limited(self, first: Costs, hop: Costs, run: Costs, most: float) -> "PathCosts":
        """Return the costs without the steps whose other cost is above `most`."""
        return replace(
            self,
            first=np.where(first <= most, self.first, math.inf),
            hop=np.where(hop <= most, self.hop, math.inf),
            run=np.where(run <= most, self.run, math.inf),
        )


class Path(NamedTuple):
    """The runs of a chain, and the sum of their costs."""

    cost: float
    runs: tuple[Run, ...]


class _Layer(NamedTuple):
    """States with equally many nodes: their sets of nodes, and costs by set, last node and stages done."""

    sets: NDArray[np.int64]
    costs: Costs


def is_searchable(twins: tuple[int, ...], stages: int) -> bool:
    """Return whether a search is small enough: 24 stages on 16 different nodes, or 100 on 12."""
    states = count_sets(twins, stages) * len(twins) * (stages + 1)
    return states <= _MOST_STATES and states * stages <= _MOST_STEPS


def count_sets(twins: tuple[int, ...], stages: int) -> int:
    """Return how many sets of nodes a search may hold."""
    sizes = [1] + [0] * min(stages, len(twins))
    for group in _group_sizes(twins):
        sizes = [
            sum(sizes[total - taken] for taken in range(min(group, total) + 1)) for total in range(len(sizes))
        ]
    return sum(sizes)


def _group_sizes(twins: tuple[int, ...]) -> list[int]:
    group_of: list[int] = []
    for node, twin in enumerate(twins):
        group_of.append(node if twin < 0 else group_of[twin])
    return [group_of.count(group) for group in dict.fromkeys(group_of)]


def cheapest_path(costs: PathCosts, limit: float = math.inf, *, any_path: bool = False) -> Path | None:
    """Return the cheapest path whose cost is at most `limit`, of equal ones one with the fewest nodes.

    With `any_path`, any that keeps the limit: the first that is found.
    """
    count = costs.run.shape[1]
    rest = _least_rest(costs.run)
    layers = [_first_layer(costs, rest, limit)]
    best: tuple[float, int] | None = None
    while layers[-1].sets.size:
        cost = float(layers[-1].costs[:, :, count].min())
        if cost < math.inf and (best is None or cost < best[0] * (1 - SAME)):
            best = cost, len(layers)
            if any_path:
                break
            limit = min(limit, cost)
        if len(layers) == min(count, len(costs.first)):
            break
        layers.append(_next_layer(costs, layers[-1], rest, limit))
    return None if best is None else Path(best[0], _walk_back(costs, layers[: best[1]]))


def _least_rest(run: Costs) -> Costs:
    """Return a bound: the least that the stages behind each one can cost."""
    count = run.shape[1]
    least = [float(run[:, stage, stage + 1].min(initial=math.inf)) for stage in range(count)]
    finite = [each if math.isfinite(each) else 0.0 for each in least]
    return np.array([sum(finite[stage:]) for stage in range(count + 1)]) * (1 - SAME)


def _first_layer(costs: PathCosts, rest: Costs, limit: float) -> _Layer:
    nodes, count, _ = costs.run.shape
    starts = [node for node in range(nodes) if costs.twins[node] < 0]
    table = np.full((len(starts), nodes, count + 1), math.inf)
    for row, node in enumerate(starts):
        table[row, node] = costs.first[node] + costs.run[node, 0]
    return _pruned(np.array([1 << node for node in starts], dtype=np.int64), table, rest, limit)


def _next_layer(costs: PathCosts, layer: _Layer, rest: Costs, limit: float) -> _Layer:
    nodes, count, _ = costs.run.shape
    targets, rows_of = [], []
    for node in range(nodes):
        allowed = layer.sets >> node & 1 == 0
        if costs.twins[node] >= 0:  # of equal nodes the first is used first: no plan is tried twice
            allowed &= layer.sets >> costs.twins[node] & 1 == 1
        rows_of.append(rows := np.flatnonzero(allowed))
        targets.append(layer.sets[rows] | 1 << node)
    sets = np.unique(np.concatenate(targets))
    table = np.full((len(sets), nodes, count + 1), math.inf)
    step = max(1, _BLOCK // (count * (count + 1)))
    for node in range(nodes):
        places = np.searchsorted(sets, targets[node])
        for begin in range(0, len(places), step):
            rows = rows_of[node][begin : begin + step]
            reached = (layer.costs[rows, :, :count] + costs.hop[:, node]).min(axis=1)
            table[places[begin : begin + step], node] = (reached[:, :, None] + costs.run[node]).min(axis=1)
    return _pruned(sets, table, rest, limit)


def _pruned(sets: NDArray[np.int64], table: Costs, rest: Costs, limit: float) -> _Layer:
    if limit < math.inf:
        table[table + rest > limit * (1 + SAME)] = math.inf
    kept = np.flatnonzero((table < math.inf).any(axis=(1, 2)))
    return _Layer(sets[kept], table[kept])


def _walk_back(costs: PathCosts, layers: list[_Layer]) -> tuple[Run, ...]:
    """Return the runs of the cheapest complete path of the last layer."""
    end = costs.run.shape[1]
    done = layers[-1].costs[:, :, end]
    row, node = divmod(int(done.argmin()), done.shape[1])
    used = int(layers[-1].sets[row])
    runs: list[Run] = []
    for layer in reversed(layers[:-1]):
        used ^= 1 << node
        row = int(np.searchsorted(layer.sets, used))
        steps = layer.costs[row, :, :-1] + costs.hop[:, node] + costs.run[node, :, end]
        before, begin = divmod(int(steps.argmin()), steps.shape[1])
        runs.append(Run(node, begin, end))
        node, end = before, begin
    return (Run(node, 0, end), *reversed(runs))

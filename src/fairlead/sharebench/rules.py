"""The rules of a pool: a fixed number at once, and the published ones, by requests and by measured memory.

Res-Ag starts an engine if its request fits beside the requests of those that run. CBP+PP (Ferikoglou et al.
2021) also starts one if its request fits into the memory that the rule of `sizing.published` grants.

The authors' engines live for 131 s, ours for a few seconds. Their clock therefore runs faster here: a sample
every 0.2 s stands for theirs every second, and all their times are shorter by the same factor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.series import Series
from fairlead.sharebench.pool import PoolState
from fairlead.sharebench.samples import EVERY
from fairlead.sharebench.workload import ServingEngine
from fairlead.sizing.published import measured_free
from fairlead.units import Bytes

FASTER: Final = 1.0 / EVERY
"""How many of the authors' seconds pass in one of ours."""
AUTHORS_PASS: Final = 0.8
"""Seconds of one pass of the authors' scheduler."""
AUTHORS_REST: Final = 5.0
"""Seconds for which the authors' scheduler sleeps after a placement."""


@dataclass(frozen=True, slots=True)
class FixedNumber:
    """So many engines at once, whatever they use."""

    number: int
    every: float = 0.0
    rest: float = 0.0
    largest_first: bool = False

    def size(self, engine: ServingEngine) -> float:
        """Return that all engines are alike."""
        return 0.0

    def admits(self, engine: ServingEngine, state: PoolState) -> bool:
        """Return whether fewer than the number run."""
        return len(state.running) < self.number


@dataclass(frozen=True, slots=True)
class ByRequest:
    """Res-Ag: by requested memory, the largest first."""

    requests: Mapping[str, Bytes]
    """By the name of the kind."""
    memory: Bytes
    """Of the GPU."""
    every: float = 0.0
    rest: float = 0.0
    largest_first: bool = True

    def size(self, engine: ServingEngine) -> float:
        """Return the request."""
        return self.requests[engine.kind.name]

    def admits(self, engine: ServingEngine, state: PoolState) -> bool:
        """Return whether the request fits beside the requests of those that run."""
        held = sum(self.size(each) for each in state.running)
        return held + self.size(engine) <= self.memory


@dataclass(frozen=True, slots=True)
class ByMeasuredMemory:
    """CBP+PP: by requests, or by the memory that the published rule grants."""

    requests: ByRequest
    every: float = AUTHORS_PASS / FASTER
    rest: float = AUTHORS_REST / FASTER
    largest_first: bool = True

    def size(self, engine: ServingEngine) -> float:
        """Return the request."""
        return self.requests.size(engine)

    def admits(self, engine: ServingEngine, state: PoolState) -> bool:
        """Return whether the request fits beside the others, or into the memory that is granted."""
        if self.requests.admits(engine, state):
            return True
        known = [(each.at, each.memory) for each in state.samples if each.memory is not None]
        used = Series([at * FASTER for at, _ in known], [float(memory) for _, memory in known], "nvml")
        memory, placed, now = self.requests.memory, state.placed_at * FASTER, state.at * FASTER
        granted = measured_free("cbp+pp", memory, used, placed, now).memory
        return granted is not None and self.size(engine) <= granted

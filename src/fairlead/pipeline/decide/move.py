"""A move of stages to other hosts while a pipeline runs. Pure.

New workers start beside the old ones; the workers that stay get links to both. Then the worker before the
moved stages ends the old path at a frame, and sends that frame and all later ones to the new path. The worker
behind them takes the old path to its end, then the new one. Old workers end once they are drained.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fairlead.pipeline.fuse import LinkPlan, RunPlan
from fairlead.pipeline.run_events import (
    CancelPaths,
    CarryState,
    CommitPaths,
    DropLink,
    HandOverState,
    JoinWorkers,
    Labels,
    RunEffect,
    SpawnWorker,
    StartEpoch,
    SwitchPath,
)

START_LIMIT: Final = 60.0
"""Seconds until new workers must have opened their stages; later the move is given up."""
DRAIN_LIMIT: Final = 4.0
"""Seconds until old workers must be drained; later, frames that can be read again are replayed."""


@dataclass(slots=True)
class Move:
    """One move, from the plan of now to the next one; a chain has one stream."""

    old: RunPlan
    new: RunPlan
    limit: float
    """When its present step must be over."""
    switched: bool = False
    """The worker before the moved stages was told to switch: there is no way back."""
    ready: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    first: dict[str, int] = field(default_factory=dict)
    """By edge: the first frame on the new path."""
    drained: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)

    @property
    def path(self) -> int:
        """The number of the placement that it leads to."""
        return max((link.path for link in self.new.links), default=0)

    @property
    def arriving(self) -> list[str]:
        """The workers of the new plan alone, in the order of frames."""
        kept = {worker.name for worker in self.old.workers}
        return [worker.name for worker in self.new.workers if worker.name not in kept]

    @property
    def leaving(self) -> list[str]:
        """The workers of the old plan alone."""
        kept = {worker.name for worker in self.new.workers}
        return [worker.name for worker in self.old.workers if worker.name not in kept]

    @property
    def staying(self) -> list[str]:
        """The workers that get other links."""
        ends = dict.fromkeys(end for link in self._new_links() for end in (link.sender, link.receiver))
        return [name for name in ends if name not in self.arriving]

    @property
    def is_prepared(self) -> bool:
        """Whether the new path is there from its start to its end."""
        return self.ready >= {*self.arriving} and self.joined >= {*self._edges_out()}

    @property
    def is_over(self) -> bool:
        """Whether every old worker is drained and every new one has begun."""
        return self.drained >= {*self.leaving} and self.begun >= {*self.arriving}

    @property
    def sequence(self) -> int:
        """The first frame on the new path."""
        return min(self.first.values(), default=0)

    def start(self, epoch: int) -> Iterator[RunEffect]:
        """Yield the start of new workers; they wait for their epoch, and hold the frames of it."""
        for name in self.arriving:
            yield SpawnWorker(name, epoch - 1, {})
        yield from map(JoinWorkers, self._new_links())

    def switch(self) -> Iterator[RunEffect]:
        """Yield the switch to the new path."""
        yield from map(HandOverState, dict.fromkeys(old for _, old in self._states()))
        arriving = {*self.arriving}
        ends = [
            (link.sender, link.edge.name)
            for link in self._new_links()
            if link.receiver in arriving and link.sender not in arriving
        ]
        for sender, edge in dict.fromkeys(ends):
            yield SwitchPath(sender, edge)

    def begin(self, epoch: int) -> Iterator[RunEffect]:
        """Yield the begin of each new worker whose first frame and states are known."""
        for name in self.arriving:
            first = self._first_of(name)
            stages = {stage.name for stage in self.new.worker(name).stages}
            states = [(stage, old) for stage, old in self._states() if stage in stages]
            if name in self.begun or first is None or not self.drained >= {old for _, old in states}:
                continue
            self.begun.add(name)
            yield from (CarryState(stage, old, name, first) for stage, old in states)
            yield StartEpoch(name, epoch, {0: first})

    def give_up(self) -> Iterator[RunEffect]:
        """Yield what leaves the old path alone, after the new workers were ended."""
        yield from map(CancelPaths, self.staying)
        yield from map(DropLink, self._new_links())

    def force(self, *, replayed: bool) -> Iterator[RunEffect]:
        """Yield what leaves the new path alone, after the old workers were ended.

        Where frames are replayed, the next epoch begins on the new path: no frame of this one may pass first.
        """
        yield from self.carry_all()
        yield from self._leave_old(replayed=replayed)

    def carry_all(self) -> Iterator[RunEffect]:
        """Yield what gives new workers that have not begun the checkpoints of the old ones."""
        for stage, old in self._states():
            if (new := _worker_of(self.new, stage)[0]) not in self.begun:
                yield CarryState(stage, old, new, None)

    def relink(self, *, replayed: bool) -> Iterator[RunEffect]:
        """Yield the new path in place of the old one, on which nothing moves any more."""
        yield from map(JoinWorkers, self._new_links())
        yield from self._leave_old(replayed=replayed)

    def carried(self, labels: Labels) -> Labels:
        """Return the labels of checkpoints once `force` has carried them to the new workers."""
        carried = dict(labels)
        for stage, _ in self._states():
            new = _worker_of(self.new, stage)
            if new[0] not in self.begun:
                carried[new] = labels.get(_worker_of(self.old, stage), {})
        return carried

    def _leave_old(self, *, replayed: bool) -> Iterator[RunEffect]:
        if not replayed:
            yield from map(CommitPaths, self.staying)
        yield from map(DropLink, (link for link in self.old.links if link not in self.new.links))

    def _new_links(self) -> list[LinkPlan]:
        return [link for link in self.new.links if link not in self.old.links]

    def _edges_out(self) -> Iterator[str]:
        """Yield the edges on which the new path ends."""
        for link in self._new_links():
            if link.sender in self.arriving and link.receiver not in self.arriving:
                yield link.edge.name

    def _states(self) -> list[tuple[str, str]]:
        """Return the stages with state that move, with their old workers."""
        leaving = [self.old.worker(name) for name in self.leaving]
        return [(stage.name, each.name) for each in leaving for stage in each.stages if stage.is_stateful]

    def _first_of(self, name: str) -> int | None:
        """Return the first frame of a new worker: that of the switch before it; None: not known yet."""
        link = next(link for link in self.new.links if link.receiver == name)
        if link.sender in self.arriving:
            return self._first_of(link.sender)
        return self.first.get(link.edge.name)


def _worker_of(plan: RunPlan, stage: str) -> tuple[str, int]:
    """Return the worker of a stage with state, which has no replicas, and its index there."""
    return next(
        (worker.name, index)
        for worker in plan.workers
        for index, each in enumerate(worker.stages)
        if each.name == stage
    )

"""OffloadRule: who gets inputs of a running job, by the policy; it is revised about every second."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fairlead.splitting.chunks import SplitView, TimedChunks
from fairlead.splitting.policy.facts import Compute, OffloadFacts, SideFacts
from fairlead.splitting.policy.rates import measured_rate
from fairlead.splitting.policy.revise import Hysteresis, PolicyState, begin, revise
from fairlead.splitting.worker import SplitWorker

_LOOK: float = 1.0
_AHEAD: float = 60.0
"""Seconds of work that a job is taken to have while further inputs come."""


@dataclass(slots=True)
class OffloadRule:
    """Chunks sized in time, for workers of the sites that the policy chooses."""

    chunks: TimedChunks
    facts: OffloadFacts
    """As they were stated when the job was made: predicted rates, link, space, energy."""
    hysteresis: Hysteresis = field(default_factory=Hysteresis)
    copies: bool = True
    state: PolicyState | None = None
    _looked: float = -math.inf
    _seen: frozenset[tuple[str, bool]] = frozenset()

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return how many pending inputs a worker gets now."""
        state = self.look(view)
        # With no alternative left the inputs go to whoever asks: a job must not wait for a forecast.
        if state.chosen is not None and worker.site not in state.chosen.compute.sites:
            return 0
        # Nobody waits at the end for a worker that has gone.
        there = {name: each for name, each in view.workers.items() if self._is_alive(each, view.now)}
        return self.chunks.count(worker, replace(view, workers=there))

    def look(self, view: SplitView) -> PolicyState:
        """Return the decision, revised if it is time, or if a worker has come, gone or been measured."""
        alive = [each for each in view.workers.values() if self._is_alive(each, view.now)]
        seen = frozenset((each.name, each.rate is None) for each in alive)
        if self.state is not None and seen == self._seen and view.now - self._looked < _LOOK:
            return self.state
        facts = self._facts(alive, view)
        self.state = (
            begin(facts, view.now)
            if self.state is None
            else revise(self.state, facts, view.now, self.hysteresis)
        )
        self._looked, self._seen = view.now, seen
        return self.state

    def _is_alive(self, worker: SplitWorker, now: float) -> bool:
        return now - worker.seen <= self.chunks.rules.lease

    def _facts(self, alive: Iterable[SplitWorker], view: SplitView) -> OffloadFacts:
        workers = list(alive)
        device = self._side(self.facts.device, workers, Compute.DEVICE)
        server = self._side(self.facts.server, workers, Compute.SERVER)
        rates = (device.rate.per_s or 0.0) + (server.rate.per_s or 0.0)
        inputs = view.left if view.complete else max(view.left, rates * _AHEAD)
        return replace(self.facts, inputs=float(inputs), device=device, server=server)

    def _side(self, stated: SideFacts, workers: Iterable[SplitWorker], compute: Compute) -> SideFacts:
        own = [each for each in workers if each.site in compute.sites]
        if self.chunks.sites and not set(compute.sites) & set(self.chunks.sites):
            return replace(stated, refusal="it was not asked for")
        if not own:
            return replace(stated, refusal=stated.refusal or "it has no worker")
        rates = [each.rate for each in own if each.rate is not None]
        rate = measured_rate(stated.rate, math.fsum(rates) or None, sum(each.done for each in own))
        return replace(stated, rate=rate, start_s=0.0)

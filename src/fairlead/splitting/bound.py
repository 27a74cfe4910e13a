"""What a split can gain at most, whether it helps, and the shortest makespan for rates that change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.splitting.rules import SplitRules


@dataclass(frozen=True, slots=True)
class SplitBound:
    """The limit of a split: what all workers together gain over the fastest side alone."""

    device: float
    """Completions a second of all devices."""
    server: float
    """Completions a second of all workers beside the store."""

    @property
    def gain(self) -> float | None:
        """The share of the server's rate that the devices add; None: no server was measured."""
        return self.device / self.server if self.server else None

    @property
    def saved(self) -> float | None:
        """The share of the makespan that the devices save at most; None: no server was measured."""
        return self.device / (self.device + self.server) if self.server else None

    def helps(self, rules: SplitRules) -> bool | None:
        """Return whether splitting helps; None: it is not known yet."""
        if not self.device or not self.server:
            return None
        return min(self.device / self.server, self.server / self.device) >= rules.helps


@dataclass(frozen=True, slots=True)
class RateChange:
    """New rates of all workers from some time on."""

    time: float
    rates: Sequence[float]


def ideal_makespan(inputs: float, rates: Sequence[float], changes: Sequence[RateChange] = ()) -> float:
    """Return the seconds in which workers of these rates do all inputs when none ever waits."""
    done, now, total = 0.0, 0.0, math.fsum(rates)
    for change in sorted(changes, key=lambda each: each.time):
        there = done + total * (change.time - now)
        if there >= inputs:
            break
        done, now, total = there, change.time, math.fsum(change.rates)
    return now + (inputs - done) / total if total else math.inf

"""Interleaved rounds of hops on a machine that others use as well: each hop waits for a quiet moment.

A hop during which other processes were busy nevertheless is measured again.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
Result = dict[str, float]
Round = dict[str, Result]
MOST_FOREIGN: Final = 1 / 6
"""Cores that other processes may use while a hop is measured."""
PATIENCE: Final = 900.0
"""Seconds that the rounds of one table wait for others in all; what is complete by then counts."""
_LOOK: Final = 0.5
"""Seconds of one look at the load."""


class Rounds:
    """Measures kinds of hops, each once in a round, in another order than the round before."""

    def __init__(self, hop: Callable[[str], Result], kinds: Sequence[str]) -> None:
        self._hop = hop
        self._kinds = kinds
        self._patience = PATIENCE
        self.rejected = 0
        """Hops that were measured again."""

    def run(self, number: int) -> list[Round]:
        """Return the rounds in which each kind had a hop without foreign load; SystemExit: there is none."""
        rounds = []
        for index in range(number):
            first = index % len(self._kinds)
            hops = {kind: self._quiet(kind) for kind in (*self._kinds[first:], *self._kinds[:first])}
            complete = {kind: result for kind, result in hops.items() if result is not None}
            if len(complete) == len(self._kinds):
                rounds.append(complete)
        if not rounds:
            raise SystemExit("no hop was without foreign load: end what else runs on this machine")
        return rounds

    def describe(self, rounds: Sequence[Round]) -> str:
        """Return how much of what was measured counts."""
        return (
            f"{len(rounds)} interleaved rounds; {self.rejected} hops beside more than "
            f"{MOST_FOREIGN:.2f} cores of foreign load were measured again"
        )

    def _quiet(self, kind: str) -> Result | None:
        """Return a hop without foreign load; None once the patience is spent."""
        while self._patience > 0:
            begin = time.monotonic()
            _, load = _foreign(lambda: time.sleep(_LOOK))
            if load <= MOST_FOREIGN:
                result, load = _foreign(lambda: self._hop(kind))
                if load <= MOST_FOREIGN:
                    return result
                self.rejected += 1
            self._patience -= time.monotonic() - begin
        return None


def _foreign(work: Callable[[], T]) -> tuple[T, float]:
    """Do some work; return what it returns, and the cores that other processes used meanwhile."""
    begin, (total, own) = time.monotonic(), _busy_seconds()
    result = work()
    total_after, own_after = _busy_seconds()
    return result, (total_after - total - (own_after - own)) / (time.monotonic() - begin)


def summary(rounds: Sequence[Mapping[str, Result]], kind: str, of: str) -> tuple[str, str, str, float]:
    """Return the median and the spread of a kind's frames/s, its CPU, and the median ratio to it."""
    rates = sorted(each[kind]["rate"] for each in rounds)
    cpu = statistics.median(each[kind]["cpu"] for each in rounds)
    ratio = statistics.median(each[of]["rate"] / each[kind]["rate"] for each in rounds)
    return f"{statistics.median(rates):,.0f}", f"{rates[0]:,.0f}-{rates[-1]:,.0f}", f"{cpu:.2f}", ratio


def _busy_seconds() -> tuple[float, float]:
    """Return the CPU seconds of the machine, and those of this process and its children that have ended."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    uses = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    return total, sum(each.ru_utime + each.ru_stime for each in uses)

"""Keep the roster: nobody is given part of a device who is not on it, or leaves it before that is done."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from fairlead.cache.types import Pod
from fairlead.cluster.times import format_time
from fairlead.serve.scheduler.desk import Desk
from fairlead.serve.scheduler.lead import Leader, today
from fairlead.serve.scheduler.roster import MOST, Roster, choose

AHEAD: Final = timedelta(seconds=5)
"""How far into the future newcomers are on the roster: till after the next renewal."""


class Register:
    """Who is being placed, and the roster that follows from it."""

    def __init__(self, leader: Leader, desk: Desk, wall: Callable[[], datetime] = today) -> None:
        self._leader = leader
        self._desk = desk
        self._wall = wall
        self._busy: Counter[str] = Counter()

    async def open(self, turn: int) -> None:
        """Begin a reign's own roster: what the leader before left is ended."""
        await self._leader.enrol(turn, self.roster)

    @asynccontextmanager
    async def entered(self, pods: Sequence[Pod], turn: int) -> AsyncIterator[None]:
        """Have those who are given something, or have it taken back, on the roster until that is done.

        Newcomers are on it by their age; others cost a write, one for many.
        """
        items = [pod.metadata for pod in pods]
        uids = [each.uid for each in items]
        self._busy.update(uids)
        try:
            if items and not (self._leader.leads(turn) and self._leader.covers(items)):
                await self._leader.extend(turn, items)
            yield
        finally:
            self._busy.subtract(uids)
            self._busy += Counter()  # those at nought go

    def roster(self) -> Roster:
        """Return the roster as it should be now."""
        until = format_time(self._wall() + AHEAD)
        cache, queue = self._desk.cache, self._desk.queue
        if len(queue.askers) <= MOST:
            return choose((), self._busy, (), until)
        waiting = [pod.metadata for uid in queue.askers if (pod := cache.pod(uid)) is not None]
        line = [uid for uid in queue.line(2 * MOST) if uid in queue.askers]
        return choose(waiting, self._busy, line[:MOST], until)

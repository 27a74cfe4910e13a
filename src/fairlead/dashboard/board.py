"""Board: the tables that a source fills and that streams follow, with a revision for every change.

A table remembers for each row when it last changed, and for a bounded number of keys when they were dropped.
So a reader at any revision gets each changed row once, however often it changed since; a reader from before
the oldest remembered drop reads the table again.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.dashboard.answers import StaleSource, TableStale
from fairlead.dashboard.row_types import ROWS, Row

MOST_DROPS: Final = 20_000
"""Dropped keys that a table remembers."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """The rows that changed since a revision, and the keys that are gone."""

    put: tuple[Row, ...]
    drop: tuple[str, ...]


class KeyedTable:
    """The rows of one table by their keys."""

    def __init__(self, command: str, revision: int, most_drops: int = MOST_DROPS) -> None:
        self.command = command
        self.rows: dict[str, Row] = {}
        self._changed: dict[str, int] = {}
        """By key, oldest first: the revision of the last change."""
        self._dropped: dict[str, int] = {}
        self._most_drops = most_drops
        self._oldest = revision
        """A reader from before this revision may have missed a drop."""
        self._sorted: list[str] | None = []

    def apply(self, revision: int, put: Iterable[Row], drop: Iterable[str]) -> bool:
        """Store changes; say whether anything changed."""
        changed = False
        for row in put:
            if self.rows.get(row.key) != row:
                changed = True
                if row.key not in self.rows:
                    self._sorted = None
                self.rows[row.key] = row
                self._dropped.pop(row.key, None)
                self._changed.pop(row.key, None)
                self._changed[row.key] = revision
        for key in drop:
            if self.rows.pop(key, None) is not None:
                changed, self._sorted = True, None
                self._changed.pop(key, None)
                self._dropped[key] = revision
        while len(self._dropped) > self._most_drops:
            key = next(iter(self._dropped))
            self._oldest = self._dropped.pop(key)
        return changed

    def since(self, revision: int) -> TableChange | None:
        """Return what changed after a revision; None: this is no longer known."""
        if revision < self._oldest:
            return None
        put, drop = [], []
        for key in reversed(self._changed):
            if self._changed[key] <= revision:
                break
            put.append(self.rows[key])
        for key in reversed(self._dropped):
            if self._dropped[key] <= revision:
                break
            drop.append(key)
        return TableChange(tuple(reversed(put)), tuple(reversed(drop)))

    def keys(self) -> list[str]:
        """Return the keys in order."""
        if self._sorted is None:
            self._sorted = sorted(self.rows)
        return self._sorted

    def after(self, key: str | None) -> Iterable[Row]:
        """Yield the rows after a key, in order."""
        keys = self.keys()
        start = bisect_right(keys, key) if key is not None else 0
        return (self.rows[keys[at]] for at in range(start, len(keys)))


class Board:
    """All tables, which of their sources are stale, and the readers that wait for a change."""

    def __init__(
        self, commands: Mapping[str, str], clock: Callable[[], float], most_drops: int = MOST_DROPS
    ) -> None:
        """Make the tables with these commands; the clock gives seconds since the epoch."""
        self.clock = clock
        # Above every revision of a server that ran before: a reader who resumes from one reads its
        # tables again.
        self.revision = self.first = int(clock() * 1000)
        self.tables: dict[str, KeyedTable] = {
            name: KeyedTable(commands[name], self.revision, most_drops) for name in ROWS if name in commands
        }
        self._stale: dict[str, tuple[StaleSource, frozenset[str]]] = {}
        self._listeners: list[Callable[[str, Iterable[Row], Iterable[str]], None]] = []
        self._waiters: set[asyncio.Future[None]] = set()

    def add_table(self, name: str, command: str) -> None:
        """Add a table that the source itself does not have."""
        self.tables[name] = KeyedTable(command, self.revision)

    def apply(self, name: str, put: Iterable[Row] = (), drop: Iterable[str] = ()) -> None:
        """Store changes of a table."""
        put, drop = list(put), list(drop)
        if self.tables[name].apply(self.revision + 1, put, drop):
            self._advance()
        for listener in self._listeners:
            listener(name, put, drop)

    def replace(self, name: str, rows: Iterable[Row]) -> None:
        """Make these the rows of a table."""
        put = list(rows)
        kept = {row.key for row in put}
        self.apply(name, put, [key for key in self.tables[name].rows if key not in kept])

    def listen(self, listener: Callable[[str, Iterable[Row], Iterable[str]], None]) -> None:
        """Call a function with every batch of rows, changed or not, and with dropped keys."""
        self._listeners.append(listener)

    def set_stale(
        self, source: str, reason: str, tables: Iterable[str] = (), since: float | None = None
    ) -> None:
        """Say that a source does not answer, and which tables depend on it; it stays so until `heal`."""
        known = self._stale.get(source)
        if known is not None:
            since = known[0].since
        elif since is None:
            since = self.clock()
        now = (StaleSource(source=source, since=since, reason=reason), frozenset(tables))
        if known != now:
            self._stale[source] = now
            self._advance()

    def heal(self, source: str) -> None:
        """Say that a source answers again."""
        if self._stale.pop(source, None) is not None:
            self._advance()

    @property
    def stale(self) -> dict[str, StaleSource]:
        """The sources that do not answer."""
        return {name: entry for name, (entry, _) in self._stale.items()}

    def table_stale(self, name: str) -> TableStale | None:
        """Return since when a table is out of date; None: it is not."""
        entries = [entry for entry, tables in self._stale.values() if name in tables]
        since = min((entry.since for entry in entries if entry.since is not None), default=None)
        if since is None:
            return None
        return TableStale(since=since, reason="; ".join(entry.reason for entry in entries))

    async def changed(self, revision: int) -> None:
        """Return once the board is beyond a revision."""
        while self.revision <= revision:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _advance(self) -> None:
        self.revision += 1
        for waiter in tuple(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

"""Streams of events: what changed on the board since a reader's revision, at most every quarter of a second.

A stream holds no queue: it remembers a revision, and asks the board what changed since. A slow reader gets
each changed row once, in its last state, and costs no memory.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from fairlead.dashboard.answers import StaleSource, StreamHello, TableEvent, TableReset, encode
from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import ApiAnswer, Row
from fairlead.dashboard.viewer import TenantNames, Viewer, scrub_text, visible

APART: Final = 0.25
"""Seconds between two looks at the board; all streams look at the same moments, and share what is encoded."""
BEAT: Final = 15.0
_MOST_ROWS: Final = 1000
"""Rows of one event."""
_CHECK: Final = 60.0
"""Seconds after which a stream's credential is checked again."""


class ChangeEncoder:
    """Encodes changes for streams; those of viewers who see the same are encoded once."""

    def __init__(self, board: Board, names: TenantNames) -> None:
        self._board = board
        self._names = names
        self._revision = 0
        self._known: dict[tuple[Viewer, str, int], list[bytes] | None] = {}

    def changes(self, viewer: Viewer, table: str, since: int) -> list[bytes] | None:
        """Return the events' data of a table's changes; None: the reader must read the table again."""
        if self._board.revision != self._revision:
            self._revision = self._board.revision
            self._known.clear()
        key = (viewer, table, since)
        if key not in self._known:
            self._known[key] = self._encode(viewer, table, since)
        return self._known[key]

    def _encode(self, viewer: Viewer, table: str, since: int) -> list[bytes] | None:
        change = self._board.tables[table].since(since)
        if change is None:
            return None
        rows = visible_rows(change.put, viewer, self._names)
        drop = [key for key in change.drop if may_know(table, key, viewer)]
        if not rows and not drop:
            return []
        total = visible_count(self._board, table, viewer)
        parts = [rows[at : at + _MOST_ROWS] for at in range(0, len(rows), _MOST_ROWS)] or [[]]
        return [
            encode(
                TableEvent(
                    table=table, revision=self._revision, put=part, drop=drop if at == 0 else [], total=total
                )
            )
            for at, part in enumerate(parts)
        ]


def visible_rows(rows: Iterable[Row], viewer: Viewer, names: TenantNames) -> list[Row]:
    """Return the rows that a viewer may see, as they may see them."""
    scrub = names.scrubber(viewer)
    return [shown for row in rows if (shown := visible(row, viewer, scrub)) is not None]


def visible_count(board: Board, table: str, viewer: Viewer) -> int:
    """Return how many rows of a table a viewer may see."""
    rows = board.tables[table].rows
    if not viewer.restricted:
        return len(rows)
    return sum(visible(row, viewer, str) is not None for row in rows.values())


def may_know(table: str, key: str, viewer: Viewer) -> bool:
    """Say whether a viewer may learn that the row of a key is gone."""
    if table in ("nodes", "devices"):
        return viewer.nodes
    return viewer.sees(key.partition("/")[0], table)


@dataclass(slots=True)
class EventStream:
    """One reader's stream."""

    board: Board
    encoder: ChangeEncoder
    names: TenantNames
    viewer: Viewer
    tables: Collection[str]
    recheck: Callable[[], Awaitable[Viewer | None]]
    """Returns the viewer of the stream's token as of now; None: it is not valid any more."""
    closing: asyncio.Event
    since: int
    _stale: dict[str, StaleSource] = field(default_factory=dict)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events' bytes until the reader leaves, the server ends or the token does."""
        loop = asyncio.get_running_loop()
        yield b"retry: 1000\n" + event(
            "hello", StreamHello(revision=self.board.revision, now=self.board.clock())
        )
        checked = beaten = loop.time()
        while not self.closing.is_set():
            if batch := b"".join(self._batch()):
                beaten = loop.time()
                yield batch
            elif loop.time() - beaten >= BEAT:
                beaten = loop.time()
                yield b": beat\n\n"
            if loop.time() - checked >= _CHECK:
                checked = loop.time()
                viewer = await self.recheck()
                if viewer is None:
                    return
                if viewer != self.viewer:
                    self.viewer = viewer
                    yield b"".join(self._resets())
            await self._wait(beaten + BEAT)
        return

    async def _wait(self, until: float) -> None:
        """Wait for a change, or until it is time for a beat; then for the moment when all streams look."""
        loop = asyncio.get_running_loop()
        changed = asyncio.ensure_future(self.board.changed(self.since))
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            timeout = max(0.0, until - loop.time())
            await asyncio.wait((changed, closing), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            closing.cancel()
        if not self.closing.is_set():
            await asyncio.sleep(APART - loop.time() % APART)

    def _batch(self) -> Iterable[bytes]:
        """Yield what changed since the last batch; only the last event's id lets a reader resume after it."""
        since, now = self.since, self.board.revision
        if since == now:
            return
        events: list[tuple[str, bytes]] = []
        for table in self.tables:
            changes = self.encoder.changes(self.viewer, table, since)
            if changes is None:
                events.append(("reset", encode(TableReset(table=table))))
            else:
                events += [("change", data) for data in changes]
        scrub = self.names.scrubber(self.viewer)
        events += [("stale", encode(scrub_text(entry, scrub))) for entry in self._stale_changes()]
        for at, (name, data) in enumerate(events):
            yield raw_event(name, data, now if at == len(events) - 1 else since)
        self.since = now

    def _resets(self) -> Iterable[bytes]:
        for table in self.tables:
            yield event("reset", TableReset(table=table))

    def _stale_changes(self) -> list[StaleSource]:
        now = self.board.stale
        changed = [entry for name, entry in now.items() if self._stale.get(name) != entry]
        changed += [StaleSource(source=name, since=None) for name in self._stale if name not in now]
        self._stale = now
        return changed


def event(name: str, data: ApiAnswer, revision: int | None = None) -> bytes:
    """Return an event as bytes."""
    return raw_event(name, encode(data), revision)


def raw_event(name: str, data: bytes, revision: int | None = None) -> bytes:
    """Return an event with encoded data as bytes."""
    number = b"" if revision is None else b"id: %d\n" % revision
    return number + b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"

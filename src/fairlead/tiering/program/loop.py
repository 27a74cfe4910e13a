"""The loop of `fairlead serve tier`: hears of accesses, and moves one file at a time."""

import os
import selectors
import socket
import stat
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from fairlead.access import Access, AccessOp
from fairlead.errors import OutputError, SettingsError
from fairlead.outfile import is_disk_fault
from fairlead.tiering.program.chooser import PolicyChooser
from fairlead.tiering.program.looks import TierLooks
from fairlead.tiering.program.opening import opened_pair
from fairlead.tiering.program.placement import PendingMove, TierPlacement
from fairlead.tiering.program.recorder import StoreTrace, TraceRecorder
from fairlead.tiering.program.settings import TierSettings
from fairlead.tiering.program.status import TierCounts, write_status
from fairlead.tiering.program.watcher import TierEvent, TierWatcher
from fairlead.tiering.volumes.copying import DroppedMove
from fairlead.tiering.volumes.moves import FileMover, MoveResult
from fairlead.tiering.volumes.pair import VolumePair, Where, is_key
from fairlead.units import Bytes, Seconds, format_bytes

_TICK: Final = 1.0
_SELDOM: Final = 60.0
_ONCE: Final = 2.0
"""Seconds: an access that both inotify and a store report is one access."""


class TierProgram:
    """Moves the files of one pair of volumes until it is told to stop."""

    def __init__(
        self, settings: TierSettings, pair: VolumePair, stop: socket.socket, log: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._pair = pair
        self._stop = stop
        self._log = log
        self._watcher = TierWatcher(pair)
        self._mover = FileMover(
            pair, settle=settings.settle, each_piece=self._each_piece, opened=self._watcher.opened
        )
        self._trace = TraceRecorder(f"{pair.state}/trace.csv", settings.most_accesses)
        self._store = StoreTrace(settings.store_trace) if settings.store_trace else None
        self._chooser = PolicyChooser(settings, self._trace, log)
        self._placement = TierPlacement(self._chooser.policy())
        self.counts = TierCounts()
        self._looks = TierLooks(pair, self._placement, self.counts, log)
        self._heard: dict[str, float] = {}
        self._is_stopping = False
        self._written: dict[str, Any] = {}
        self._full_said = -_SELDOM

    def run(self) -> None:
        """Run until the socket is readable."""
        self._say(self._mover.recover())
        self._looks.look()
        self._chooser_turn()
        selector = selectors.DefaultSelector()
        selector.register(self._watcher.fileno(), selectors.EVENT_READ)
        selector.register(self._stop, selectors.EVENT_READ)
        with selector:
            due = {name: time.monotonic() + each for name, each in self._every().items()}
            while not self._is_stopping:
                self._hear()
                moved = self._move_one()
                now = time.monotonic()
                for name in [name for name, at in due.items() if at <= now]:
                    getattr(self, f"_{name}")()
                    due[name] = time.monotonic() + self._every()[name]
                selector.select(0.0 if moved else self._pause(due.values()))
                self._is_stopping = self._is_stopping or self._is_told_to_stop()
        self._tick()
        self._watcher.close()

    def _pause(self, due: Iterable[float]) -> float:
        """Return the seconds until the next work that no event announces."""
        moves = self._placement.next_due()
        return max(0.0, min([*due, *([] if moves is None else [moves])]) - time.monotonic())

    def _every(self) -> dict[str, float]:
        return {
            "tick": min(_TICK, self._settings.settle / 2),
            "chooser_turn": self._settings.choose_every,
            "look": self._settings.look_every,
        }

    def _tick(self) -> None:
        self._say(self._mover.settle())
        try:
            self._trace.flush()
            self._write_status()
        except (OSError, OutputError) as error:
            if isinstance(error, OSError) and not is_disk_fault(error):
                raise
            self._say_full(f"{self._pair.fast}: no room for the trace and the status; files stay as they are")
        if self._watcher.is_stale or self._looks.is_due():
            self._look()

    def _write_status(self) -> None:
        """Write the status if anything has changed: an idle mover writes nothing."""
        document = self._document()
        if document != self._written:
            write_status(self._pair.state, document | {"updated": round(time.time(), 3)})
            self._written = document

    def _look(self) -> None:
        self._watcher.is_stale = False
        self._watcher.watch_all()
        self._looks.look()

    def _chooser_turn(self) -> None:
        if self._chooser.choose(self.counts.accesses):
            self._placement.replace_policy(self._chooser.policy())

    def _each_piece(self) -> None:
        """Keep hearing of accesses while a large file is copied; a stop gives the copy up."""
        self._hear()
        if self._is_told_to_stop():
            self._is_stopping = True
            raise DroppedMove("the program was told to stop")

    def _is_told_to_stop(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop, selectors.EVENT_READ)
            return bool(selector.select(0))

    def _hear(self) -> None:
        for event in self._watcher.read():
            self._on_event(event)
        for access in self._store.read() if self._store else ():
            if is_key(access.key) and abs(access.time - self._heard.get(access.key, 0.0)) > _ONCE:
                self._on_access(access.key, access.op)
        if len(self._heard) > self._settings.most_accesses:
            self._heard.clear()

    def _on_event(self, event: TierEvent) -> None:
        if event.is_write:
            self._mover.written(event.key)
        if event.is_access:
            self._heard[event.key] = time.time()
            self._on_access(event.key, AccessOp.WRITE if event.is_write else AccessOp.READ)
        elif event.on_fast:
            self._on_name(event.key)

    def _on_access(self, key: str, op: AccessOp) -> None:
        where = self._pair.where(key)
        size = self._size(key)
        if where not in (Where.FAST, Where.SLOW) or size is None:
            return
        self._trace.add(Access(Seconds(time.time()), key, size, op))
        self.counts.accesses += 1
        self.counts.hits += where is Where.FAST
        self._placement.access(key, size, fast=where is Where.FAST)

    def _on_name(self, key: str) -> None:
        """Follow a name that came or went; the mover's own switches change nothing here."""
        where, size = self._pair.where(key), self._size(key)
        if where in (Where.FAST, Where.SLOW) and size is not None:
            self._placement.seen(key, size, fast=where is Where.FAST)
            return
        self._placement.gone(key)
        self._looks.soon()  # a link that was renamed, or a slow file that has lost its link

    def _size(self, key: str) -> Bytes | None:
        try:
            status = os.stat(self._pair.path(key))
        except OSError:
            return None
        return Bytes(status.st_size) if stat.S_ISREG(status.st_mode) else None

    def _move_one(self) -> bool:
        """Do the next move that is due; return whether there was one."""
        move = self._placement.next_move(time.monotonic())
        size = self._size(move.key) if move else None
        if move is None:
            return False
        if size is None:
            self._placement.gone(move.key)
        elif move.up and not self._placement.fits(size):
            self._placement.wait_for_room(move, time.monotonic())
        else:
            self._carry_out(move, size)
        return True

    def _carry_out(self, move: PendingMove, size: int) -> None:
        result = (self._mover.promote if move.up else self._mover.demote)(move.key)
        self._note(move, result)
        if result.done:
            self._placement.done(move, size)
            return
        self._placement.failed(move, time.monotonic(), is_full=result.is_full)
        if result.is_full:
            volume = self._pair.fast if move.up else self._pair.slow
            self._say_full(f"{volume}: no room for {move.key} ({format_bytes(size)}); it stays where it is")

    def _say_full(self, line: str) -> None:
        """Say that a volume is full, once a minute."""
        if time.monotonic() - self._full_said > _SELDOM:
            self._full_said = time.monotonic()
            self._log(line)

    def _note(self, move: PendingMove, result: MoveResult) -> None:
        counts = self.counts
        counts.promoted += result.done and move.up
        counts.demoted += result.done and not move.up
        counts.copied += result.copied
        counts.dropped += not result.done
        entry: dict[str, Any] = {"time": round(time.time(), 3), "key": move.key, "to": _to(move)}
        counts.recent.append(entry | ({"copied": result.copied} if result.done else {"why": result.reason}))

    def _document(self) -> dict[str, Any]:
        return {
            "fast": self._pair.fast,
            "slow": self._pair.slow,
            "pid": os.getpid(),
            "policy": self._chooser.name,
            "why": self._chooser.why,
            "capacity": self._settings.capacity,
            "used": self._placement.used,
            "files": {"fast": len(self._placement.fast), "slow": self._looks.slow_files},
            "trace_accesses": self._trace.total,
            **self.counts.to_json(),
        }

    def _say(self, lines: list[str]) -> None:
        for line in lines:
            self._log(line)


def _to(move: PendingMove) -> str:
    return "fast" if move.up else "slow"


def serve(settings: TierSettings, stop: socket.socket, log: Callable[[str], None]) -> None:
    """Move files between the volumes until the socket is readable."""
    with opened_pair(settings.fast, settings.slow) as (pair, lines):
        for line in lines:
            log(line)
        program = TierProgram(settings, pair, stop, log)
        log(
            f"moving files between {pair.fast} ({format_bytes(settings.capacity)}) and {pair.slow}; "
            f"policy {settings.policy}"
        )
        try:
            program.run()
        except OSError as error:
            raise SettingsError(
                f"{error.filename or pair.fast}: {error.strerror}", "are both volumes mounted and writable?"
            ) from error

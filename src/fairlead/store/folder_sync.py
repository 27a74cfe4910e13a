"""One fsync of a folder for all uploads that wait for it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Rounds:
    """The fsyncs of one folder, counted."""

    started: int = 0
    done: int = 0
    running: bool = False
    waiting: int = 0


class FolderSync:
    """Groups fsyncs: whoever comes while one runs waits for the next, which one of them does for all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rounds: dict[tuple[int, int], _Rounds] = {}

    def sync(self, folder: tuple[int, int], sync: Callable[[], None]) -> None:
        """Return after an fsync that began after this call."""
        with self._changed:
            rounds = self._rounds.setdefault(folder, _Rounds())
            rounds.waiting += 1
            needed = rounds.started + 1
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: rounds.done >= needed or not rounds.running)
                    if rounds.done >= needed:
                        return
                    rounds.running = True
                    rounds.started += 1
                    mine = rounds.started
                self._run(rounds, mine, sync)
        finally:
            with self._changed:
                rounds.waiting -= 1
                if not rounds.waiting:
                    self._rounds.pop(folder, None)

    def _run(self, rounds: _Rounds, mine: int, sync: Callable[[], None]) -> None:
        succeeded = False
        try:
            sync()
            succeeded = True
        finally:
            with self._changed:
                rounds.running = False
                if succeeded:
                    rounds.done = mine
                self._changed.notify_all()

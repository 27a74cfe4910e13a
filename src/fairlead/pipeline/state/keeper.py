"""Writes the records of a run in a thread: a slow disk delays no frame and no restart."""

import threading
import time
from collections.abc import Callable
from typing import Final

from fairlead.errors import OutputError
from fairlead.pipeline.state.folder import StateFolder
from fairlead.pipeline.state.record import RunRecord

PERIOD: Final = 0.5
"""Seconds from one record to the next, at least."""
_SHARE: Final = 20
"""How many times as long as a write took, until the next one: large states cost a twentieth of a core."""


class RecordKeeper:
    """The thread beside a run; it ends with `close`."""

    def __init__(self, folder: StateFolder, log: Callable[[str], None]) -> None:
        self._folder = folder
        self._log = log
        self._changed = threading.Condition()
        self._waiting: RunRecord | None = None
        self._is_writing = False
        self._closing = False
        self._next = 0.0
        self._trouble = ""
        self._thread = threading.Thread(target=self._work, name="progress", daemon=True)
        self._thread.start()

    @property
    def is_due(self) -> bool:
        """Whether a record would be written now."""
        return not self._is_writing and self._waiting is None and time.monotonic() >= self._next

    def offer(self, record: RunRecord) -> None:
        """Let a record be written soon."""
        with self._changed:
            self._waiting = record
            self._changed.notify()

    def write(self, record: RunRecord) -> None:
        """Write a record before anything else happens; OutputError where it cannot be kept."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing)
            self._waiting = None
            self._folder.write(record)

    def close(self) -> None:
        """End the thread; what waits is not written any more."""
        with self._changed:
            self._closing, self._waiting = True, None
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._waiting is not None)
                if self._closing:
                    return
                record, self._waiting = self._waiting, None
                self._is_writing = True
            began = time.monotonic()
            if record is not None and record != self._folder.record:
                self._try(record)
            with self._changed:
                took = time.monotonic() - began
                self._next = time.monotonic() + max(PERIOD, _SHARE * took)
                self._is_writing = False
                self._changed.notify()

    def _try(self, record: RunRecord) -> None:
        """Write a record; the run goes on without one, and says so once: an earlier record stays valid."""
        try:
            self._folder.write(record)
            self._trouble = ""
        except OutputError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._log(f"the progress cannot be kept, and is tried again: {error}")

"""The write freeze: while a file exists, writes are refused with the reason that it holds.

Whoever makes the file must know when the last write has ended: then, and not before, `FILE.quiet` appears
beside it. A write counts itself before it looks for the file, so none can slip through between the two.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fairlead.store.refusal import RefusedError

_RETRY: Final = "5"
_REASON: Final = 200


class WriteFreeze:
    """Counts the writes in progress, and refuses new ones while the file exists."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._lock = threading.Lock()
        self._writes = 0

    @property
    def reason(self) -> str | None:
        """Why writes are refused; None: they are not."""
        if not self._path:
            return None
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                return " ".join(file.read(_REASON).split()) or "the store is being moved"
        except FileNotFoundError:
            return None
        except OSError:
            return "the store is being moved"

    def check(self) -> None:
        """Raise the refusal of a write if the file exists: also before an upload takes its name."""
        reason = self.reason
        if reason is not None:
            raise RefusedError(503, f"writes are frozen: {reason}", (("Retry-After", _RETRY),))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Count a write while the block runs; RefusedError where writes are frozen."""
        with self._lock:
            self._writes += 1
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._writes -= 1

    def announce(self) -> None:
        """Make `FILE.quiet` once no write is in progress; remove it with the file. Called now and then."""
        if not self._path:
            return
        quiet = f"{self._path}.quiet"
        if not os.path.exists(self._path):
            with suppress(FileNotFoundError):
                os.unlink(quiet)
            return
        with self._lock:
            busy = self._writes > 0
        if not busy and not os.path.exists(quiet):
            with open(quiet, "w", encoding="utf-8"):
                return

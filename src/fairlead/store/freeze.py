"""The write freeze: while a file exists, writes are refused with the reason that it holds.

Whoever makes the file must know when the last write has ended: then, and not before, `FILE.quiet` appears
beside it. A write counts itself before it looks for the file, so none can slip through between the two.
Where the file is on a volume that cannot be written, the page of the session's owner alone says so.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fairlead.store.refusal import RefusedError

_RETRY: Final = "5"
_REASON: Final = 200


class WriteFreeze:
    """Counts the writes in progress, and refuses new ones while the file exists."""

    def __init__(self, path: str = "", clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._writes = 0
        self._quiet: tuple[str, float] | None = None

    @property
    def quiet_since(self) -> float | None:
        """Since when nothing was written, for the reason that the file holds now; None: something may be."""
        reason = self.reason
        with self._lock:
            known = self._quiet
        return known[1] if known is not None and known[0] == reason else None

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
        if reason is None:
            self._quiet = None
        else:
            raise RefusedError(503, f"writes are frozen: {reason}", (("Retry-After", _RETRY),))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Count a write while the block runs; RefusedError where writes are frozen."""
        self.check()  # many writes that are refused must not look like one that goes on
        with self._lock:
            self._writes += 1
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._writes -= 1

    def announce(self) -> None:
        """Note, in `FILE.quiet` as well, that no write is in progress in a freeze. Called now and then."""
        if not self._path:
            return
        quiet, reason = f"{self._path}.quiet", self.reason
        with self._lock:
            is_quiet = reason is not None and self._writes == 0
            if reason is None:
                self._quiet = None
            elif is_quiet and (self._quiet is None or self._quiet[0] != reason):
                self._quiet = (reason, self._clock())
        with suppress(OSError):  # a volume of settings cannot be written
            if reason is None:
                os.unlink(quiet)
            elif is_quiet and not os.path.exists(quiet):
                with open(quiet, "w", encoding="utf-8"):
                    return

"""ProcessLog: the standard error of a process in the background, a small file that never grows long."""

import os
import time
from collections import deque
from contextlib import suppress
from typing import Final

MOST_BYTES: Final = 64 * 1024
"""A longer log starts again."""
_REMEMBERED: Final = 64


class ProcessLog:
    """Writes lines with the time; a line that was written lately is not repeated."""

    def __init__(self, handle: int = 2) -> None:
        self._handle = handle
        self._lately: deque[str] = deque(maxlen=_REMEMBERED)

    def __call__(self, line: str) -> None:
        """Write a line, as far as the disk takes it."""
        if line in self._lately:
            return
        self._lately.append(line)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with suppress(OSError):
            shorten(self._handle)
            os.write(self._handle, f"{stamp} {line}\n".encode("utf-8", "replace"))


def open_log(path: str) -> int:
    """Open a log to append, and return its handle."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    shorten(handle)
    return handle


def shorten(handle: int) -> None:
    """Empty a log that has become long."""
    with suppress(OSError):  # a terminal or a pipe
        if os.fstat(handle).st_size > MOST_BYTES:
            os.ftruncate(handle, 0)

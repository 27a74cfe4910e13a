"""Read a model file in small windows: weights are skipped, never read.

The file is not mapped into memory. A map counts every touched page, and if another program truncates the file
meanwhile, a signal ends this program; a short read is an error like any other.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fairlead.errors import AnalysisError

_WINDOW: Final = 16 * 1024
MARGIN: Final = 24
"""Bytes after a place that `at` guarantees, where the file has them: two of the longest varints."""
CUT_OFF: Final = "the file is cut off or damaged"


class ModelSource:
    """An open file of which one window is held in memory."""

    __slots__ = ("_edge", "_handle", "base", "path", "size", "window")

    def __init__(self, path: str, handle: int, size: int) -> None:
        self.path = path
        self.size = size
        self.window = b""
        """The part of the file in memory."""
        self.base = 0
        """Where in the file the window begins."""
        self._handle = handle
        self._edge = -1

    def at(self, place: int) -> int:
        """Move the window to a place of the file, with a margin; return the index of the place in it."""
        index = place - self.base
        if 0 <= index <= self._edge:
            return index
        if not 0 <= place < self.size:
            raise self.damaged_error(place)
        self.window = os.pread(self._handle, _WINDOW, place)
        self.base = place
        ends_here = place + len(self.window) >= self.size
        self._edge = len(self.window) - (1 if ends_here else MARGIN)
        if self._edge < 0:
            raise self.damaged_error(place)
        return 0

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a span."""
        if not 0 <= start <= end <= self.size:
            raise self.damaged_error(start)
        index = start - self.base
        if index >= 0 and end - self.base <= len(self.window):
            return self.window[index : end - self.base]
        data = os.pread(self._handle, end - start, start)
        if len(data) != end - start:
            raise self.damaged_error(start)
        return data

    def damaged_error(self, place: int) -> AnalysisError:
        """Return the error for invalid data at a place."""
        return AnalysisError(
            f"{self.path}: {CUT_OFF} (at byte {place} of {self.size})", "fetch or export the model again"
        )


@contextmanager
def open_source(path: str) -> Iterator[ModelSource]:
    """Open a model file for as long as it is read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid file name"
        raise AnalysisError(f"{path}: {reason.lower()}", "name an ONNX or TFLite file") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise AnalysisError(f"{path}: not a file", "name an ONNX or TFLite file")
        yield ModelSource(path, handle, status.st_size)
    finally:
        os.close(handle)

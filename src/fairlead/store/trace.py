"""The trace of served accesses: one line each, in the columns that `fairlead augment tier` reads."""

import csv
import io
import os
import threading
import time
from typing import Final

from fairlead.access import Access, AccessOp
from fairlead.units import Bytes, Seconds

HEAD: Final = "time,key,bytes,op\n"
_PENDING: Final = 64 << 10
"""Characters that are kept back at most; the housekeeper writes them each second."""


class AccessTrace:
    """Appends accesses to a file."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._lock = threading.Lock()
        self._pending = io.StringIO()
        self._lines = csv.writer(self._pending, lineterminator="\n")

    def add(self, path: str, size: int, op: AccessOp) -> None:
        """Add the access of a file, by its whole size."""
        if not self._path:
            return
        access = Access(Seconds(round(time.time(), 6)), path.lstrip("/"), Bytes(size), op)
        with self._lock:
            self._lines.writerow((access.time, access.key, access.bytes, access.op.value))
            full = self._pending.tell() > _PENDING
        if full:
            self.flush()

    def flush(self) -> None:
        """Write what was added; a trace that cannot be written is dropped, never a request."""
        with self._lock:
            text = self._pending.getvalue()
            self._pending.seek(0)
            self._pending.truncate()
        if not text:
            return
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(text if os.fstat(handle).st_size else HEAD + text)

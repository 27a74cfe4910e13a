"""The trace of a pair of volumes: bounded, in two files, from which the policy is chosen again."""

import csv
import io
import os
from collections.abc import Iterator

from fairlead.access import Access, AccessOp
from fairlead.errors import TraceError
from fairlead.tiering.trace import COLUMNS, open_trace
from fairlead.units import Bytes, Seconds

_HEAD = ",".join(COLUMNS) + "\n"


class TraceRecorder:
    """Appends accesses to a file; a full one replaces the older of the two."""

    def __init__(self, path: str, most: int) -> None:
        self._path = path
        self._most = max(most // 2, 1)
        self._text = io.StringIO()
        self._lines = csv.writer(self._text, lineterminator="\n")
        self._count = _repair(path)
        self.total = self._count + _repair(f"{path}.old")

    def add(self, access: Access) -> None:
        """Take an access; `flush` writes it."""
        key = access.key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        self._lines.writerow((f"{access.time:.3f}", key, access.bytes, access.op.value))
        self._count += 1
        self.total = min(self.total + 1, 2 * self._most)

    def flush(self) -> None:
        """Write what was taken."""
        text = self._text.getvalue()
        if not text:
            return
        self._text.seek(0)
        self._text.truncate()
        new = not os.path.exists(self._path)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(_HEAD + text if new else text)
        if self._count >= self._most:
            os.replace(self._path, f"{self._path}.old")
            self._count = 0

    def chunks(self) -> Iterator[list[Access]]:
        """Yield the recorded accesses, the oldest first."""
        self.flush()
        for path in (f"{self._path}.old", self._path):
            if os.path.exists(path):
                with open_trace(path) as trace:
                    yield from trace.chunks()


class StoreTrace:
    """The accesses that a store appends to its own trace, from now on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._place = _size(path)
        self._rest = ""

    def read(self) -> Iterator[Access]:
        """Yield what was appended since the last call; lines that are no accesses are passed over."""
        size = _size(self._path)
        if size < self._place:  # a new file
            self._place, self._rest = 0, ""
        if size == self._place:
            return
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                file.seek(self._place)
                text = self._rest + file.read()
                self._place = file.tell()
        except OSError:
            return
        whole, _, self._rest = text.rpartition("\n")
        for row in csv.reader(whole.split("\n")):
            try:
                time, key, size_, op = row
                yield Access(Seconds(float(time)), key.lstrip("/"), Bytes(int(size_)), AccessOp(op))
            except ValueError:
                continue


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _repair(path: str) -> int:
    """Remove a last line that a crash has cut, or a file that is no trace; return the lines."""
    try:
        with open(path, "rb+") as file:
            data = file.read()
            end = data.rfind(b"\n") + 1
            if end != len(data):
                file.truncate(end)
        with open_trace(path) as trace:
            return sum(len(chunk) for chunk in trace.chunks())
    except FileNotFoundError:
        return 0
    except TraceError:
        os.unlink(path)
        return 0

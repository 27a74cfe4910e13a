"""Traces of accesses as CSV: whole files (`time,key,bytes,op`), or blocks (`version,time,op,size,lbn`)."""

import csv
import gzip
import io
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

from fairlead.access import Access, AccessOp
from fairlead.errors import TraceError
from fairlead.units import Bytes, Seconds

COLUMNS: Final = ("time", "key", "bytes", "op")
_BLOCK_COLUMNS: Final = ("time", "lbn", "size", "op")
_CHUNK: Final = 20_000
"""Accesses that are in memory at a time."""
_GZIP: Final = b"\x1f\x8b"
_FILE_OPS: Final[Mapping[str, AccessOp]] = {"read": AccessOp.READ, "write": AccessOp.WRITE}
_BLOCK_OPS: Final[Mapping[str, AccessOp]] = {  # SCSI's READ and WRITE of 6, 10, 16 and 12 bytes
    **dict.fromkeys(("08", "8", "28", "88", "a8"), AccessOp.READ),
    **dict.fromkeys(("0a", "a", "2a", "8a", "aa"), AccessOp.WRITE),
}
_HINT: Final = "write each access as time,key,bytes,op below a line with these four names"


@dataclass(frozen=True, slots=True)
class AccessForm:
    """Where the fields of an access are in a row."""

    indexes: tuple[int, int, int, int]
    """Of the time, the key, the bytes and the operation."""
    ops: Mapping[str, AccessOp]
    is_blocks: bool = False


class AccessReader:
    """The accesses of an open trace, in chunks: a long one does not have to fit in memory."""

    def __init__(self, lines: Iterator[str], path: str) -> None:
        self._rows = csv.reader(lines)
        self._path = path
        self._form = self._head()
        self.count = 0
        """The accesses read so far."""

    @property
    def is_blocks(self) -> bool:
        """Whether the keys are blocks, whose accesses have sizes of their own."""
        return self._form.is_blocks

    def chunks(self) -> Iterator[list[Access]]:
        """Yield the accesses; a TraceError names the first line that is none."""
        chunk: list[Access] = []
        for row in self._read():
            chunk.append(self._access(row))
            if len(chunk) == _CHUNK:
                self.count += len(chunk)
                yield chunk
                chunk = []
        self.count += len(chunk)
        if not self.count:
            raise TraceError(f"{self._path}: the trace has no accesses", "record some, then ask again")
        yield chunk

    def _read(self) -> Iterator[Sequence[str]]:
        while True:
            try:
                row = next(self._rows, None)
            except (csv.Error, EOFError, OSError, zlib.error) as error:
                raise self._error(f"cannot be read: {error}", "is the file damaged?") from None
            if row is None:
                return
            if row:
                yield row

    def _head(self) -> AccessForm:
        row = next(self._read(), None)
        if row is None:
            raise TraceError(f"{self._path}: the trace is empty", _HINT)
        names = [name.strip().lower() for name in row]
        for columns, ops in ((COLUMNS, _FILE_OPS), (_BLOCK_COLUMNS, _BLOCK_OPS)):
            if set(columns) <= set(names):
                time, key, size, op = map(names.index, columns)
                return AccessForm((time, key, size, op), ops, columns is _BLOCK_COLUMNS)
        raise self._error(f"no names of columns: {','.join(row)[:60]!r}", _HINT)

    def _access(self, row: Sequence[str]) -> Access:
        time, key, size, op = self._form.indexes
        try:
            access = Access(
                Seconds(float(row[time])), row[key], Bytes(int(row[size])), self._form.ops[row[op]]
            )
            if access.bytes >= 0 and access.key and math.isfinite(access.time):
                return access
        except (IndexError, KeyError, ValueError):
            pass
        return self._access_of_words([word.strip() for word in row])

    def _access_of_words(self, row: Sequence[str]) -> Access:
        """Return the access of a row with spaces or capitals in it, or say what is wrong."""
        if len(row) <= max(self._form.indexes):
            count = max(self._form.indexes) + 1
            raise self._error(f"{len(row)} values instead of {count}", "remove the line, or complete it")
        time, key, size, op = (row[index] for index in self._form.indexes)
        seconds = self._number(time, float, "the time", "a number of seconds")
        if not math.isfinite(seconds):
            raise self._error(f"the time is {time!r}", "write a number of seconds")
        if not key:
            raise self._error("no key", "write the path of the file")
        amount = self._number(size, int, "the bytes", "the whole file's size as a whole number")
        if amount < 0:
            raise self._error(f"the bytes are {size}", "write the whole file's size: 0 or more")
        known = self._form.ops.get(op.lower())
        if known is None:
            words = "28 or 2a" if self._form.is_blocks else "read or write"
            raise self._error(f"unknown op {op[:20]!r}", f"write {words}")
        return Access(Seconds(seconds), key, Bytes(int(amount)), known)

    def _number(self, text: str, parse: Callable[[str], float], what: str, wanted: str) -> float:
        try:
            return parse(text)
        except ValueError:
            raise self._error(f"{what}: {text[:30]!r} is no number", f"write {wanted}") from None

    def _error(self, fault: str, hint: str) -> TraceError:
        return TraceError(f"{self._path}: line {max(self._rows.line_num, 1)}: {fault}", hint)


@contextmanager
def open_trace(path: str) -> Iterator[AccessReader]:
    """Open a trace, plain or compressed with gzip; `-` is the standard input."""
    if path == "-":
        yield AccessReader(sys.stdin, "standard input")
        return
    try:
        file = _open(path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}", "name a CSV file of accesses") from None
    with file:
        yield AccessReader(file, path)


def _open(path: str) -> TextIO:
    with open(path, "rb") as start:
        packed = start.read(2) == _GZIP
    if packed:
        unpacked = gzip.open(path, "rb")  # noqa: SIM115  # closed with the text
        return io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors="surrogateescape", newline="")
    return open(path, encoding="utf-8-sig", errors="surrogateescape", newline="")

"""Walk protocol buffers without loading them: a part is a tag and where its content begins and ends."""

import struct
from collections.abc import Iterator
from typing import Final

from fairlead import varint
from fairlead.analyze import bounds
from fairlead.analyze.names import printable
from fairlead.analyze.source import ModelSource
from fairlead.errors import AnalysisError

NUMBER, DOUBLE, PIECE, FLOAT = 0, 1, 2, 5
_SIGN: Final = 1 << 63
_WORD: Final = 1 << 64


def varint_tag(field: int) -> int:
    """Return the tag of a field that is written as a number of variable length."""
    return field << 3 | NUMBER


def len_tag(field: int) -> int:
    """Return the tag of a field that is a text, a message or a packed list."""
    return field << 3 | PIECE


def signed(value: int) -> int:
    """Return a number as the int64 that was written."""
    return value - _WORD if value & _SIGN else value


class ProtobufReader:
    """A source as protocol buffers, with what is left of the bounds."""

    __slots__ = ("_fields", "_text", "source")

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self._fields = bounds.FIELDS
        self._text = bounds.TEXT

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield each part: its tag, then the value and 0 of a number, or start and end of anything else."""
        source, at = self.source, start
        while at < end:
            index = source.at(at)
            data, base = source.window, source.base
            try:
                tag = data[index]
                index += 1
                if tag >= 0x80:
                    tag, index = varint.decode(data, index - 1, len(data))
                form = tag & 7
                value = 0
                if form in (PIECE, NUMBER):
                    value = data[index]
                    index += 1
                    if value >= 0x80:
                        value, index = varint.decode(data, index - 1, len(data))
            except (IndexError, ValueError):
                raise source.damaged_error(at) from None
            first = at = base + index
            if form != NUMBER:
                at += value if form == PIECE else self._fixed(form, first)
            if at > end or tag < 8:
                raise source.damaged_error(first)
            self._fields -= 1
            if self._fields < 0:
                raise self.limit_error(f"more than {bounds.FIELDS:,} parts")
            yield (tag, value, 0) if form == NUMBER else (tag, first, at)

    def _fixed(self, form: int, place: int) -> int:
        if form == FLOAT:
            return 4
        if form == DOUBLE:
            return 8
        raise self.source.damaged_error(place)  # groups have not been written for twenty years

    def text(self, start: int, end: int) -> str:
        """Return a name."""
        length = end - start
        if length > bounds.NAME:
            raise self.limit_error(f"a name of {length:,} bytes at byte {start}")
        self._text -= length
        if self._text < 0:
            raise self.limit_error(f"more than {bounds.TEXT:,} bytes of names")
        return self.source.read(start, end).decode("utf-8", "replace")

    def numbers(self, start: int, end: int, limit: int) -> list[int]:
        """Return a packed list of int64, or as much of it as the limit allows."""
        data = self.source.read(start, min(end, start + 10 * limit))
        found: list[int] = []
        index = 0
        try:
            while index < len(data) and len(found) < limit:
                value, index = varint.decode(data, index, len(data))
                found.append(signed(value))
        except ValueError:
            raise self.source.damaged_error(start) from None
        return found

    def floats(self, start: int, end: int, limit: int) -> list[float]:
        """Return a packed list of float, or as much of it as the limit allows."""
        count = min((end - start) // 4, limit)
        return list(struct.unpack(f"<{count}f", self.source.read(start, start + 4 * count)))

    def limit_error(self, what: str) -> AnalysisError:
        """Return the error for a file beyond the bounds."""
        return AnalysisError(
            f"{printable(self.source.path)}: {what}: no model looks like this",
            "fetch or export the model again",
        )

"""Parse protocol buffers without loading them: a field is a tag, and the start and end of its content."""

import struct
from collections.abc import Iterator
from typing import Final

from fairlead import varint
from fairlead.analyze import bounds
from fairlead.analyze.names import printable
from fairlead.analyze.source import ModelSource
from fairlead.errors import AnalysisError

VARINT, I64, LEN, I32 = 0, 1, 2, 5
_SIGN: Final = 1 << 63
_WORD: Final = 1 << 64


def varint_tag(field: int) -> int:
    """Return the tag of a varint field."""
    return field << 3 | VARINT


def len_tag(field: int) -> int:
    """Return the tag of a length-delimited field: a string, a message or a packed list."""
    return field << 3 | LEN


def signed(value: int) -> int:
    """Return the int64 that a varint encodes."""
    return value - _WORD if value & _SIGN else value


class ProtobufReader:
    """A source as protocol buffers, with the rest of its bounds."""

    __slots__ = ("_fields", "_text", "source")

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self._fields = bounds.FIELDS
        self._text = bounds.TEXT

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield each field: its tag, then the value and 0 of a varint, or start and end of other content."""
        source, at = self.source, start
        while at < end:
            index = source.at(at)
            data, base = source.window, source.base
            try:
                tag = data[index]
                index += 1
                if tag >= 0x80:
                    tag, index = varint.decode(data, index - 1, len(data))
                wire_type = tag & 7
                value = 0
                if wire_type in (LEN, VARINT):
                    value = data[index]
                    index += 1
                    if value >= 0x80:
                        value, index = varint.decode(data, index - 1, len(data))
            except (IndexError, ValueError):
                raise source.damaged_error(at) from None
            first = at = base + index
            if wire_type != VARINT:
                at += value if wire_type == LEN else self._fixed(wire_type, first)
            if at > end or tag < 8:
                raise source.damaged_error(first)
            self._fields -= 1
            if self._fields < 0:
                raise self.limit_error(f"more than {bounds.FIELDS:,} fields")
            yield (tag, value, 0) if wire_type == VARINT else (tag, first, at)

    def _fixed(self, wire_type: int, place: int) -> int:
        if wire_type == I32:
            return 4
        if wire_type == I64:
            return 8
        raise self.source.damaged_error(place)  # no writer has used groups for twenty years

    def text(self, start: int, end: int) -> str:
        """Return a string."""
        length = end - start
        if length > bounds.NAME:
            raise self.limit_error(f"a name of {length:,} bytes at byte {start}")
        self._text -= length
        if self._text < 0:
            raise self.limit_error(f"more than {bounds.TEXT:,} bytes of names")
        return self.source.read(start, end).decode("utf-8", "replace")

    def numbers(self, start: int, end: int, limit: int) -> list[int]:
        """Return a packed list of int64, up to the limit."""
        data = self.source.read(start, min(end, start + 10 * limit))
        values: list[int] = []
        index = 0
        try:
            while index < len(data) and len(values) < limit:
                value, index = varint.decode(data, index, len(data))
                values.append(signed(value))
        except ValueError:
            raise self.source.damaged_error(start) from None
        return values

    def floats(self, start: int, end: int, limit: int) -> list[float]:
        """Return a packed list of float, up to the limit."""
        count = min((end - start) // 4, limit)
        return list(struct.unpack(f"<{count}f", self.source.read(start, start + 4 * count)))

    def limit_error(self, excess: str) -> AnalysisError:
        """Return the error for a file beyond the bounds."""
        return AnalysisError(
            f"{printable(self.source.path)}: {excess}: no model looks like this",
            "fetch or export the model again",
        )

"""Parse flatbuffers: every offset is checked before it is used."""

import struct
from typing import Final

from fairlead.analyze import bounds
from fairlead.analyze.source import ModelSource
from fairlead.errors import AnalysisError

_BYTE, _SHORT, _INT, _WORD = (struct.Struct(form) for form in ("<b", "<H", "<i", "<I"))
_LONG: Final = struct.Struct("<Q")
_LARGEST_VTABLE: Final = 1024


class FlatbufferReader:
    """A source as flatbuffers."""

    __slots__ = ("_text", "_vtables", "source")

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self._text = bounds.TEXT
        self._vtables: dict[int, tuple[int, ...]] = {}

    def root(self) -> "FlatbufferTable":
        """Return the root table."""
        return FlatbufferTable(self, self.word(0))

    def word(self, place: int) -> int:
        """Return a uint32."""
        return int(self._number(place, _WORD))

    def signed(self, place: int) -> int:
        """Return an int32."""
        return int(self._number(place, _INT))

    def byte(self, place: int) -> int:
        """Return an int8."""
        return int(self._number(place, _BYTE))

    def long(self, place: int) -> int:
        """Return a uint64."""
        return int(self._number(place, _LONG))

    def _number(self, place: int, form: struct.Struct) -> int:
        index = self.source.at(place)
        try:
            value: int = form.unpack_from(self.source.window, index)[0]
        except struct.error:
            raise self.source.damaged_error(place) from None
        return value

    def vtable(self, place: int) -> tuple[int, ...]:
        """Return the offset of each field from the start of its table; 0 for a missing field."""
        if place not in self._vtables:
            if len(self._vtables) > 100_000:
                self._vtables.clear()
            length = int(self._number(place, _SHORT))
            if length % 2 or not 4 <= length <= _LARGEST_VTABLE:
                raise self.source.damaged_error(place)
            data = self.source.read(place, place + length)
            self._vtables[place] = struct.unpack(f"<{length // 2}H", data)[2:]
        return self._vtables[place]

    def vector(self, place: int, width: int, limit: int) -> tuple[int, int]:
        """Return the start of a vector's items and their number."""
        start = place + self.word(place)
        count = self.word(start)
        if start + 4 + count * width > self.source.size:
            raise self.source.damaged_error(place)
        if count > limit:
            raise self.limit_error(f"a list of {count:,} items at byte {start}")
        return start + 4, count

    def text(self, place: int) -> str:
        """Return a string."""
        start, length = self.vector(place, 1, bounds.NAME)
        self._text -= length
        if self._text < 0:
            raise self.limit_error(f"more than {bounds.TEXT:,} bytes of names")
        return self.source.read(start, start + length).decode("utf-8", "replace")

    def limit_error(self, excess: str) -> AnalysisError:
        """Return the error for a file beyond the bounds."""
        return AnalysisError(
            f"{self.source.path}: {excess}: no model looks like this", "fetch or export the model again"
        )


class FlatbufferTable:
    """One table: fields by their number in the schema, with defaults for missing ones."""

    __slots__ = ("_at", "_flat", "_slots")

    def __init__(self, flat: FlatbufferReader, at: int) -> None:
        self._flat = flat
        self._at = at
        vtable = at - flat.signed(at)
        self._slots = flat.vtable(vtable)

    def _place(self, field: int) -> int:
        """Return the place of a field, or 0 where it is missing."""
        offset = self._slots[field] if field < len(self._slots) else 0
        return self._at + offset if offset else 0

    def byte(self, field: int, default: int = 0) -> int:
        """Return an int8 field."""
        place = self._place(field)
        return self._flat.byte(place) if place else default

    def number(self, field: int, default: int = 0) -> int:
        """Return an int32 field."""
        place = self._place(field)
        return self._flat.signed(place) if place else default

    def long(self, field: int, default: int = 0) -> int:
        """Return a uint64 field."""
        place = self._place(field)
        return self._flat.long(place) if place else default

    def text(self, field: int) -> str:
        """Return a string field, or an empty string."""
        place = self._place(field)
        return self._flat.text(place) if place else ""

    def table(self, field: int) -> "FlatbufferTable | None":
        """Return a nested table."""
        place = self._place(field)
        return FlatbufferTable(self._flat, place + self._flat.word(place)) if place else None

    def tables(self, field: int, limit: int) -> "list[FlatbufferTable]":
        """Return a vector of tables."""
        return [FlatbufferTable(self._flat, at + self._flat.word(at)) for at in self._items(field, limit)]

    def ints(self, field: int, limit: int) -> tuple[int, ...]:
        """Return a vector of int32."""
        place = self._place(field)
        if not place:
            return ()
        start, count = self._flat.vector(place, 4, limit)
        return struct.unpack(f"<{count}i", self._flat.source.read(start, start + 4 * count))

    def span(self, field: int) -> tuple[int, int]:
        """Return the start and length of a vector of bytes, which is not read."""
        place = self._place(field)
        return self._flat.vector(place, 1, self._flat.source.size) if place else (0, 0)

    def _items(self, field: int, limit: int) -> range:
        place = self._place(field)
        if not place:
            return range(0)
        start, count = self._flat.vector(place, 4, limit)
        return range(start, start + 4 * count, 4)

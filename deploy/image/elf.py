"""Programs and libraries as the kernel sees them: which loader they ask for, and what may be cut off."""

import struct
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"\x7fELF"
_LOAD, _INTERP = 1, 3
_HEADERS: Final = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
"""The file's header behind its first 16 bytes, by class: 1 has 32 bits, 2 has 64."""
_SEGMENTS: Final = {1: ("IIIIIIII", 1, 4), 2: ("IIQQQQQQ", 2, 5)}
"""A segment's header by class, with the places of its offset and of its size in the file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the file that the kernel or the loader reads."""

    kind: int
    start: int
    end: int


def is_elf(data: bytes) -> bool:
    """Say whether a file is a program or a library."""
    return data.startswith(_MAGIC)


def segments(data: bytes) -> list[Segment]:
    """Return what of a program or library is read when it runs."""
    order = "<" if data[5] == 1 else ">"
    header = struct.unpack_from(order + _HEADERS[data[4]], data, 16)
    table, width, count = header[4], header[8], header[9]
    form, start, size = _SEGMENTS[data[4]]
    rows = (struct.unpack_from(order + form, data, table + width * number) for number in range(count))
    return [Segment(row[0], row[start], row[start] + row[size]) for row in rows]


def loader(data: bytes) -> str:
    """Return the path of the loader that a program asks for; empty where it asks for none."""
    found = next((data[each.start : each.end] for each in segments(data) if each.kind == _INTERP), b"")
    return found.rstrip(b"\0").decode()


def slim(data: bytes) -> bytes:
    """Return a program or library without symbols and debug information.

    They lie behind the last segment, where only the table of sections leads to them, and nothing reads that
    table when a program runs. So both go. The headers of the segments stay where they are.
    """
    order = "<" if data[5] == 1 else ">"
    form = order + _HEADERS[data[4]]
    header = list(struct.unpack_from(form, data, 16))
    table = header[4] + header[8] * header[9]
    end = max(table, *(each.end for each in segments(data)))
    header[5] = header[11] = header[12] = 0  # where the sections' table is, its length, its names
    cut = bytearray(data[:end])
    struct.pack_into(form, cut, 16, *header)
    return bytes(cut)

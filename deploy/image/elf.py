"""Programs and libraries as kernel and loader see them: what they ask for, and what may be cut off."""

import struct
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"\x7fELF"
_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29
_HEADERS: Final = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
"""The file's header behind its first 16 bytes, by class: 1 has 32 bits, 2 has 64."""
_SEGMENTS: Final = {1: ("IIIIIIII", 1, 2, 4, 7), 2: ("IIQQQQQQ", 2, 3, 5, 7)}
"""A segment's header by class, with the places of its offset, address, size in the file, and alignment."""
_ENTRIES: Final = {1: "iI", 2: "qQ"}
"""An entry of the dynamic section by class: a tag and a value."""
AARCH64: Final = 183


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the file that the kernel or the loader reads."""

    kind: int
    start: int
    end: int
    address: int = 0
    """Where it begins in memory."""
    alignment: int = 0

    @property
    def loaded(self) -> bool:
        """Whether the kernel or the loader maps it into memory."""
        return self.kind == _LOAD


@dataclass(frozen=True, slots=True)
class Wants:
    """Which libraries a file names, and the folders where it has them looked for first."""

    names: tuple[str, ...]
    folders: tuple[str, ...]


def is_elf(data: bytes) -> bool:
    """Say whether a file is a program or a library."""
    return data.startswith(_MAGIC)


def segments(data: bytes) -> list[Segment]:
    """Return what of a program or library is read when it runs."""
    order = "<" if data[5] == 1 else ">"
    header = struct.unpack_from(order + _HEADERS[data[4]], data, 16)
    table, width, count = header[4], header[8], header[9]
    form, start, address, size, alignment = _SEGMENTS[data[4]]
    rows = (struct.unpack_from(order + form, data, table + width * number) for number in range(count))
    return [Segment(row[0], row[start], row[start] + row[size], row[address], row[alignment]) for row in rows]


def machine(data: bytes) -> int:
    """Return the number of the kind of machine that a file is made for."""
    number: int = struct.unpack_from("<H" if data[5] == 1 else ">H", data, 18)[0]
    return number


def wants(data: bytes) -> Wants:
    """Return the libraries that a program or library names, as its loader reads them."""
    pieces = segments(data)
    form = ("<" if data[5] == 1 else ">") + _ENTRIES[data[4]]
    dynamic = next((data[piece.start : piece.end] for piece in pieces if piece.kind == _DYNAMIC), b"")
    entries = list(struct.iter_unpack(form, dynamic))
    table = next((value for tag, value in entries if tag == _STRTAB), 0)

    def text(offset: int) -> str:
        place = table + offset
        home = next(
            piece for piece in pieces if piece.loaded and 0 <= place - piece.address < piece.end - piece.start
        )
        start = home.start + place - home.address
        return data[start : data.index(b"\0", start)].decode()

    named = tuple(text(value) for tag, value in entries if tag == _NEEDED)
    paths = [text(value) for tag, value in entries if tag in (_RPATH, _RUNPATH)]
    return Wants(named, tuple(folder for path in paths for folder in path.split(":")))


def loader(data: bytes) -> str:
    """Return the path of the loader that a program asks for; empty where it asks for none."""
    found = next(
        (data[segment.start : segment.end] for segment in segments(data) if segment.kind == _INTERP), b""
    )
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
    end = max(table, *(segment.end for segment in segments(data)))
    header[5] = header[11] = header[12] = 0  # where the sections' table is, its length, its names
    cut = bytearray(data[:end])
    struct.pack_into(form, cut, 16, *header)
    return bytes(cut)

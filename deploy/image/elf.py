"""ELF files: the segments that kernel and loader read, the libraries they need, and what can be stripped."""

import struct
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"\x7fELF"
_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29
_HEADERS: Final = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
"""The file's header after its first 16 bytes, by class: 1 is 32-bit, 2 is 64-bit."""
_SEGMENTS: Final = {1: ("IIIIIIII", 1, 2, 4, 7), 2: ("IIQQQQQQ", 2, 3, 5, 7)}
"""A program header by class, with the indices of its offset, address, file size, and alignment."""
_ENTRIES: Final = {1: "iI", 2: "qQ"}
"""An entry of the dynamic section by class: a tag and a value."""
AARCH64: Final = 183


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of the file that the kernel or the loader reads."""

    kind: int
    start: int
    end: int
    address: int = 0
    """Its virtual address."""
    alignment: int = 0

    @property
    def loaded(self) -> bool:
        """Whether the kernel or the loader maps it into memory."""
        return self.kind == _LOAD


@dataclass(frozen=True, slots=True)
class NeededLibraries:
    """The libraries that a file needs (DT_NEEDED), and its search path (DT_RPATH, DT_RUNPATH)."""

    names: tuple[str, ...]
    folders: tuple[str, ...]


def is_elf(data: bytes) -> bool:
    """Return whether a file is an ELF file."""
    return data.startswith(_MAGIC)


def segments(data: bytes) -> list[Segment]:
    """Return the segments of a program or library."""
    order = "<" if data[5] == 1 else ">"
    header = struct.unpack_from(order + _HEADERS[data[4]], data, 16)
    table, width, count = header[4], header[8], header[9]
    form, start, address, size, alignment = _SEGMENTS[data[4]]
    rows = (struct.unpack_from(order + form, data, table + width * number) for number in range(count))
    return [Segment(row[0], row[start], row[start] + row[size], row[address], row[alignment]) for row in rows]


def machine(data: bytes) -> int:
    """Return the machine number (e_machine) of a file."""
    number: int = struct.unpack_from("<H" if data[5] == 1 else ">H", data, 18)[0]
    return number


def needed_libraries(data: bytes) -> NeededLibraries:
    """Return the libraries that a program or library needs, as its loader reads them."""
    pieces = segments(data)
    form = ("<" if data[5] == 1 else ">") + _ENTRIES[data[4]]
    dynamic = next((data[piece.start : piece.end] for piece in pieces if piece.kind == _DYNAMIC), b"")
    entries = list(struct.iter_unpack(form, dynamic))
    table = next((value for tag, value in entries if tag == _STRTAB), 0)

    def text(offset: int) -> str:
        address = table + offset
        segment = next(
            piece
            for piece in pieces
            if piece.loaded and 0 <= address - piece.address < piece.end - piece.start
        )
        start = segment.start + address - segment.address
        return data[start : data.index(b"\0", start)].decode()

    names = tuple(text(value) for tag, value in entries if tag == _NEEDED)
    paths = [text(value) for tag, value in entries if tag in (_RPATH, _RUNPATH)]
    return NeededLibraries(names, tuple(folder for path in paths for folder in path.split(":")))


def loader(data: bytes) -> str:
    """Return the path of a program's loader (PT_INTERP); empty: it has none."""
    path = next(
        (data[segment.start : segment.end] for segment in segments(data) if segment.kind == _INTERP), b""
    )
    return path.rstrip(b"\0").decode()


def slim(data: bytes) -> bytes:
    """Return a program or library without symbols and debug information.

    They lie after the last segment, and only the section header table points to them; no program needs that
    table to run. So both are removed. The program headers stay in place.
    """
    order = "<" if data[5] == 1 else ">"
    form = order + _HEADERS[data[4]]
    header = list(struct.unpack_from(form, data, 16))
    table = header[4] + header[8] * header[9]
    end = max(table, *(segment.end for segment in segments(data)))
    header[5] = header[11] = header[12] = 0  # e_shoff, e_shnum, e_shstrndx
    cut = bytearray(data[:end])
    struct.pack_into(form, cut, 16, *header)
    return bytes(cut)

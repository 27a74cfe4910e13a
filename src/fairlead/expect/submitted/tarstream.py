"""Read a tar archive as a stream, bounded: names and headers are hostile input, and nothing is unpacked.

The standard library reads an extended header of any length into memory. Here a header has a limit, and so
have the members and the bytes of an archive.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from fairlead.errors import ManifestError

_BLOCK: Final = 512
_CHUNK: Final = 1 << 20
_HEADER_LIMIT: Final = 1 << 20
MOST_MEMBERS: Final = 2_000_000
MOST_BYTES: Final = 64 << 30
"""Unpacked bytes of one archive or layer."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member of an archive."""

    name: str
    """Without leading `/` and `./`; empty where it would lead out of the archive."""
    kind: str
    """The type flag: `0` a file, `1` a hard link, `2` a symbolic link, `5` a folder."""
    size: int = 0
    link: str = ""


class TarReader:
    """The members of an archive, in order; the content of the current one can be read."""

    def __init__(self, stream: BinaryIO, where: str, *, most_bytes: int = MOST_BYTES) -> None:
        self._stream = stream
        self._where = where
        self._left = most_bytes
        self._content = 0
        self._padding = 0

    def __iter__(self) -> Iterator[TarMember]:
        """Yield every member; extended headers are applied to the member after them."""
        extra: dict[str, str] = {}
        for _ in range(MOST_MEMBERS):
            header = self._next_header()
            if header is None:
                return
            kind = chr(header[156]) if header[156] else "0"
            size = (
                int(extra.get("size", "-1"))
                if extra.get("size", "").isdecimal()
                else _number(header[124:136])
            )
            self._content, self._padding = size, -size % _BLOCK
            if kind in "xLK":
                extra |= _extended(kind, self._header_text(size))
                continue
            if kind == "g":
                continue
            yield TarMember(
                safe_name(extra.get("path") or _name(header)),
                "0" if kind == "7" else kind,
                size,
                extra.get("linkpath") or _text(header[157:257]),
            )
            extra = {}
        raise self._fault(f"more than {MOST_MEMBERS} members")

    def content(self) -> Iterator[bytes]:
        """Yield the content of the current member, in chunks."""
        while self._content:
            data = self._read(min(_CHUNK, self._content))
            self._content -= len(data)
            yield data

    def skip_content(self) -> None:
        """Count the content of the current member as read: the caller has moved the stream past it."""
        if self._content > self._left:
            raise self._fault("more bytes than are read")
        self._left -= self._content
        self._content = 0

    def _next_header(self) -> bytes | None:
        for _ in self.content():
            pass
        self._read(self._padding)
        self._padding = 0
        header = self._read(_BLOCK, end_allowed=True)
        return header if header.strip(b"\0") else None

    def _header_text(self, size: int) -> bytes:
        if size > _HEADER_LIMIT:
            raise self._fault(f"a header of {size} bytes")
        return b"".join(self.content())

    def _read(self, size: int, *, end_allowed: bool = False) -> bytes:
        if size > self._left:
            raise self._fault("more bytes than are read")
        try:
            data = self._stream.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise self._fault(str(error)) from None
        self._left -= len(data)
        if len(data) < size and not (end_allowed and not data):
            raise self._fault("it is cut off")
        return data

    def _fault(self, problem: str) -> ManifestError:
        return ManifestError(f"{self._where}: not a usable tar archive: {problem}", "save the image again")


def unpacked(stream: BinaryIO, where: str) -> BinaryIO:
    """Return the tar stream inside a file that may be compressed by gzip."""
    magic = stream.read(4)
    stream.seek(0)
    if magic.startswith(_ZSTD):
        raise ManifestError(f"{where}: compressed by zstd", "save the image with gzip, or uncompressed")
    return gzip.GzipFile(fileobj=stream, mode="rb") if magic.startswith(_GZIP) else stream  # type: ignore[return-value]  # reads like a file


def safe_name(name: str) -> str:
    """Return a member's name below the archive's root; empty where it has a `..`."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return "" if ".." in parts else "/".join(parts)


def _name(header: bytes) -> str:
    prefix = _text(header[345:500]) if header[257:262] == b"ustar" and header[263:265] == b"00" else ""
    return f"{prefix}/{_text(header[:100])}" if prefix else _text(header[:100])


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else 0


def _extended(kind: str, data: bytes) -> dict[str, str]:
    """Return the fields of an extended header: of pax, or of GNU's long names."""
    if kind != "x":
        return {"path" if kind == "L" else "linkpath": _text(data)}
    fields = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or len(length) > 9 or not len(length) < int(length) <= len(data):
            break
        record, data = data[len(length) + 1 : int(length) - 1], data[int(length) :]
        key, _, value = record.partition(b"=")
        if key in (b"path", b"linkpath", b"size"):
            fields[key.decode()] = value.decode("utf-8", "replace")
    return fields

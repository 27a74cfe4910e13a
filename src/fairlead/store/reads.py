"""GET and HEAD: conditions, ranges that resume, and the checksum of the whole file beside it."""

import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final

from fairlead.access import AccessOp
from fairlead.store.conditions import Version, failed_condition, wanted_range
from fairlead.store.contents import Contents, file_version
from fairlead.store.digests import PIECE, compute_digest, field_of, store_digest, stored_digest
from fairlead.store.media_types import content_type
from fairlead.store.refusal import RefusedError

_SMALL: Final = 1 << 20
"""Bytes up to which the digest of a file that has none is computed unasked."""
_SETTLED: Final = 2_000_000_000
"""Nanoseconds since the last change of a file after which its digest is kept: a clock tick is far shorter."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer, and its body, if it has one."""

    status: str
    headers: list[tuple[str, str]]
    body: "FileSlice | None" = None


class FileSlice:
    """A part of an open file as the body of an answer; the server may send it without reading it."""

    def __init__(self, handle: int, offset: int, length: int) -> None:
        self.handle, self.offset, self.length = handle, offset, length

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes; a file that has become shorter ends the connection."""
        while self.length:
            piece = os.pread(self.handle, min(PIECE, self.length), self.offset)
            if not piece:
                raise ConnectionError("the file became shorter while it was sent")
            self.offset += len(piece)
            self.length -= len(piece)
            yield piece

    def close(self) -> None:
        """Close the file."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)


def read_file(contents: Contents, path: str, environ: Mapping[str, Any]) -> Answer:
    """Answer GET or HEAD."""
    opened = contents.jail.open_file(path)
    if opened is None:
        return _missing(environ)
    handle, status = opened
    try:
        if stat.S_ISDIR(status.st_mode):
            raise RefusedError(
                405,
                "this is a folder: list it with PROPFIND",
                (("Allow", "OPTIONS, PROPFIND, DELETE, COPY, MOVE"),),
            )
        if path.endswith("/"):
            raise RefusedError(404, "this is a file: leave the slash at the end out")
        answer = _answer(handle, status, path, environ)
    except BaseException:
        os.close(handle)
        raise
    if answer.body is None:
        os.close(handle)
    else:
        contents.trace.add(path, status.st_size, AccessOp.READ)
    return answer


def _missing(environ: Mapping[str, Any]) -> Answer:
    failed = failed_condition(environ, None, reading=True)
    raise RefusedError(failed or 404, "a condition does not hold" if failed else "there is no such file")


def _answer(handle: int, status: os.stat_result, path: str, environ: Mapping[str, Any]) -> Answer:
    # The ETag goes by the digest that the file carries, and by no other: later requests must know it.
    version = file_version(handle, status)
    digest = _digest(handle, status, environ)
    headers = [("ETag", version.etags[0]), ("Last-Modified", formatdate(version.modified, usegmt=True))]
    failed = failed_condition(environ, version, reading=True)
    if failed == 304:
        return Answer("304 Not Modified", headers)
    if failed is not None:
        raise RefusedError(failed, "a condition does not hold", tuple(headers))
    headers += [("Accept-Ranges", "bytes"), ("Content-Type", content_type(path))]
    # A file may hold a page with scripts: a browser must not run it with this origin.
    headers += [("X-Content-Type-Options", "nosniff"), ("Content-Disposition", "attachment")]
    if digest is not None:
        headers.append(("Repr-Digest", field_of(digest)))
    return _ranged(handle, status.st_size, headers, environ, version)


def _ranged(
    handle: int, size: int, headers: list[tuple[str, str]], environ: Mapping[str, Any], version: Version
) -> Answer:
    only_head = environ["REQUEST_METHOD"] == "HEAD"
    try:
        part = None if only_head else wanted_range(environ, version, size)
    except ValueError:
        raise RefusedError(
            416, f"the file has {size} bytes", (*headers[:2], ("Content-Range", f"bytes */{size}"))
        ) from None
    offset, length = part or (0, size)
    headers.append(("Content-Length", str(length)))
    if part:
        headers.append(("Content-Range", f"bytes {offset}-{offset + length - 1}/{size}"))
    body = None if only_head else FileSlice(handle, offset, length)
    return Answer("206 Partial Content" if part else "200 OK", headers, body)


def _digest(handle: int, status: os.stat_result, environ: Mapping[str, Any]) -> bytes | None:
    """Return the file's digest: the kept one, or computed where it is asked for or the file is small."""
    digest = stored_digest(handle, status)
    if digest is not None or not _is_wanted(environ, status.st_size):
        return digest
    digest = compute_digest(handle)
    after = os.fstat(handle)
    if (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        return None
    if time.time_ns() - status.st_mtime_ns > _SETTLED:
        store_digest(handle, digest)
    return digest


def _is_wanted(environ: Mapping[str, Any], size: int) -> bool:
    return size <= _SMALL or "sha-256" in environ.get("HTTP_WANT_REPR_DIGEST", "").lower()

"""Uploads in parts, which go on after a cut: PUT with Content-Range and the digest of the whole file.

The path, the length and the digest name the upload: what is received for them is kept, and its length is
told. When it is complete and has that digest, it is named like any other upload.
"""

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from fairlead.store.contents import Contents
from fairlead.store.digests import ExpectedDigests, compute_digest, store_digest
from fairlead.store.jail import FileTarget
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import PART, Check, RequestBody, Staged

_RANGE: Final = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})")
_MOST: Final = 256
"""Unfinished uploads of one store."""
_AGE: Final = 86_400.0
"""Seconds after which an unfinished upload is removed."""


@dataclass(frozen=True, slots=True)
class PartOfFile:
    """A part of an upload: its place in the file, and the length of all of it."""

    first: int | None
    """None: the part holds nothing, and asks how much has arrived."""
    length: int
    total: int


def parse_part(header: str, body_length: int | None) -> PartOfFile:
    """Parse a Content-Range; RefusedError where it does not fit the body."""
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        raise RefusedError(400, "write Content-Range as bytes FIRST-LAST/TOTAL, or as bytes */TOTAL to ask")
    if body_length is None:
        raise RefusedError(411, "a part of a file needs a Content-Length")
    total = int(match[3])
    if match[1] is None:
        part = PartOfFile(None, 0, total)
    else:
        part = PartOfFile(int(match[1]), int(match[2]) - int(match[1]) + 1, total)
    if part.length != body_length or (part.first is not None and not 0 < part.length <= total - part.first):
        raise RefusedError(400, "the range is not that of the body, or leads beyond the file")
    return part


class PartialUploads:
    """The unfinished uploads of a store."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def receive(
        self, path: str, part: PartOfFile, expected: ExpectedDigests, body: RequestBody
    ) -> "Unfinished":
        """Receive a part, and return the upload with it; what arrived before a cut is kept."""
        name = hashlib.sha256(f"{path}\0{part.total}\0{expected.values['sha-256'].hex()}".encode())
        upload = Unfinished(f"{self._contents.staging.folder}/{PART}{name.hexdigest()[:32]}", part.total)
        with self._alone(upload.path):
            if part.first is not None and part.first != upload.size:
                raise RefusedError(
                    409, f"{upload.size} bytes have arrived: go on there", (upload.offset_header,)
                )
            if part.first is not None:
                self._append(upload, part, body)
        return upload

    def finish(
        self,
        path: str,
        place: FileTarget,
        upload: "Unfinished",
        expected: ExpectedDigests,
        check: Check,
    ) -> Staged:
        """Verify a complete upload, and give it its name."""
        with self._alone(upload.path):
            handle = os.open(upload.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            digest = compute_digest(handle)
            # From here on it counts as the file that it becomes, or as nothing.
            self._contents.account.change(-upload.total)
            if digest != expected.values["sha-256"]:
                self._contents.staging.discard(upload.path, handle)
                raise RefusedError(
                    400, "the sha-256 digest of what arrived is not the stated one: send it again"
                )
            staged = Staged(upload.path, handle, store_digest(handle, digest), {"sha-256": digest})
            self._contents.staging.sync_file(handle)
            self._contents.name(path, place, staged, check)
            return staged

    def expire(self, age: float = _AGE) -> None:
        """Remove unfinished uploads that nobody went on with."""
        with os.scandir(self._contents.staging.folder) as entries:
            for entry in entries:
                if entry.name.startswith(PART) and time.time() - entry.stat().st_mtime > age:
                    with suppress(FileNotFoundError):
                        self._contents.account.change(-entry.stat().st_size)
                        os.unlink(entry.path)

    def _append(self, upload: "Unfinished", part: PartOfFile, body: RequestBody) -> None:
        staging = self._contents.staging
        new = not os.path.exists(upload.path)
        if new and len(os.listdir(staging.folder)) >= _MOST:
            raise RefusedError(507, f"more than {_MOST} unfinished uploads: finish some")
        with self._contents.account.reserving() as reservation:
            reservation.extend(part.total - upload.size)
            received = staging.append(upload.path, body, new=new)
            self._contents.account.change(received.size)
            if received.fault is not None:
                raise received.fault

    @contextmanager
    def _alone(self, path: str) -> Iterator[None]:
        with self._lock:
            if path in self._busy:
                raise RefusedError(409, "another connection sends this upload", (("Retry-After", "1"),))
            self._busy.add(path)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(path)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An upload of which a part has arrived."""

    path: str
    total: int

    @property
    def size(self) -> int:
        """How many bytes have arrived."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0

    @property
    def is_complete(self) -> bool:
        """Whether all of it has arrived."""
        return self.size == self.total

    @property
    def offset_header(self) -> tuple[str, str]:
        """The header that tells how many bytes have arrived."""
        return ("Upload-Offset", str(self.size))

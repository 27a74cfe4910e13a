"""Checksums beside files: the field Repr-Digest (RFC 9530), and the digest in an attribute of the file."""

import base64
import binascii
import hashlib
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.store.refusal import RefusedError

ATTRIBUTE: Final = "user.fairlead.sha256"
_ATTRIBUTE_FORM: Final = struct.Struct(">Qq32s")
"""Size, time of the last change, digest. At most 56 bytes fit beside the name into the usual inode of ext4; a
longer value takes a block of its own, which every upload would have to write."""
_SIZES: Final = {"sha-256": 32, "sha-512": 64}
PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ExpectedDigests:
    """The digests that a client states; those of unknown algorithms are left out, as RFC 9530 says."""

    values: Mapping[str, bytes]

    @property
    def sha512(self) -> bool:
        """Whether SHA-512 must be computed beside SHA-256."""
        return "sha-512" in self.values

    def differs(self, computed: Mapping[str, bytes]) -> str | None:
        """Return the first algorithm whose digest is another one; None where all agree."""
        return next((name for name, value in self.values.items() if computed[name] != value), None)


def parse_digests(*fields: str) -> ExpectedDigests:
    """Parse fields such as `sha-256=:...:`; RefusedError where a known algorithm has no digest."""
    values: dict[str, bytes] = {}
    for member in ",".join(fields).split(","):
        name, _, value = member.strip().partition("=")
        if name.lower() not in _SIZES:
            continue
        try:
            digest = base64.b64decode(value.strip().strip(":"), validate=True)
        except (binascii.Error, ValueError):
            digest = b""
        if len(digest) != _SIZES[name.lower()] or not value.strip().startswith(":"):
            raise RefusedError(400, f"{name}: write a digest as {name}=:BASE64:")
        if values.setdefault(name.lower(), digest) != digest:
            raise RefusedError(400, f"{name}: two digests that differ")
    return ExpectedDigests(values)


def field_of(sha256: bytes) -> str:
    """Return the field for a digest."""
    return f"sha-256=:{base64.b64encode(sha256).decode()}:"


def store_digest(handle: int, sha256: bytes) -> os.stat_result:
    """Keep a digest with an open file, and return its status; no fault where there are no attributes."""
    status = os.fstat(handle)
    value = _ATTRIBUTE_FORM.pack(status.st_size, status.st_mtime_ns, sha256)
    # Without attributes here, or without room for one, the digest is computed when it is wanted.
    with suppress(OSError):
        os.setxattr(handle, ATTRIBUTE, value)
    return status


def stored_digest(file: int | str, status: os.stat_result) -> bytes | None:
    """Return the digest that a file carries; None without one, or where the file was changed since."""
    try:
        size, changed, digest = _ATTRIBUTE_FORM.unpack(os.getxattr(file, ATTRIBUTE))
    except (OSError, struct.error):
        return None
    return digest if (size, changed) == (status.st_size, status.st_mtime_ns) else None


def compute_digest(handle: int) -> bytes:
    """Return the SHA-256 of an open file."""
    digest, offset = hashlib.sha256(), 0
    while piece := os.pread(handle, PIECE, offset):
        digest.update(piece)
        offset += len(piece)
    return digest.digest()

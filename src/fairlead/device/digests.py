"""Checksums of contents as HTTP carries them: `Repr-Digest: sha-256=:...:` of RFC 9530."""

import base64
import binascii
import re
from typing import Final

_SHA256: Final = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{44}):", re.IGNORECASE)
WANT: Final = {"Want-Repr-Digest": "sha-256=10"}
"""The header with which a reply is asked to carry the checksum."""


def repr_digest(sha256: str) -> str:
    """Return the header's value for a checksum in hexadecimal."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


def parse_repr_digest(value: str) -> str | None:
    """Return the SHA-256 of a header in hexadecimal; None: it has none."""
    found = _SHA256.search(value)
    if found is None:
        return None
    try:
        digest = base64.b64decode(found[1], validate=True)
    except binascii.Error:
        return None
    return digest.hex() if len(digest) == 32 else None

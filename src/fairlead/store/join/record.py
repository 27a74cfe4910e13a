"""DeviceRecord: what a store knows of a device that has joined, and which credentials it accepts; pure."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.invite import TokenRefusal

LIFE: Final = 90 * 86400.0
"""Seconds for which a credential is valid: a device may be away for this long."""
ROTATE_AFTER: Final = 7 * 86400.0
OVERLAP: Final = 600.0
"""Seconds in which a new credential must be used; until then, the old one stays valid."""
CREDENTIAL: Final = re.compile(r"fld1\.([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{43})")
_NONE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """A device that has joined. Of its credentials only digests are kept."""

    id: str
    """The id of the invite that it used."""
    device: str
    joined: float
    nonce: str
    """SHA-256 of the secret with which the device asked: a repeated request is answered again."""
    current: str
    """SHA-256 of the credential's secret."""
    expires: float
    rotate_after: float
    confirmed: bool = False
    """The device has used a credential: it has received one."""
    next: str = ""
    """SHA-256 of the next credential's secret, until the device uses it."""
    next_issued: float = 0.0
    revoked: str = ""
    """Why no credential of this device is accepted any more."""
    last_seen: float = 0.0
    report: Mapping[str, Any] = field(default_factory=lambda: _NONE)


def digest_of(secret: str) -> str:
    """Return the digest of a secret of 256 random bits: no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def accept(record: DeviceRecord, digest: str, now: float) -> DeviceRecord | TokenRefusal:
    """Return the record after a credential was used, or why it is not accepted."""
    if record.revoked:
        return TokenRefusal(f"the credential is revoked: {record.revoked}")
    if record.next and hmac.compare_digest(digest, record.next):
        if now >= record.next_issued + OVERLAP:
            return TokenRefusal("the new credential was not used in time: use the old one, and rotate again")
        expires, rotate = now + LIFE, now + ROTATE_AFTER
        return replace(
            record, confirmed=True, current=record.next, next="", expires=expires, rotate_after=rotate
        )
    if not hmac.compare_digest(digest, record.current):
        return TokenRefusal("the credential was replaced by a newer one")
    if now >= record.expires:
        return TokenRefusal("the credential has expired")
    return record if record.confirmed else replace(record, confirmed=True)


def issued(record: DeviceRecord, secret: str, now: float) -> DeviceRecord:
    """Return the record with a next credential, which replaces the current one when it is used."""
    return replace(record, next=digest_of(secret), next_issued=now)


def joined(name: str, device: str, nonce: str, secret: str, now: float) -> DeviceRecord:
    """Return the record of a device that joins now."""
    return DeviceRecord(
        name,
        device,
        joined=now,
        nonce=digest_of(nonce),
        current=digest_of(secret),
        expires=now + LIFE,
        rotate_after=now + ROTATE_AFTER,
        last_seen=now,
    )


def _encode(record: DeviceRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in DeviceRecord.__slots__}


def _decode(body: Any) -> DeviceRecord:
    return DeviceRecord(**{name: body[name] for name in DeviceRecord.__slots__})


RECORD: Final = VersionedFormat("joined-device", JSON, {1: Codec(_encode, _decode)})

"""Membership: the session that a device has joined, its pinned certificate and its credential."""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead.errors import DeviceError
from fairlead.formats import JSON, Codec, VersionedFormat

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
_LOOPBACK: Final = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")
DEVICE_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Membership:
    """What a device knows of its session; it is a file that the user alone can read."""

    name: str
    """The device's name in its session, and the name of its folder."""
    url: str
    """The store's address, without a slash at its end."""
    fingerprint: str
    """SHA-256 of the store's certificate, in hexadecimal; empty: plain HTTP on loopback."""
    token: str
    """The credential."""
    expires: float = 0.0
    """Until when the credential is valid, in seconds since 1970."""
    rotate_after: float = 0.0
    """When the device asks for the next credential."""
    next_token: str = ""
    """A new credential that the store has not yet seen; `token` is valid until it has."""
    session: str = ""
    """The session's name, as the store says it."""
    program: str = ""
    """The command of the application on the device, whose digest is reported."""
    image: str = ""
    """The digest of the application's image on the device, `sha256:...`."""


def parse_fingerprint(text: str) -> str:
    """Return the fingerprint of a certificate: `sha256:AB:CD:...`, or 64 hexadecimal digits."""
    bare = text.strip().lower().removeprefix("sha256:").replace(":", "")
    if not _FINGERPRINT.fullmatch(bare):
        raise DeviceError(
            f"{text[:80]!r} is not a fingerprint",
            "copy it from `fairlead augment invite`: sha256: and 64 hexadecimal digits",
        )
    return bare


def parse_url(text: str) -> str:
    """Return the address of a store without its last slash; plain HTTP is for loopback alone."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise DeviceError(f"{text[:200]!r} is not an address: {error}", _EXAMPLE) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise DeviceError(f"{text[:200]!r} is not the address of a store", _EXAMPLE)
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(host):
        raise DeviceError(f"{text[:200]}: without TLS the token could be read on its way", "use https://")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}{parts.path.rstrip('/')}"


_EXAMPLE: Final = "write it as `fairlead augment invite` prints it, for example https://server:8443/"


def _encode(membership: Membership) -> dict[str, Any]:
    return {name: getattr(membership, name) for name in Membership.__slots__}


def _decode(body: Any) -> Membership:
    known = {name: body[name] for name in Membership.__slots__ if name in body}
    for name, value in known.items():
        kind = (int, float) if name in ("expires", "rotate_after") else str
        if not isinstance(value, kind):
            raise TypeError(f"{name} has another type")
    return Membership(**known)


MEMBERSHIP: Final = VersionedFormat("device-membership", JSON, {1: Codec(_encode, _decode)})

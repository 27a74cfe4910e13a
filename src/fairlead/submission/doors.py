"""Doors to the store of a session: as a device that has joined it, as its owner, or as a worker beside it."""

import hashlib
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.device.membership import parse_url
from fairlead.device.place import DevicePlace
from fairlead.errors import JobError
from fairlead.submission.client import StoreDoor

STORE_VARIABLE = "FAIRLEAD_STORE"
"""The address of the store, in the environment of an application."""
SESSION_VARIABLE = "FAIRLEAD_SESSION"
"""The folder with the token of the store and its certificate, in the environment of an application."""
DATA_VARIABLE = "FAIRLEAD_DATA"
"""The folder with the files of the store, in the environment of an application."""


@dataclass(frozen=True, slots=True)
class MembershipTokens:
    """The credential of a device, which its agent may rotate at any time."""

    place: DevicePlace

    def current(self) -> Sequence[str]:
        """Return the credential; a new one that the store has not seen yet comes first."""
        membership = self.place.read_membership()
        return [each for each in (membership.next_token, membership.token) if each]


@dataclass(frozen=True, slots=True)
class TokenInFile:
    """A token in a file, which is replaced when the token rotates."""

    path: str

    def current(self) -> Sequence[str]:
        """Return the tokens that the file holds now."""
        try:
            with open(self.path, encoding="utf-8") as file:
                tokens = [line.strip() for line in file.read(4096).splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise JobError(f"{self.path}: the token of the store cannot be read: {why}") from None
        if not tokens:
            raise JobError(f"{self.path}: it holds no token", "write the token of the store into it")
        return tokens


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that was read from a cluster."""

    token: str

    def current(self) -> Sequence[str]:
        """Return it."""
        return (self.token,)


def device_door(place: DevicePlace) -> StoreDoor:
    """Return the door of a device that has joined a session."""
    membership = place.read_membership()
    about = membership.session or membership.url
    return StoreDoor(membership.url, membership.fingerprint, MembershipTokens(place), about)


def session_door(url: str, folder: str, about: str) -> StoreDoor:
    """Return the door of whoever has the token and the certificate of a store in a folder."""
    certificate = os.path.join(folder, "tls.crt")
    fingerprint = certificate_fingerprint(certificate) if url.startswith("https:") else ""
    return StoreDoor(parse_url(url), fingerprint, TokenInFile(os.path.join(folder, "token")), about)


def application_door(environ: Mapping[str, str]) -> StoreDoor:
    """Return the door of an application, as its environment says."""
    url, folder = environ.get(STORE_VARIABLE, ""), environ.get(SESSION_VARIABLE, "")
    if not url or not folder:
        raise JobError(
            f"{STORE_VARIABLE} and {SESSION_VARIABLE} are not both set: this is no application of a session",
            "run it as the application of `fairlead augment create`, or name the session: --local NAME",
        )
    return session_door(url, folder, environ.get("FAIRLEAD_AUGMENTATION", url))


def certificate_fingerprint(path: str) -> str:
    """Return the SHA-256 of a certificate in PEM, in hexadecimal."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(1 << 20)
        end = "-----END CERTIFICATE-----"
        block = text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)]
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(block)).hexdigest()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no certificate in PEM"
        raise JobError(f"{path}: {why}") from None

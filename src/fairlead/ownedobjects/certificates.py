"""Certificates in Secrets: which are still good, and how others are issued. Pure: an `Issuer` makes keys."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from fairlead.compat.times import UTC, parse_iso
from fairlead.keys import ISSUED_FOR, RENEW_AFTER
from fairlead.ownedobjects.kinds import digest
from fairlead.reconcile import Manifest

AUTHORITY_LIFE: Final = timedelta(days=3650)
LEAF_LIFE: Final = timedelta(hours=24)
TRUST_DOMAIN: Final = "cluster.local"
CERT, KEY, CA = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True, slots=True)
class CertifiedKey:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class HostNames:
    """What the certificate of a host says."""

    common_name: str
    dns: tuple[str, ...]
    uri: str
    life: timedelta = LEAF_LIFE
    """How long it is valid; it is issued again after two thirds of that."""


class Issuer(Protocol):
    """What makes keys and certificates."""

    def authority(self, name: str) -> CertifiedKey:
        """Return a new authority."""
        ...

    def leaf(self, authority: CertifiedKey, names: HostNames) -> CertifiedKey:
        """Return a new certificate of an authority; ValueError where the authority cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class IssuedLeaf:
    """What the Secret of a host holds."""

    data: Mapping[str, bytes]
    notes: Mapping[str, str]
    """Annotations of the Secret."""

    @property
    def renew_after(self) -> datetime:
        """When it is issued again."""
        return parse_iso(self.notes[RENEW_AFTER])


def stored_authority(secret: Manifest | None) -> CertifiedKey | None:
    """Return the authority that a Secret holds."""
    if secret is None or not {CERT, KEY} <= set(secret.get("data") or {}):
        return None
    return CertifiedKey(b64decode(secret["data"][CERT]), b64decode(secret["data"][KEY]))


def stored_leaf(
    secret: Manifest | None, authority: CertifiedKey, names: HostNames, now: datetime
) -> IssuedLeaf | None:
    """Return the certificate of a host as it was issued; None: it must be issued.

    What the operator and other clients have written into the Secret since is no part of it.
    """
    if secret is None or not {CERT, KEY, CA} <= set(secret.get("data") or {}):
        return None
    notes = secret["metadata"].get("annotations") or {}
    if notes.get(ISSUED_FOR) != _issued_for(authority, names):
        return None
    data = {key: b64decode(secret["data"][key]) for key in (CERT, KEY, CA)}
    try:
        leaf = IssuedLeaf(data, {key: notes[key] for key in (RENEW_AFTER, ISSUED_FOR)})
        return None if leaf.renew_after <= now else leaf
    except (KeyError, ValueError):
        return None


def issue_leaf(issuer: Issuer, authority: CertifiedKey, names: HostNames, now: datetime) -> IssuedLeaf:
    """Return a new certificate for a host."""
    leaf = issuer.leaf(authority, names)
    data = {CERT: leaf.certificate, KEY: leaf.key, CA: authority.certificate}
    after = (now + names.life * 2 / 3).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return IssuedLeaf(data, {RENEW_AFTER: after, ISSUED_FOR: _issued_for(authority, names)})


def encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    """Return the data of a Secret."""
    return {key: b64encode(value).decode() for key, value in data.items()}


def _issued_for(authority: CertifiedKey, names: HostNames) -> str:
    return digest([authority.certificate.decode(), *names.dns, names.uri])


class NoIssuer:
    """An `Issuer` without keys: for what is shown and not stored."""

    def authority(self, name: str) -> CertifiedKey:
        """Return an empty authority."""
        return CertifiedKey(name.encode(), b"")

    def leaf(self, authority: CertifiedKey, names: HostNames) -> CertifiedKey:
        """Return an empty certificate."""
        return CertifiedKey(authority.certificate + names.uri.encode(), b"")

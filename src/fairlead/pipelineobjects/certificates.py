"""Which certificates of a Pipeline are issued now, and when again. Pure: an `Issuer` makes keys.

Each Pipeline has an authority of its own, in a Secret that no pod mounts. Each host has a certificate of 24
hours, which is issued again after 16.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from fairlead.compat.times import UTC, parse_iso
from fairlead.keys import ISSUED_FOR, PIPELINE_HOST, RENEW_AFTER
from fairlead.pipelineobjects.names import (
    LOCAL,
    SECRETS,
    SLOTS,
    authority_name,
    digest,
    host_name,
    tls_name,
)
from fairlead.pipelineobjects.resource import PipelineResource
from fairlead.pipelineobjects.wiring import new_object
from fairlead.reconcile import Manifest

AUTHORITY_LIFE: Final = timedelta(days=3650)
LEAF_LIFE: Final = timedelta(hours=24)
TRUST_DOMAIN: Final = "cluster.local"
_RENEW: Final = LEAF_LIFE * 2 / 3
_CERT, _KEY, _CA = "tls.crt", "tls.key", "ca.crt"


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


class Issuer(Protocol):
    """What makes keys and certificates."""

    def authority(self, name: str) -> CertifiedKey:
        """Return a new authority."""
        ...

    def leaf(self, authority: CertifiedKey, names: HostNames) -> CertifiedKey:
        """Return a new certificate of an authority; ValueError where the authority cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class IssuedSecrets:
    """The Secrets of a Pipeline."""

    secrets: tuple[Manifest, ...] = ()
    renew_after: datetime | None = None
    """When the first of them is issued again."""
    renewed: tuple[str, ...] = ()
    """The hosts that had a certificate, and have a new one."""


def issue(
    resource: PipelineResource, observed: Mapping[str, Manifest], issuer: Issuer, now: datetime
) -> IssuedSecrets:
    """Return the Secrets of a Pipeline; what is observed and still good stays. `observed` is by name."""
    groups = [group for group in (resource.local, *resource.used_hosts) if not group.tls_secret]
    if not resource.used_hosts or not groups:
        return IssuedSecrets()
    authority, first = _authority(resource, observed, issuer)
    secrets, ends, renewed = [first], [], []
    for group in groups:
        name = tls_name(resource.name, group.name)
        names = _names(resource, group.name)
        secret = _kept(resource, group.name, observed.get(name), authority, names, now)
        if secret is None:
            secret = _issued(resource, group.name, authority, names, issuer, now)
            renewed += [group.name] if name in observed else []
        secrets.append(secret)
        ends.append(_renew_after(secret))
    return IssuedSecrets(tuple(secrets), min(ends), tuple(renewed))


def _authority(
    resource: PipelineResource, observed: Mapping[str, Manifest], issuer: Issuer
) -> tuple[CertifiedKey, Manifest]:
    name = authority_name(resource.name)
    stored = observed.get(name)
    if stored is not None and {_CERT, _KEY} <= set(stored.get("data") or {}):
        made = CertifiedKey(b64decode(stored["data"][_CERT]), b64decode(stored["data"][_KEY]))
    else:
        made = issuer.authority(f"pipeline {resource.name}")
    return made, _secret(resource, name, {_CERT: made.certificate, _KEY: made.key})


def _names(resource: PipelineResource, host: str) -> HostNames:
    slots = ("",) if host == LOCAL else SLOTS
    names = [host_name(resource.namespace, resource.name, host, slot) for slot in slots]
    path = f"ns/{resource.namespace}/pipeline/{resource.name}/host/{host}"
    dns = tuple(name + end for name in names for end in ("", f".{TRUST_DOMAIN}"))
    return HostNames(host, dns, f"spiffe://{TRUST_DOMAIN}/{path}")


def _kept(
    resource: PipelineResource,
    host: str,
    secret: Manifest | None,
    authority: CertifiedKey,
    names: HostNames,
    now: datetime,
) -> Manifest | None:
    """Return the Secret of a host as it was issued; None: its certificate must be issued.

    What the operator and other clients have written into it since is no part of it.
    """
    if secret is None or not {_CERT, _KEY, _CA} <= set(secret.get("data") or {}):
        return None
    notes = secret["metadata"].get("annotations") or {}
    try:
        is_due = _renew_after(secret) <= now
    except (KeyError, ValueError):
        return None
    if is_due or notes.get(ISSUED_FOR) != _issued_for(authority, names):
        return None
    data = {key: b64decode(secret["data"][key]) for key in (_CERT, _KEY, _CA)}
    return _host_secret(resource, host, data, {key: notes[key] for key in (RENEW_AFTER, ISSUED_FOR)})


def _issued(
    resource: PipelineResource,
    host: str,
    authority: CertifiedKey,
    names: HostNames,
    issuer: Issuer,
    now: datetime,
) -> Manifest:
    leaf = issuer.leaf(authority, names)
    data = {_CERT: leaf.certificate, _KEY: leaf.key, _CA: authority.certificate}
    after = (now + _RENEW).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    notes = {RENEW_AFTER: after, ISSUED_FOR: _issued_for(authority, names)}
    return _host_secret(resource, host, data, notes)


def _host_secret(
    resource: PipelineResource, host: str, data: Mapping[str, bytes], notes: Mapping[str, str]
) -> Manifest:
    secret = _secret(resource, tls_name(resource.name, host), data)
    secret["metadata"]["labels"][PIPELINE_HOST] = host
    secret["metadata"]["annotations"] = dict(notes)
    return secret


def _issued_for(authority: CertifiedKey, names: HostNames) -> str:
    return digest([authority.certificate.decode(), *names.dns, names.uri])


def _renew_after(secret: Manifest) -> datetime:
    return parse_iso(secret["metadata"]["annotations"][RENEW_AFTER])


def _secret(resource: PipelineResource, name: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    texts = {key: b64encode(value).decode() for key, value in data.items()}
    return new_object(SECRETS, resource, name, type="kubernetes.io/tls", data=texts)


class NoIssuer:
    """An `Issuer` without keys: for what is shown and not stored."""

    def authority(self, name: str) -> CertifiedKey:
        """Return an empty authority."""
        return CertifiedKey(name.encode(), b"")

    def leaf(self, authority: CertifiedKey, names: HostNames) -> CertifiedKey:
        """Return an empty certificate."""
        return CertifiedKey(authority.certificate + names.uri.encode(), b"")

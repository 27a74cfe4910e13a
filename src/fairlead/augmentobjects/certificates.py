"""The certificate of a store, by an authority of its own. Pure: an `Issuer` makes keys.

A device pins the fingerprint of the certificate: it lives for years, and another one means new invites.
"""

import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fairlead.augmentobjects.names import authority_name, new_object, service_hosts, store_name, tls_name
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.ownedobjects.certificates import (
    CERT,
    KEY,
    TRUST_DOMAIN,
    HostNames,
    Issuer,
    encoded,
    issue_leaf,
    stored_authority,
    stored_leaf,
)
from fairlead.ownedobjects.kinds import SECRETS
from fairlead.reconcile import Manifest

LIFE: Final = timedelta(days=3 * 365)


@dataclass(frozen=True, slots=True)
class StoreCertificate:
    """The Secrets with the authority and the certificate of a store."""

    secrets: tuple[Manifest, ...]
    authority: bytes
    """In PEM."""
    fingerprint: str
    """Of the certificate: `sha256:` and 64 hexadecimal digits."""
    renew_after: datetime
    is_renewed: bool
    """Whether there was another certificate before."""


def decide_certificate(
    resource: AugmentationResource, observed: Mapping[str, Manifest], issuer: Issuer, now: datetime
) -> StoreCertificate:
    """Return the Secrets; what is observed and still good stays. `observed` is by name."""
    root, mine = authority_name(resource.name), tls_name(resource.name)
    authority = stored_authority(observed.get(root)) or issuer.authority(f"augmentation {resource.name}")
    names = _names(resource)
    known = stored_leaf(observed.get(mine), authority, names, now)
    leaf = known or issue_leaf(issuer, authority, names, now)
    secret = _secret(resource, mine, leaf.data)
    secret["metadata"]["annotations"] = dict(leaf.notes)
    made = (_secret(resource, root, {CERT: authority.certificate, KEY: authority.key}), secret)
    is_renewed = known is None and mine in observed
    return StoreCertificate(
        made, authority.certificate, fingerprint(leaf.data[CERT]), leaf.renew_after, is_renewed
    )


def fingerprint(certificate: bytes) -> str:
    """Return the fingerprint of a certificate in PEM; empty: it is none."""
    try:
        binary = ssl.PEM_cert_to_DER_cert(certificate.decode())
    except ValueError:
        return ""
    return f"sha256:{hashlib.sha256(binary).hexdigest()}"


def _names(resource: AugmentationResource) -> HostNames:
    hosts = (*service_hosts(resource.namespace, resource.name), *resource.exposure.hosts)
    path = f"ns/{resource.namespace}/augmentation/{resource.name}"
    return HostNames(store_name(resource.name), hosts, f"spiffe://{TRUST_DOMAIN}/{path}", LIFE)


def _secret(resource: AugmentationResource, name: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    kind = {"type": "kubernetes.io/tls", "data": encoded(data)}
    return new_object(SECRETS, resource.namespace, resource.name, name, **kind)

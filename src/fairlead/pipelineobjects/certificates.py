"""Which certificates of a Pipeline are issued now, and when again. Pure: an `Issuer` makes keys.

Each Pipeline has an authority of its own, in a Secret that no pod mounts. Each host has a certificate of 24
hours, which is issued again after 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairlead.keys import PIPELINE_HOST
from fairlead.ownedobjects.certificates import (
    CERT,
    KEY,
    TRUST_DOMAIN,
    HostNames,
    IssuedLeaf,
    Issuer,
    encoded,
    issue_leaf,
    stored_authority,
    stored_leaf,
)
from fairlead.ownedobjects.kinds import SECRETS
from fairlead.pipelineobjects.names import LOCAL, SLOTS, authority_name, host_name, tls_name
from fairlead.pipelineobjects.resource import PipelineResource
from fairlead.pipelineobjects.wiring import new_object
from fairlead.reconcile import Manifest


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
    name = authority_name(resource.name)
    authority = stored_authority(observed.get(name)) or issuer.authority(f"pipeline {resource.name}")
    secrets: list[Manifest] = [_secret(resource, name, {CERT: authority.certificate, KEY: authority.key})]
    ends, renewed = [], []
    for group in groups:
        name = tls_name(resource.name, group.name)
        names = _names(resource, group.name)
        leaf = stored_leaf(observed.get(name), authority, names, now)
        if leaf is None:
            leaf = issue_leaf(issuer, authority, names, now)
            renewed += [group.name] if name in observed else []
        secrets.append(_host_secret(resource, group.name, leaf))
        ends.append(leaf.renew_after)
    return IssuedSecrets(tuple(secrets), min(ends), tuple(renewed))


def _names(resource: PipelineResource, host: str) -> HostNames:
    slots = ("",) if host == LOCAL else SLOTS
    names = [host_name(resource.namespace, resource.name, host, slot) for slot in slots]
    path = f"ns/{resource.namespace}/pipeline/{resource.name}/host/{host}"
    dns = tuple(name + end for name in names for end in ("", f".{TRUST_DOMAIN}"))
    return HostNames(host, dns, f"spiffe://{TRUST_DOMAIN}/{path}")


def _host_secret(resource: PipelineResource, host: str, leaf: IssuedLeaf) -> Manifest:
    secret = _secret(resource, tls_name(resource.name, host), leaf.data)
    secret["metadata"]["labels"][PIPELINE_HOST] = host
    secret["metadata"]["annotations"] = dict(leaf.notes)
    return secret


def _secret(resource: PipelineResource, name: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    return new_object(SECRETS, resource, name, type="kubernetes.io/tls", data=encoded(data))

"""What an invite to an augmentation of a cluster is made of: its status, and its Secret."""

import argparse
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from fairlead.cli.augment import cluster
from fairlead.cli.shell.resources import ResourceAccess
from fairlead.errors import AugmentationError


@dataclass(frozen=True, slots=True)
class InvitedSession:
    """Where a device joins, and by whose key."""

    url: str
    key: bytes
    fingerprint: str
    device: str


def read_session(options: argparse.Namespace) -> InvitedSession:
    """Return what the augmentation of the options says; AugmentationError where it is not ready for that."""

    async def work(access: ResourceAccess) -> tuple[dict[str, Any], dict[str, Any]]:
        from fairlead.augmentobjects.names import credentials_name
        from fairlead.cluster.kinds import Kind

        found = await access.read()
        secrets = Kind.of("", "v1", "secrets", namespaced=True, name="Secret").raw()
        if not (found.get("status") or {}).get("url"):
            return found, {}
        secret = await access.client.get(secrets, credentials_name(access.name), access.namespace)
        return found, secret.document()

    found, secret = cluster.with_augmentation(options, work)
    status = found.get("status") or {}
    if not secret:
        name = found["metadata"]["name"]
        raise AugmentationError(
            f"augmentation {name} has no address yet: {cluster.summary(found)}",
            f"fairlead augment show {name} says how it is doing",
        )
    from fairlead.augmentobjects.credentials import INVITE_KEY
    from fairlead.invite import parse_key

    key = parse_key(b64decode(secret["data"][INVITE_KEY]))
    return InvitedSession(status["url"], key, status["fingerprint"], found["spec"]["device"])

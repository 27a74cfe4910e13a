"""What an invite to an augmentation of a cluster is made of: its status, and its Secret."""

import argparse
from base64 import b64decode
from dataclasses import dataclass

from fairlead.cli.augment.session import stored_session


@dataclass(frozen=True, slots=True)
class InvitedSession:
    """Where a device joins, and by whose key."""

    url: str
    key: bytes
    fingerprint: str
    device: str


def read_session(options: argparse.Namespace) -> InvitedSession:
    """Return what the augmentation of the options says; AugmentationError where it is not ready for that."""
    from fairlead.augmentobjects.credentials import INVITE_KEY
    from fairlead.invite import parse_key

    found, secret = stored_session(options, options.name)
    status, key = found["status"], parse_key(b64decode(secret["data"][INVITE_KEY]))
    return InvitedSession(status["url"], key, status["fingerprint"], found["spec"]["device"])

"""The Secret of an Augmentation: the token of its store, and the key by which invites are made. Pure.

A token that is replaced stays valid for a while, so that whoever uses it can be given the new one.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fairlead.augmentobjects.names import credentials_name, new_object
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.compat.times import UTC, parse_iso
from fairlead.keys import PREVIOUS_UNTIL, ROTATION
from fairlead.ownedobjects.certificates import encoded
from fairlead.ownedobjects.kinds import SECRETS
from fairlead.reconcile import Manifest

TOKEN: Final = "token"  # noqa: S105 - the name of the key
INVITE_KEY: Final = "invite-key"
GRACE: Final = timedelta(minutes=10)
"""How long the token before the present one stays valid."""


@dataclass(frozen=True, slots=True)
class StoreCredentials:
    """What the Secret holds."""

    token: str
    invite_key: str
    rotation: int
    previous: str = ""
    """The token before; empty: it is no longer valid."""
    previous_until: datetime | None = None
    is_rotated: bool = False
    """Whether the token has just been replaced."""

    def secret(self, resource: AugmentationResource) -> dict[str, Any]:
        """Return the Secret."""
        tokens = "".join(f"{each}\n" for each in (self.token, self.previous) if each)
        data = {TOKEN: tokens.encode(), INVITE_KEY: f"{self.invite_key}\n".encode()}
        name = credentials_name(resource.name)
        secret = new_object(SECRETS, resource.namespace, resource.name, name, data=encoded(data))
        notes = {ROTATION: str(self.rotation)}
        if self.previous_until is not None:
            notes[PREVIOUS_UNTIL] = self.previous_until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        secret["metadata"]["annotations"] = notes
        return {**secret, "type": "Opaque"}


def decide_credentials(
    resource: AugmentationResource, secret: Manifest | None, new_secret: Callable[[], str], now: datetime
) -> StoreCredentials:
    """Return the credentials: as they are stored, or with another token where one is asked for."""
    stored = _stored(secret)
    if stored is None:
        return StoreCredentials(new_secret(), new_secret(), resource.rotation)
    if stored.rotation != resource.rotation:
        until = (now + GRACE).replace(microsecond=0)
        return StoreCredentials(
            new_secret(), stored.invite_key, resource.rotation, stored.token, until, is_rotated=True
        )
    if stored.previous_until is not None and stored.previous_until <= now:
        return StoreCredentials(stored.token, stored.invite_key, stored.rotation)
    return stored


def _stored(secret: Manifest | None) -> StoreCredentials | None:
    """Return what a Secret holds; None where it cannot be read, and must be made again."""
    if secret is None:
        return None
    notes = secret["metadata"].get("annotations") or {}
    try:
        tokens = b64decode(secret["data"][TOKEN]).decode().split()
        key = b64decode(secret["data"][INVITE_KEY]).decode().strip()
        until = parse_iso(notes[PREVIOUS_UNTIL]) if PREVIOUS_UNTIL in notes else None
        rotation = int(notes[ROTATION])
    except (KeyError, TypeError, ValueError, Base64Error):
        return None
    if not tokens or not key:
        return None
    return StoreCredentials(tokens[0], key, rotation, tokens[1] if until and len(tokens) > 1 else "", until)

"""Invites and admin tokens of a session: signed with the session's key, checked without a list of them.

An invite is `fli1.ID.EXPIRY.SIGNATURE`, an admin token `fla1.EXPIRY.SIGNATURE`; EXPIRY is seconds since 1970,
SIGNATURE the unpadded base64url HMAC-SHA256 of all that stands before its dot. That an invite is used once is
remembered by the store that accepts it.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

INVITE_LIFE: Final = 24 * 3600
"""Seconds for which an invite is valid, unless its maker says otherwise."""
ADMIN_LIFE: Final = 300
"""Seconds for which an admin token is valid: its holder makes one for each visit."""
_INVITE: Final = "fli1"
_ADMIN: Final = "fla1"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EXPIRY: Final = re.compile(r"[1-9][0-9]{0,11}")
_LONGEST: Final = 256
"""Characters: a longer text is none of ours, and is not hashed."""
_SHORTEST_KEY: Final = 16
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Invite:
    """What a valid invite says."""

    id: str
    expires: int
    """Seconds since 1970."""

    @property
    def device(self) -> str:
        """The name of the device that may join with it; empty: any."""
        return self.id.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Why a token is not accepted, as one line for its holder."""

    reason: str


_NONE: Final = TokenRefusal("this is no invite: an invite begins with fli1.")


def new_key() -> str:
    """Return a fresh key of a session, as the text of its file."""
    return secrets.token_hex(32)


def parse_key(text: str | bytes) -> bytes:
    """Return the key that a file holds; ValueError where it is too short to protect anything."""
    key = (text.encode() if isinstance(text, str) else text).strip()
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"a key has at least {_SHORTEST_KEY} characters, this one has {len(key)}")
    return key


def mint_invite(
    key: bytes, expires: float, device: str = "", new_id: Callable[[], str] = lambda: secrets.token_hex(8)
) -> str:
    """Return an invite that is valid until then, for the device of this name; its id begins with the name."""
    name = f"{device}-{new_id()}" if device else new_id()
    if not _ID.fullmatch(name):
        raise ValueError(f"{name[:80]!r} cannot be in an invite: letters, digits, - and _ can, 64 at most")
    return _sign(key, f"{_INVITE}.{name}.{int(expires)}")


def read_invite(text: str) -> Invite | TokenRefusal:
    """Return what an invite says, without a key: for its bearer, who cannot check it."""
    words = text.strip().split(".") if len(text) <= _LONGEST else []
    if (
        len(words) != 4
        or words[0] != _INVITE
        or not (_ID.fullmatch(words[1]) and _EXPIRY.fullmatch(words[2]))
    ):
        return _NONE
    return Invite(words[1], int(words[2]))


def verify_invite(key: bytes, text: str, now: float) -> Invite | TokenRefusal:
    """Return what an invite says, or why it is none."""
    invite = read_invite(text)
    if isinstance(invite, TokenRefusal):
        return invite
    return _refusal(key, text.strip().split("."), now, "invite") or invite


def mint_admin(key: bytes, expires: float) -> str:
    """Return an admin token that is valid until then."""
    return _sign(key, f"{_ADMIN}.{int(expires)}")


def verify_admin(key: bytes, text: str, now: float) -> TokenRefusal | None:
    """Return why an admin token is none; None: it is one."""
    words = text.strip().split(".") if len(text) <= _LONGEST else []
    if len(words) != 3 or words[0] != _ADMIN:
        return TokenRefusal("this is no admin token: an admin token begins with fla1.")
    return _refusal(key, words, now, "admin token")


def _sign(key: bytes, body: str) -> str:
    digest = hmac.new(key, body.encode(), hashlib.sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _refusal(key: bytes, words: list[str], now: float, what: str) -> TokenRefusal | None:
    signed = _sign(key, ".".join(words[:-1]))
    if not hmac.compare_digest(signed.encode(), ".".join(words).encode("utf-8", "replace")):
        return TokenRefusal(f"the {what} is not signed with the key of this session")
    if int(words[-2]) <= now:  # it is a number: the key's holder signed it
        return TokenRefusal(f"the {what} has expired")
    return None

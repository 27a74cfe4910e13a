"""Who may use the store: secrets of requests, and what accepts them."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.errors import SettingsError
from fairlead.serve.web.reloaded import ReloadedFiles, error_text

_LIMIT: Final = 64 << 10
"""Bytes of a token file."""


@dataclass(frozen=True, slots=True)
class CredentialHolder:
    """Who holds a credential; locks and rates are counted for a holder."""

    name: str


class Credentials(Protocol):
    """Accepts secrets."""

    def accepts(self, secret: str) -> CredentialHolder | None:
        """Return the holder of a secret; None where it is no credential."""


class TokenFile:
    """The tokens of a file, one a line, read again when it changes; only their digests are kept.

    Several lines are several valid tokens: the current and the previous one while a token is rotated.
    """

    def __init__(self, path: str, say: Callable[[str], None]) -> None:
        try:
            self._digests = ReloadedFiles((path,), lambda: _read(path), say)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"the token file {path} cannot be used: {error_text(error)}",
                "write one token a line: `openssl rand -hex 32 > FILE`",
            ) from None

    def accepts(self, secret: str) -> CredentialHolder | None:
        """Return the holder of a token of the file."""
        digest = _digest(secret)
        # Every line is compared, each in constant time.
        matches = [hmac.compare_digest(digest, each) for each in self._digests.current()]
        return CredentialHolder("token") if any(matches) else None


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Accepts what one of several accepts."""

    sources: Sequence[Credentials]

    def accepts(self, secret: str) -> CredentialHolder | None:
        """Return the holder that the first of the sources names."""
        return next((holder for each in self.sources if (holder := each.accepts(secret))), None)


def secret_of(header: str) -> str:
    """Return the secret of an Authorization header: a bearer token, or a password; else empty."""
    scheme, _, value = header.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _read(path: str) -> tuple[bytes, ...]:
    with open(path, encoding="utf-8") as file:
        text = file.read(_LIMIT + 1)
    if len(text) > _LIMIT:
        raise ValueError("it is too long")
    tokens = [line for line in text.splitlines() if line.strip()]
    if not tokens:
        raise ValueError("it holds no token")
    return tuple(_digest(token) for token in tokens)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()

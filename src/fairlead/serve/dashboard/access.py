"""Who asks: the viewer of a bearer token."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fairlead.dashboard.viewer import Viewer

TOKEN_LIMIT: Final = 16 * 1024
"""The most bytes of a token: those of an identity provider may have several kilobytes."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why the owner of a token is not known."""

    reason: str


Access = Callable[[str], Awaitable["Viewer | Unavailable | None"]]
"""Returns the viewer of a token; None: the token is not valid."""


class OneToken:
    """Access by one token, for one person who may see everything."""

    def __init__(self, token: str, viewer: Viewer) -> None:
        self._token = token.encode()
        self._viewer = viewer

    async def __call__(self, token: str) -> Viewer | None:
        """Return the viewer; None: it is another token."""
        return self._viewer if hmac.compare_digest(token.encode(), self._token) else None


def bearer(authorization: list[str]) -> str:
    """Return the token of the values of the header Authorization; empty: there is not exactly one."""
    if len(authorization) != 1:
        return ""
    scheme, _, token = authorization[0].strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or len(token) > TOKEN_LIMIT or " " in token:
        return ""
    return token

"""Token authentication of the agent's pages; probes need no token."""

import hmac
from collections.abc import Callable
from typing import Final

from fairlead.serve.web.reloaded import ReloadedFiles, error_text

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""Paths of a kubelet's probes: it has no token, and their answer is only yes or no."""
_TOKEN_LIMIT: Final = 4096


class TokenGuard:
    """Checks the bearer token against the current content of a file; without a token it refuses all."""

    def __init__(self, path: str, say: Callable[[str], None]) -> None:
        self._token = ReloadedFiles((path,), lambda: _read(path, say), say)

    def __call__(self, path: str, head: bytes) -> bool:
        """Say whether a request is allowed."""
        if path in OPEN:
            return True
        token = self._token.current()
        # Compared even where there is no token, and in constant time.
        return hmac.compare_digest(bearer_token(head), token) and bool(token)


def bearer_token(head: bytes) -> bytes:
    """Return the bearer token of a request's head; empty where it has none, or two."""
    values = []
    for line in head.split(b"\n")[1:]:
        if not line.strip():
            break  # the head ends here: what follows is the body
        name, _, value = line.partition(b":")
        if name.lower() == b"authorization":
            values.append(value.split())
    if len(values) != 1 or len(values[0]) != 2:
        return b""
    scheme, token = values[0]
    return token if scheme.lower() == b"bearer" else b""


def _read(path: str, say: Callable[[str], None]) -> bytes:
    """Return the file's token; empty, with a log line, where it has no valid one."""
    try:
        with open(path, "rb") as file:
            token = file.read(_TOKEN_LIMIT + 1).strip()
    except OSError as error:
        return _no_token(path, f"cannot be read ({error_text(error)})", say)
    if len(token.split()) != 1:
        return _no_token(path, "holds more than one word" if token else "is empty", say)
    return token if len(token) <= _TOKEN_LIMIT else _no_token(path, "is too long", say)


def _no_token(path: str, why: str, say: Callable[[str], None]) -> bytes:
    say(f"the token file {path} {why}: all requests except probes are refused until it holds a token")
    return b""

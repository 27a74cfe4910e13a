"""Who may see the agent's pages: whoever shows the token, where there is one; probes show nothing."""

import hmac
from collections.abc import Callable
from typing import Final

from fairlead.serve.web.reloaded import ReloadedFiles, error_text

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""What a kubelet asks for: it has no token, and learns nothing but yes or no."""
_TOKEN_LIMIT: Final = 4096


class TokenGuard:
    """Knows the token of the moment; without one it lets nobody in."""

    def __init__(self, path: str, say: Callable[[str], None]) -> None:
        self._token = ReloadedFiles((path,), lambda: _read(path, say), say)

    def __call__(self, path: str, head: bytes) -> bool:
        """Say whether a request for a page may be answered."""
        if path in OPEN:
            return True
        token = self._token.current()
        # Compared even where there is none, and in a time that does not tell how much of it was right.
        return hmac.compare_digest(bearer_token(head), token) and bool(token)


def bearer_token(head: bytes) -> bytes:
    """Return the token that a request's head shows; nothing where it shows none, or two."""
    found = []
    for line in head.split(b"\n")[1:]:
        if not line.strip():
            break  # the head ends here: what follows is the client's text
        name, _, value = line.partition(b":")
        if name.lower() == b"authorization":
            found.append(value.split())
    if len(found) != 1 or len(found[0]) != 2:
        return b""
    scheme, token = found[0]
    return token if scheme.lower() == b"bearer" else b""


def _read(path: str, say: Callable[[str], None]) -> bytes:
    """Return the file's token; what is none is said, and is nobody's."""
    try:
        with open(path, "rb") as file:
            token = file.read(_TOKEN_LIMIT + 1).strip()
    except OSError as error:
        return _nobody(path, f"cannot be read ({error_text(error)})", say)
    if len(token.split()) != 1:
        return _nobody(path, "holds more than one word" if token else "is empty", say)
    return token if len(token) <= _TOKEN_LIMIT else _nobody(path, "is too long", say)


def _nobody(path: str, why: str, say: Callable[[str], None]) -> bytes:
    say(f"the token file {path} {why}: every request but a probe's is refused until it holds a token")
    return b""

"""One request to the API server, and the headers that every request carries. Pure."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from fairlead import __version__
from fairlead.cluster.config.types import Impersonation


class HttpRequest(Struct, frozen=True):
    """One request to the server; a Struct, because every bind makes one."""

    method: str
    path: str
    """Already quoted."""
    query: Mapping[str, str | None] = {}
    body: bytes | None = None
    content_type: str = "application/json"
    live: bool = False
    """The response is a stream that the server extends as events happen."""

    @property
    def target(self) -> str:
        """The path, with the query parameters that have a value."""
        if not self.query:
            return self.path
        pairs = [f"{key}={quote(value, safe='')}" for key, value in self.query.items() if value is not None]
        return f"{self.path}?{'&'.join(pairs)}" if pairs else self.path


def headers(impersonation: Impersonation | None, *, gzip: bool) -> list[tuple[str, str]]:
    """Return the headers of every request: the accepted encodings, and the user to impersonate."""
    pairs = [
        ("Accept", "application/json"),
        ("Accept-Encoding", "gzip" if gzip else "identity"),
        ("User-Agent", f"fairlead/{__version__}"),
    ]
    if impersonation:
        pairs.append(("Impersonate-User", impersonation.user))
        pairs += [("Impersonate-Uid", impersonation.uid)] if impersonation.uid else []
        pairs += [("Impersonate-Group", group) for group in impersonation.groups]
        pairs += [
            (f"Impersonate-Extra-{quote(name, safe='')}", value)
            for name, values in impersonation.extra.items()
            for value in values
        ]
    return pairs

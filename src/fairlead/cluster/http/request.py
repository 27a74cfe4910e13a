"""One question to the server, and what every question carries, whatever carries it there. Pure."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from fairlead import __version__
from fairlead.cluster.config.types import Impersonation


class HttpRequest(Struct, frozen=True):
    """One question to the server; a Struct, because there is one for each bind."""

    method: str
    path: str
    """Already quoted."""
    query: Mapping[str, str | None] = {}
    body: bytes | None = None
    content_type: str = "application/json"
    live: bool = False
    """The answer goes on as things happen."""

    @property
    def target(self) -> str:
        """The path with the query that has values."""
        if not self.query:
            return self.path
        pairs = [f"{key}={quote(value, safe='')}" for key, value in self.query.items() if value is not None]
        return f"{self.path}?{'&'.join(pairs)}" if pairs else self.path


def headers(who: Impersonation | None, *, gzip: bool) -> list[tuple[str, str]]:
    """Return what is sent with every question: what we can read, and whom we act as."""
    found = [
        ("Accept", "application/json"),
        ("Accept-Encoding", "gzip" if gzip else "identity"),
        ("User-Agent", f"fairlead/{__version__}"),
    ]
    if who:
        found.append(("Impersonate-User", who.user))
        found += [("Impersonate-Uid", who.uid)] if who.uid else []
        found += [("Impersonate-Group", group) for group in who.groups]
        found += [
            (f"Impersonate-Extra-{quote(name, safe='')}", value)
            for name, values in who.extra.items()
            for value in values
        ]
    return found

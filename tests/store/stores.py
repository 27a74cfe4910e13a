"""Stores to test: a folder that is served in this process, and requests to it."""

import base64
import http.client
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairlead.settings import Address
from fairlead.store.program import serving
from fairlead.store.settings import StoreFiles, StoreSettings

TOKEN = "correct horse battery staple"


@dataclass
class Answer:
    """An answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Store:
    """A store that runs."""

    url: str
    root: Path
    said: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return urlsplit(self.url).port or 0

    def ask(self, method: str, path: str, body: Any = None, token: str = TOKEN, **headers: str) -> Answer:
        """Send a request; `If_Match=...` is the header If-Match."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            if token:
                fields["Authorization"] = f"Bearer {token}"
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        """Yield a plain connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            yield client

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """Return the bytes of a request's head."""
        secret = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
        fixed = (f"{method} {path} HTTP/1.1", "Host: store", f"Authorization: Basic {secret}")
        return "\r\n".join((*fixed, *lines, "", "")).encode()

    def files(self) -> dict[str, bytes]:
        """Return the files of the store as another pod sees them."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".fairlead" not in path.parts
        }

    def staged(self) -> list[str]:
        """Return what is being uploaded."""
        return os.listdir(self.root / ".fairlead" / "staging")


@contextmanager
def store(folder: Path, files: StoreFiles = StoreFiles(), **settings: Any) -> Iterator[Store]:  # noqa: B008  # frozen
    """Yield a store of the folder `root` in this one."""
    root, token = folder / "root", folder / "token"
    root.mkdir(exist_ok=True)
    if not token.exists():
        token.write_text(f"{TOKEN}\n")
    said: list[str] = []
    made = StoreSettings(str(root), Address("127.0.0.1", 0), str(token), files=files, **settings)
    with serving(made, said.append) as url:
        yield Store(url, root, said)


def received_of(client: socket.socket) -> bytes:
    """Return received bytes; none at the end or after a reset."""
    try:
        return client.recv(1 << 20)
    except ConnectionError:
        return b""

"""A synchronous client of the lab's API server, for tests that go step by step, with plain documents."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import ConflictError, NotFoundError

Document = dict[str, Any]
T = TypeVar("T")

CORE = "/api/v1"
CLAIMS = "/apis/resource.k8s.io/v1"
PATIENCE = 300.0
"""Seconds to wait for changes that take one or two on an idle machine."""
_POLL = 0.1


class Api:
    """A connection that waits for each response; for one thread only."""

    def __init__(self, config: ClusterConfig) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._client = self._runner.run(self._stack.enter_async_context(Client.connect(config)))

    def close(self) -> None:
        """Close the connection."""
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def request(self, method: str, path: str, body: Document | None = None) -> Document:
        """Send a request and return the response."""
        return self._runner.run(self._request(method, path, body))

    def patch(self, path: str, body: Document) -> Document:
        """Change some fields of an object; None removes a field."""
        sent = self._client.request(
            "PATCH", path, body=json.dumps(body).encode(), content_type="application/merge-patch+json"
        )
        patched: Document = json.loads(self._runner.run(sent))
        return patched

    def get(self, path: str) -> Document | None:
        """Return an object; None if it does not exist."""
        try:
            return self.request("GET", path)
        except NotFoundError:
            return None

    def items(self, path: str) -> list[Document]:
        """Return all objects of a kind, in a namespace or in the cluster."""
        return list(self.request("GET", path)["items"])

    def create(self, path: str, bodies: Iterable[Document]) -> list[Document]:
        """Create many objects concurrently."""

        async def all_of_them() -> list[Document]:
            return await asyncio.gather(*(self._request("POST", path, body) for body in bodies))

        return self._runner.run(all_of_them())

    def delete(self, paths: Iterable[str], grace: int = 0) -> None:
        """Delete many objects concurrently; missing ones are ignored."""
        options = {"gracePeriodSeconds": grace, "propagationPolicy": "Background"}

        async def one(path: str) -> None:
            try:
                await self._request("DELETE", path, options)
            except (NotFoundError, ConflictError):
                return

        async def all_of_them() -> None:
            await asyncio.gather(*(one(path) for path in paths))

        self._runner.run(all_of_them())

    def text(self, path: str) -> str:
        """Return a response that is not a document, such as a log."""
        return self._runner.run(self._client.request("GET", path)).decode(errors="replace")

    async def _request(self, method: str, path: str, body: Document | None) -> Document:
        sent = None if body is None else json.dumps(body).encode()
        resource, _, parameters = path.partition("?")
        query = dict(part.split("=", 1) for part in parameters.split("&") if part)
        document: Document = json.loads(await self._client.request(method, resource, query=query, body=sent))
        return document


def wait_for(
    what: str, look: Callable[[], T | None], explain: Callable[[], object] = str, patience: float = PATIENCE
) -> T:
    """Poll until `look` returns a true value and return it; on timeout fail with `explain`."""
    until = time.monotonic() + patience
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > until:
            raise AssertionError(f"timed out waiting for {what}\n{explain()}")
        time.sleep(_POLL)

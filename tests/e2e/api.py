"""The lab's API server for tests that go step by step: one question, one answer, as plain documents."""

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
PATIENCE = 90.0
"""Seconds for what takes one or two on an idle machine."""
_POLL = 0.1


class Api:
    """A connection that waits for each answer; for one thread only."""

    def __init__(self, config: ClusterConfig) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._client = self._runner.run(self._stack.enter_async_context(Client.connect(config)))

    def close(self) -> None:
        """Hang up."""
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def ask(self, method: str, path: str, body: Document | None = None) -> Document:
        """Ask once."""
        return self._runner.run(self._ask(method, path, body))

    def patch(self, path: str, body: Document) -> Document:
        """Change some fields of an object; what is None goes."""
        sent = self._client.request(
            "PATCH", path, body=json.dumps(body).encode(), content_type="application/merge-patch+json"
        )
        answer: Document = json.loads(self._runner.run(sent))
        return answer

    def get(self, path: str) -> Document | None:
        """Return an object; None where there is none."""
        try:
            return self.ask("GET", path)
        except NotFoundError:
            return None

    def items(self, path: str) -> list[Document]:
        """Return all objects of a kind, in a namespace or everywhere."""
        return list(self.ask("GET", path)["items"])

    def create(self, path: str, bodies: Iterable[Document]) -> list[Document]:
        """Make many objects at once."""

        async def all_of_them() -> list[Document]:
            return await asyncio.gather(*(self._ask("POST", path, body) for body in bodies))

        return self._runner.run(all_of_them())

    def delete(self, paths: Iterable[str], grace: int = 0) -> None:
        """Delete many objects at once; those that are gone already are well."""
        options = {"gracePeriodSeconds": grace, "propagationPolicy": "Background"}

        async def one(path: str) -> None:
            try:
                await self._ask("DELETE", path, options)
            except (NotFoundError, ConflictError):
                return

        async def all_of_them() -> None:
            await asyncio.gather(*(one(path) for path in paths))

        self._runner.run(all_of_them())

    def text(self, path: str) -> str:
        """Return what is no document, such as a log."""
        return self._runner.run(self._client.request("GET", path)).decode(errors="replace")

    async def _ask(self, method: str, path: str, body: Document | None) -> Document:
        sent = None if body is None else json.dumps(body).encode()
        place, _, asked = path.partition("?")
        query = dict(part.split("=", 1) for part in asked.split("&") if part)
        answer: Document = json.loads(await self._client.request(method, place, query=query, body=sent))
        return answer


def wait_for(
    what: str, look: Callable[[], T | None], explain: Callable[[], object] = str, patience: float = PATIENCE
) -> T:
    """Look until there is something to see and return it; the test fails, explained, where that never is."""
    until = time.monotonic() + patience
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > until:
            raise AssertionError(f"waited in vain for {what}\n{explain()}")
        time.sleep(_POLL)

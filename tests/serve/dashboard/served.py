"""A dashboard's server on loopback, in a thread, and a client of the standard library."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fairlead.dashboard.source import DashboardSource
from fairlead.dashboard.viewer import Viewer
from fairlead.serve.dashboard.access import Access, OneToken
from fairlead.serve.dashboard.app import Dashboard, Limits
from fairlead.serve.dashboard.program import ServeOptions, serve
from fairlead.settings import Address

TOKEN = "a-token-of-some-length"


@dataclass
class Answered:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A server."""

    port: int
    dashboard: Dashboard
    loop: asyncio.AbstractEventLoop

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def get(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answered:
        """Send a request; headers are named with underscores. `token=` replaces the token."""
        token = headers.pop("token", TOKEN)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named.setdefault("Authorization", f"Bearer {token}")
        connection = self.connect()
        try:
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def do(self, call: Any, *arguments: Any) -> None:
        """Call a function in the server's loop, and wait until it is done."""
        done = threading.Event()

        def run() -> None:
            call(*arguments)
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(20)


@contextmanager
def served(
    source: DashboardSource, access: Access | None = None, limits: Limits | None = None, port: int = 0
) -> Iterator[Served]:
    """Serve a source as long as the context lasts, on any port or on this one."""
    loop = asyncio.new_event_loop()
    stop, started = asyncio.Event(), threading.Event()
    found: list[Any] = []

    def on_start(address: str) -> None:
        found.append(address)
        started.set()

    async def program() -> None:
        dashboard = Dashboard(source, access or OneToken(TOKEN, Viewer("ann")), limits or Limits())
        found.append(dashboard)
        await serve(dashboard, ServeOptions(Address("127.0.0.1", port)), on_start, stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(program()), daemon=True)
    thread.start()
    assert started.wait(20)
    port = int(found[1].rstrip("/").rpartition(":")[2])
    try:
        yield Served(port, found[0], loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive(), "the server ends within its time"
        loop.close()


class Events:
    """A reader of a stream."""

    def __init__(self, server: Served, query: str = "", last: str = "", token: str = TOKEN) -> None:
        self.connection = server.connect()
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
        if last:
            headers["Last-Event-ID"] = last
        self.connection.request("GET", f"/api/v1/events{query}", headers=headers)
        self.answer = self.connection.getresponse()

    def next(self) -> tuple[str, str, Any]:
        """Return the next event: its name, its id and its data."""
        name = number = data = ""
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and name:
                return name, number, json.loads(data)

    def close(self) -> None:
        self.connection.close()

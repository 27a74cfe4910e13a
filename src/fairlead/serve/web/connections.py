"""A server's connections: bounded in number, and each step that a client takes bounded in time.

A client takes four steps: it agrees on TLS, sends a request's head, sends the body, takes the answer. What it
does not finish in time is cut off. Where all connections are in use, a new one takes the place of one that
waits for its client.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from aiohttp import web

_PARTING: Final = 1.0
"""Seconds for the client's own goodbye under TLS."""
_NO_ROOM: Final = 0.1
"""Seconds before the next accept where the process has no descriptor left."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What clients may use, all together and each of them."""

    connections: int = 256
    """Open at once: kube-scheduler keeps a handful."""
    handshake: float = 10.0
    """Seconds for TLS."""
    head: float = 10.0
    """Seconds for a request's head: from the opening, and later from its first byte."""
    body: float = 10.0
    """Seconds for a request's body."""
    answer: float = 10.0
    """Seconds in which an answer must be taken."""
    idle: float = 120.0
    """Seconds between two requests: kube-scheduler closes an idle connection after 90, and a request that
    meets a closed one would fail."""
    bodies: int = 32 << 20
    """Bytes of all bodies that are received or judged."""


class ConnectionState(Enum):
    """What a connection waits for."""

    HANDSHAKE = auto()
    HEAD = auto()
    BODY = auto()
    WORK = auto()
    """The server's own answer: such a connection is never closed to make room."""
    ANSWER = auto()
    """The client takes the answer."""
    IDLE = auto()


_YIELDING: Final = frozenset(
    {ConnectionState.HANDSHAKE, ConnectionState.HEAD, ConnectionState.BODY, ConnectionState.IDLE}
)
"""Steps in which a connection makes room for a new one."""


class Connection:
    """One client's connection, the step it is in, and what cuts it off."""

    def __init__(
        self, sock: socket.socket, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._sock = sock
        self._limits = limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.step = ConnectionState.HANDSHAKE
        self.since = loop.time()
        self.served = 0
        """Requests that were answered on it."""

    def on_transport(self, transport: asyncio.Transport) -> None:
        """Begin with what carries the requests: TLS is agreed upon."""
        self._transport = transport
        self._enter(ConnectionState.HEAD, self._limits.head)

    def on_data(self) -> None:
        """Note that bytes came; those after a pause begin the next head."""
        if self.step is ConnectionState.IDLE:
            self._enter(ConnectionState.HEAD, self._limits.head)

    def receive(self) -> None:
        """Begin with a body; whoever reads it bounds its time."""
        self._enter(ConnectionState.BODY)

    def work(self) -> None:
        """Begin with the answer: nothing is expected of the client."""
        self._enter(ConnectionState.WORK)

    def send(self) -> None:
        """Begin to send the answer."""
        self._enter(ConnectionState.ANSWER, self._limits.answer)

    def rest(self) -> None:
        """Wait for the next request; aiohttp closes what is idle for too long."""
        self.served += 1
        self._enter(ConnectionState.IDLE)

    def abort(self) -> None:
        """Close it at once, whatever was not sent yet."""
        self.end()
        if self._transport is not None:
            self._transport.abort()
        else:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self, step: ConnectionState, limit: float | None = None) -> None:
        self.end()
        self.step, self.since = step, self._loop.time()
        if limit is not None:
            self._timer = self._loop.call_later(limit, self.abort)


class _Handler(web.RequestHandler):
    """aiohttp's handler of a connection; it also reports the steps of its client."""

    def __init__(
        self, connection: Connection, gone: Callable[[Connection], None], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.connection = connection
        self._gone = gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP has a transport that reads and writes"
        self.connection.on_transport(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.connection.on_data()
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._gone(self.connection)
        super().connection_lost(exc)

    async def finish_response(self, *args: Any, **kwargs: Any) -> Any:
        self.connection.send()
        sent = await super().finish_response(*args, **kwargs)
        self.connection.rest()
        return sent


def connection_of(request: web.BaseRequest) -> Connection:
    """Return the connection that a request came over."""
    handler = request.protocol
    assert isinstance(handler, _Handler), "every connection is opened here"
    return handler.connection


class ConnectionPool:
    """All connections of one server."""

    def __init__(
        self,
        server: web.Server,
        options: Mapping[str, Any],
        tls: ssl.SSLContext | None,
        limits: ConnectionLimits,
    ) -> None:
        self._server = server
        self._options = options
        """What aiohttp's handler of a connection takes."""
        self._tls = tls
        self._limits = limits
        self._open: dict[Connection, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def accepting(self, listener: socket.socket) -> AsyncIterator[None]:
        """Accept connections as long as the context lasts; those that are open then stay so."""
        listener.setblocking(False)
        listener.listen(self._limits.connections)
        task = asyncio.create_task(self._accept(listener))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            listener.close()
            for connection, opening in list(self._open.items()):
                if connection.step is ConnectionState.HANDSHAKE:
                    opening.cancel()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:  # no descriptor is left, or the client went away before it was let in
                await asyncio.sleep(_NO_ROOM)
                continue
            if len(self._open) >= self._limits.connections and not self._make_room():
                sock.close()
                continue
            connection = Connection(sock, self._limits, loop)
            self._open[connection] = asyncio.create_task(self._begin(connection, sock))
            await asyncio.sleep(0)  # a flood of connections must not keep the open ones from their turn

    def _make_room(self) -> bool:
        """Cut off who has waited longest for its client; who never sent a whole request goes first."""
        waiting = [each for each in self._open if each.step in _YIELDING]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: (bool(each.served), each.since))
        oldest.abort()
        self._open.pop(oldest)
        return True

    async def _begin(self, connection: Connection, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        more: dict[str, Any] = {}
        if self._tls is not None:
            more = {
                "ssl": self._tls,
                "ssl_handshake_timeout": self._limits.handshake,
                "ssl_shutdown_timeout": _PARTING,
            }
        try:
            await loop.connect_accepted_socket(lambda: self._handler(connection), sock, **more)
        except (OSError, asyncio.CancelledError):  # it did not speak TLS, or not in time
            self._forget(connection)
            sock.close()

    def _handler(self, connection: Connection) -> _Handler:
        loop = asyncio.get_running_loop()
        return _Handler(connection, self._forget, self._server, loop=loop, **self._options)

    def _forget(self, connection: Connection) -> None:
        connection.end()
        self._open.pop(connection, None)

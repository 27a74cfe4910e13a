"""A server's connections: bounded in number, and each state that waits for the client bounded in time.

A client takes four steps: the TLS handshake, the request's head, the body, and reading the answer. A
connection whose client exceeds a time limit is aborted. Where all connections are in use, a new one replaces
one that waits for its client.
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
"""Seconds to wait for the client's TLS close_notify."""
_NO_ROOM: Final = 0.1
"""Seconds before the next accept where the process has no descriptor left."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits for all clients together and for each of them."""

    connections: int = 256
    """Connections open at once: kube-scheduler keeps a handful."""
    handshake: float = 10.0
    """Seconds for the TLS handshake."""
    head: float = 10.0
    """Seconds for a request's head: from the handshake, and later from its first byte."""
    body: float = 10.0
    """Seconds for a request's body."""
    answer: float = 10.0
    """Seconds in which the client must read an answer."""
    idle: float = 120.0
    """Seconds between two requests: kube-scheduler closes an idle connection after 90, and a request that
    meets a closed one would fail."""
    bodies: int = 32 << 20
    """Bytes of all bodies that are being received or answered."""


_TURNS: Final = 100
"""How often the end of aborted connections is awaited, a hundredth of a second each."""


class ConnectionState(Enum):
    """What a connection waits for."""

    HANDSHAKE = auto()
    HEAD = auto()
    BODY = auto()
    WORK = auto()
    """The server works on the answer: such a connection is never closed to make room."""
    ANSWER = auto()
    """The client reads the answer."""
    IDLE = auto()


_YIELDING: Final = frozenset(
    {ConnectionState.HANDSHAKE, ConnectionState.HEAD, ConnectionState.BODY, ConnectionState.IDLE}
)
"""States in which a connection may be closed for a new one."""


class Connection:
    """One client's connection, its state, and the timer that aborts it."""

    def __init__(
        self, sock: socket.socket, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._sock = sock
        self._limits = limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.state = ConnectionState.HANDSHAKE
        self.since = loop.time()
        self.served = 0
        """The number of requests answered on it."""

    def on_transport(self, transport: asyncio.Transport) -> None:
        """Wait for the first head: the handshake is done."""
        self._transport = transport
        self._enter(ConnectionState.HEAD, self._limits.head)

    def on_data(self) -> None:
        """Handle received bytes: the first ones after idling begin the next head."""
        if self.state is ConnectionState.IDLE:
            self._enter(ConnectionState.HEAD, self._limits.head)

    def begin_body(self) -> None:
        """Enter the state BODY; the reader of the body bounds its time."""
        self._enter(ConnectionState.BODY)

    def begin_work(self) -> None:
        """Enter the state WORK: nothing is expected of the client."""
        self._enter(ConnectionState.WORK)

    def begin_answer(self) -> None:
        """Enter the state ANSWER."""
        self._enter(ConnectionState.ANSWER, self._limits.answer)

    def begin_idle(self) -> None:
        """Enter the state IDLE; aiohttp closes connections that idle for too long."""
        self.served += 1
        self._enter(ConnectionState.IDLE)

    def abort(self) -> None:
        """Close the connection at once, and drop unsent bytes."""
        self.cancel_timer()
        if self._transport is not None:
            self._transport.abort()
        else:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def cancel_timer(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self, state: ConnectionState, limit: float | None = None) -> None:
        self.cancel_timer()
        self.state, self.since = state, self._loop.time()
        if limit is not None:
            self._timer = self._loop.call_later(limit, self.abort)


class _Handler(web.RequestHandler):
    """aiohttp's handler of a connection; it also reports the connection's state."""

    def __init__(
        self, connection: Connection, on_lost: Callable[[Connection], None], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.connection = connection
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP has a transport that reads and writes"
        self.connection.on_transport(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.connection.on_data()
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._on_lost(self.connection)
        super().connection_lost(exc)

    async def finish_response(self, *args: Any, **kwargs: Any) -> Any:
        self.connection.begin_answer()
        sent = await super().finish_response(*args, **kwargs)
        self.connection.begin_idle()
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
        """The options of aiohttp's handler of a connection."""
        self._tls = tls
        self._limits = limits
        self._open: dict[Connection, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def accepting(self, listener: socket.socket) -> AsyncIterator[None]:
        """Accept connections as long as the context lasts; open ones stay open after it."""
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
                if connection.state is ConnectionState.HANDSHAKE:
                    opening.cancel()

    async def close(self) -> None:
        """Abort what is still open after the last answer: a client may leave the end of TLS unanswered."""
        for connection in list(self._open):
            connection.abort()
        for _ in range(_TURNS):
            if not self._open:
                return
            await asyncio.sleep(0.01)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:  # no descriptor is left, or the client disconnected before the accept
                await asyncio.sleep(_NO_ROOM)
                continue
            if len(self._open) >= self._limits.connections and not self._make_room():
                sock.close()
                continue
            connection = Connection(sock, self._limits, loop)
            self._open[connection] = asyncio.create_task(self._begin(connection, sock))
            await asyncio.sleep(0)  # a flood of new connections must not starve the open ones

    def _make_room(self) -> bool:
        """Abort the connection that has waited longest for its client; one without a full request first."""
        waiting = [each for each in self._open if each.state in _YIELDING]
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
        except (OSError, asyncio.CancelledError):  # no TLS handshake, or not in time
            self._remove(connection)
            sock.close()

    def _handler(self, connection: Connection) -> _Handler:
        loop = asyncio.get_running_loop()
        return _Handler(connection, self._remove, self._server, loop=loop, **self._options)

    def _remove(self, connection: Connection) -> None:
        connection.cancel_timer()
        self._open.pop(connection, None)

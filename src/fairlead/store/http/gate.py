"""The gate: one thread that waits for all clients, so that a slow one costs no worker.

It accepts connections, does their TLS handshakes, collects the heads of requests, and hands a connection to
the workers when a whole head is there. Each step is bounded in time, and the connections in number.
"""

import collections
import logging
import selectors
import socket
import ssl
import time
from contextlib import suppress
from enum import Enum, auto
from traceback import format_exc
from typing import TYPE_CHECKING, Final

from fairlead.store.http.connection import ClientConnection

if TYPE_CHECKING:
    from fairlead.store.http.server import StoreServer

_TICK: Final = 0.5
_BACKLOG: Final = 1024
_ACCEPTS: Final = 64
"""Connections accepted in a row: a flood must not starve the open ones."""
_NO_ROOM: Final = 0.05


class GateStep(Enum):
    """What a connection in the gate waits for."""

    HANDSHAKE = auto()
    HEAD = auto()
    IDLE = auto()
    END = auto()
    """It has its last answer: what still arrives is dropped."""


class Gate:
    """Takes the place of cheroot's connection manager."""

    def __init__(self, server: "StoreServer", listener: socket.socket) -> None:
        self._server = server
        self._limits = server.limits
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[ClientConnection, tuple[GateStep, float, float]] = {}
        """Each waiting connection: its step, since when, and until when."""
        self._returned: collections.deque[tuple[ClientConnection, GateStep]] = collections.deque()
        self._reader, self._writer = socket.socketpair()
        self._stopping = False
        listener.listen(_BACKLOG)
        for each in (listener, self._reader, self._writer):
            each.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(self._reader, selectors.EVENT_READ, None)

    can_add_keepalive_connection: Final = True

    def put(self, connection: ClientConnection) -> None:
        """Take a connection back from a worker, for its next request."""
        self._return(connection, GateStep.IDLE)

    def linger(self, connection: ClientConnection) -> bool:
        """Take a connection back from a worker to end it; False where the gate is closed."""
        if self._stopping:
            return False
        with suppress(OSError):
            connection.socket.shutdown(socket.SHUT_WR)
        self._return(connection, GateStep.END)
        return True

    def run(self) -> None:
        """Wait for clients until `stop` is called."""
        while not self._stopping:
            try:
                self._round()
            except Exception:  # noqa: BLE001  # without this thread the server is deaf
                self._server.error_log(format_exc(), logging.ERROR)
                time.sleep(_NO_ROOM)

    def _round(self) -> None:
        """Wait for clients once, and see to those that have waited too long."""
        for key, _ in self._selector.select(_TICK):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._reader:
                self._take_back()
            else:
                self._advance(key.data)
        self._expire(time.monotonic())

    def stop(self) -> None:
        """End `run`."""
        self._stopping = True
        self._wake()

    def close(self) -> None:
        """Close the listener and all waiting connections."""
        for connection in [*self._waiting, *(each for each, _ in self._returned)]:
            connection.is_unread = False
            connection.close()
        self._selector.close()
        for each in (self._listener, self._reader, self._writer):
            each.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, or the client has gone
                time.sleep(_NO_ROOM)
                return
            if self._server.open_connections >= self._limits.connections and not self._make_room():
                sock.close()
                continue
            self._begin(sock, address)

    def _begin(self, sock: socket.socket, address: tuple[str, int]) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        tls = self._server.tls_context()
        if tls is not None:
            sock = tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        connection = ClientConnection(self._server, sock, (str(address[0]), int(address[1])))
        self._server.opened(connection)
        self._wait(connection, GateStep.HEAD if tls is None else GateStep.HANDSHAKE)
        self._advance(connection)

    def _advance(self, connection: ClientConnection) -> None:
        """Do what the connection's step can do now."""
        if connection not in self._waiting:  # it had to make room for another a moment ago
            return
        step, since, until = self._waiting[connection]
        try:
            if step is GateStep.HANDSHAKE and not self._handshake(connection):
                return
            if step is GateStep.END:
                if not connection.rfile.drop():
                    self._drop(connection)
                return
            arrived = connection.rfile.fill()
        except OSError:  # also every fault of TLS
            self._drop(connection)
            return
        if connection.rfile.has_head:
            self._forget(connection)
            self._server.process_conn(connection)
        elif not arrived:
            self._drop(connection)
        elif step is GateStep.HANDSHAKE:
            self._waiting[connection] = (GateStep.HEAD, since, until)
        elif step is GateStep.IDLE and not connection.rfile.is_empty:
            now = time.monotonic()
            self._waiting[connection] = (GateStep.HEAD, now, now + self._limits.head)

    def _handshake(self, connection: ClientConnection) -> bool:
        """Go on with a TLS handshake; return whether it is done."""
        events = selectors.EVENT_READ
        try:
            connection.socket.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            events = selectors.EVENT_WRITE
        else:
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
            return True
        self._selector.modify(connection.socket, events, connection)
        return False

    def _wait(self, connection: ClientConnection, step: GateStep) -> None:
        now = time.monotonic()
        limits = self._limits
        seconds = {GateStep.IDLE: limits.idle, GateStep.END: limits.linger}.get(step, limits.head)
        self._waiting[connection] = (step, now, now + seconds)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _take_back(self) -> None:
        with suppress(BlockingIOError):
            self._reader.recv(4096)
        while self._returned:
            connection, step = self._returned.popleft()
            try:
                self._wait(connection, step)
            except (OSError, ValueError, KeyError):  # it was closed meanwhile
                self._server.closed(connection)
                continue
            self._advance(connection)  # the next request may be there already

    def _expire(self, now: float) -> None:
        for connection in [each for each, (_, _, until) in self._waiting.items() if until <= now]:
            self._drop(connection)

    def _make_room(self) -> bool:
        """Close the connection that has waited longest; one without a whole request first."""
        if not self._waiting:
            return False
        self._drop(min(self._waiting, key=lambda each: (bool(each.served), self._waiting[each][1])))
        return True

    def _drop(self, connection: ClientConnection) -> None:
        self._forget(connection)
        connection.is_unread = False
        connection.close()

    def _forget(self, connection: ClientConnection) -> None:
        del self._waiting[connection]
        self._selector.unregister(connection.socket)

    def _return(self, connection: ClientConnection, step: GateStep) -> None:
        self._returned.append((connection, step))
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            self._writer.send(b"x")

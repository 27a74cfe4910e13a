"""A web server for a few small pages: no threads, every connection bounded in size and time.

The standard library's server costs a thread for each connection and several megabytes; a metrics page needs
neither. One request is answered per connection.
"""

import contextlib
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.errors import SettingsError, UserError
from fairlead.settings import Address
from fairlead.units import Seconds

REQUEST_LIMIT: Final = 8 * 1024
CONNECTION_LIMIT: Final = 32
TIME_LIMIT: Final = Seconds(10.0)
_PIECE: Final = 4096
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Callable[[str], Response]
"""What answers a path."""


def answer(request: bytes, pages: Pages) -> bytes:
    """Return the bytes that answer a request's head."""
    words = request.split(b"\n", 1)[0].strip().split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return encode(Response(400, b"this is not HTTP/1\n"))
    method, target, _ = words
    if method not in (b"GET", b"HEAD"):
        return encode(Response(405, b"only GET and HEAD\n"), "Allow: GET, HEAD\r\n")
    path = target.partition(b"?")[0].decode("ascii", "replace")
    return encode(pages(path), bodiless=method == b"HEAD")


def encode(response: Response, more: str = "", *, bodiless: bool = False) -> bytes:
    """Return a response as it goes over the wire."""
    head = (
        f"HTTP/1.1 {response.status} {_REASONS[response.status]}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if bodiless else response.body)


def listen(address: Address) -> socket.socket:
    """Open the listening socket; what cannot be listened on is the user's to change."""
    both = address.host in ("", "::") and socket.has_dualstack_ipv6()
    try:
        flags = socket.AI_PASSIVE
        places = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        raise SettingsError(
            f"listen: {address.host!r} is no address of this machine", "try 127.0.0.1, [::1] or 0.0.0.0"
        ) from None
    family, host = (socket.AF_INET6, "") if both else (places[0][0], str(places[0][4][0]))
    try:
        return socket.create_server(
            (host, address.port), family=family, backlog=CONNECTION_LIMIT, dualstack_ipv6=both
        )
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise UserError(
            f"cannot listen on {address}: {why}", "choose another address with --listen"
        ) from None


class _Connection:
    """A client: its request grows, then the answer shrinks, then the line is drained and closed."""

    def __init__(self, line: socket.socket, deadline: Seconds) -> None:
        self.line = line
        self.deadline = deadline
        self.request = bytearray()
        self.rest: memoryview | None = None

    def receive(self, pages: Pages) -> bool:
        """Read what came; False when the client is done."""
        piece = self.line.recv(_PIECE)
        if self.rest is not None:
            return bool(piece)  # the answer is out: read on, lest closing cut it off
        self.request += piece
        if b"\n\r\n" in self.request or b"\n\n" in self.request:
            self.rest = memoryview(answer(bytes(self.request), pages))
        elif len(self.request) > REQUEST_LIMIT:
            self.rest = memoryview(encode(Response(431, b"the request is too large\n")))
        return bool(piece)

    def send(self) -> bool:
        """Write what the client takes; True when all is out."""
        assert self.rest is not None
        self.rest = self.rest[self.line.send(self.rest) :]
        if self.rest:
            return False
        self.line.shutdown(socket.SHUT_WR)
        return True


class Server:
    """The server, driven by somebody else's selector: each key's data is called when its line is ready."""

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector, pages: Pages) -> None:
        self._listener = listener
        self._selector = selector
        self._pages = pages
        self._open: dict[int, _Connection] = {}
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def expire(self, now: Seconds) -> None:
        """Close the connections that took too long."""
        for connection in [c for c in self._open.values() if c.deadline <= now]:
            self._close(connection)

    def deadline(self) -> Seconds | None:
        """Return when the next connection will have taken too long."""
        return min((connection.deadline for connection in self._open.values()), default=None)

    def close(self) -> None:
        """Close every connection and the listening socket."""
        for connection in list(self._open.values()):
            self._close(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self, now: Seconds) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:  # the client went away before it was let in
            return
        line.setblocking(False)
        if len(self._open) >= CONNECTION_LIMIT:
            self._close(next(iter(self._open.values())))  # the oldest: a real scraper is long done
        connection = _Connection(line, Seconds(now + TIME_LIMIT))
        self._open[line.fileno()] = connection
        self._selector.register(line, selectors.EVENT_READ, lambda _: self._serve(connection))

    def _serve(self, connection: _Connection) -> None:
        try:
            sending = bool(connection.rest)
            if sending and connection.send():
                self._watch(connection, selectors.EVENT_READ)
            elif not sending and not connection.receive(self._pages) and not connection.rest:
                self._close(connection)
            elif not sending and connection.rest:
                self._watch(connection, selectors.EVENT_WRITE)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)

    def _watch(self, connection: _Connection, events: int) -> None:
        self._selector.modify(connection.line, events, lambda _: self._serve(connection))

    def _close(self, connection: _Connection) -> None:
        self._open.pop(connection.line.fileno(), None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.line)
        connection.line.close()

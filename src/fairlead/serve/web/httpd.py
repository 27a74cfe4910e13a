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
from fairlead.serve.web.streams import ClientStream, IoSteps, PlainStream
from fairlead.settings import Address
from fairlead.units import Seconds

REQUEST_LIMIT: Final = 8 * 1024
CONNECTION_LIMIT: Final = 32
TIME_LIMIT: Final = Seconds(10.0)
_PIECE: Final = 4096
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Callable[[str], Response]
"""Returns the response for a path."""
Guard = Callable[[str, bytes], bool]
"""Says, for a path and a request's head, whether the request is allowed."""


def allow_all(_path: str, _head: bytes) -> bool:
    """Allow every request: the default guard."""
    return True


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How a server treats clients: the type of their stream, and the guard of its pages."""

    stream: Callable[[socket.socket], ClientStream] = PlainStream
    guard: Guard = allow_all


def answer(request: bytes, pages: Pages, guard: Guard = allow_all) -> bytes:
    """Return the encoded response to a request's head."""
    words = request.split(b"\n", 1)[0].strip().split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return encode(Response(400, b"this is not HTTP/1\n"))
    method, target, _ = words
    if method not in (b"GET", b"HEAD"):
        return encode(Response(405, b"only GET and HEAD\n"), "Allow: GET, HEAD\r\n")
    path = target.partition(b"?")[0].decode("ascii", "replace")
    if not guard(path, request):
        refusal = Response(401, b"unauthorized\n")
        return encode(refusal, "WWW-Authenticate: Bearer\r\n", bodiless=method == b"HEAD")
    return encode(pages(path), bodiless=method == b"HEAD")


def encode(response: Response, more: str = "", *, bodiless: bool = False) -> bytes:
    """Return the encoded response."""
    head = (
        f"HTTP/1.1 {response.status} {_REASONS[response.status]}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if bodiless else response.body)


def listen(address: Address) -> socket.socket:
    """Open the listening socket; UserError where the address cannot be used."""
    both = address.host in ("", "::") and socket.has_dualstack_ipv6()
    try:
        flags = socket.AI_PASSIVE
        places = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        raise SettingsError(
            f"listen: {address.host!r} is not an address of this machine", "try 127.0.0.1, [::1] or 0.0.0.0"
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


def serve_request(stream: ClientStream, respond: Callable[[bytes], bytes]) -> IoSteps[None]:
    """Receive one request, answer it, and close."""
    yield from stream.handshake()
    request = yield from _receive_head(stream)
    if request is None:
        return
    if stream.fault:
        reply = encode(Response(400, f"{stream.fault}\n".encode()))
    elif len(request) > REQUEST_LIMIT and not _complete(request):
        reply = encode(Response(431, b"the request is too large\n"))
    else:
        reply = respond(request)
    rest = memoryview(reply)
    while rest:
        taken = yield from stream.send(rest)
        rest = rest[taken:]
    yield from stream.shutdown()
    while (yield from stream.receive(_PIECE)):
        pass  # the answer is sent: keep reading, or the close could discard it at the client


def _receive_head(stream: ClientStream) -> IoSteps[bytes | None]:
    """Return a request's head, or the part that exceeds the limit; None when the client disconnected."""
    request = bytearray()
    while not _complete(request) and len(request) <= REQUEST_LIMIT:
        piece = yield from stream.receive(_PIECE)
        if not piece:
            return None
        request += piece
    return bytes(request)


def _complete(request: bytes | bytearray) -> bool:
    return b"\n\r\n" in request or b"\n\n" in request


@dataclass(slots=True)
class _Connection:
    """A client's stream, the steps of its request, and its deadline."""

    stream: ClientStream
    steps: IoSteps[None]
    deadline: Seconds
    events: int = 0


class PageServer:
    """The server, driven by the caller's selector: each key's data is called when its socket is ready."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        pages: Pages,
        options: ServingOptions | None = None,
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._pages = pages
        self._options = options or ServingOptions()
        self._open: dict[int, _Connection] = {}
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def expire(self, now: Seconds) -> None:
        """Close the connections whose deadline has passed."""
        for number in [number for number, each in self._open.items() if each.deadline <= now]:
            self._close(number)

    def deadline(self) -> Seconds | None:
        """Return the next deadline of a connection; None without connections."""
        return min((connection.deadline for connection in self._open.values()), default=None)

    def close(self) -> None:
        """Close every connection and the listening socket."""
        for number in list(self._open):
            self._close(number)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self, now: Seconds) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the client disconnected before the accept
            return
        sock.setblocking(False)
        if len(self._open) >= CONNECTION_LIMIT:
            self._close(next(iter(self._open)))  # the oldest: a real scraper has finished long ago
        stream, number = self._options.stream(sock), sock.fileno()
        connection = _Connection(stream, serve_request(stream, self._respond), Seconds(now + TIME_LIMIT))
        self._open[number] = connection
        self._advance(number, connection)

    def _respond(self, request: bytes) -> bytes:
        return answer(request, self._pages, self._options.guard)

    def _advance(self, number: int, connection: _Connection) -> None:
        """Run the steps until they wait, and register the events that they wait for."""
        if self._open.get(number) is not connection:
            return  # it was closed a moment ago to make room
        try:
            events = next(connection.steps)
        except (StopIteration, OSError):
            self._close(number)
            return
        if events != connection.events:
            change = self._selector.modify if connection.events else self._selector.register
            change(number, events, lambda _: self._advance(number, connection))
            connection.events = events

    def _close(self, number: int) -> None:
        connection = self._open.pop(number)
        with contextlib.suppress(KeyError):
            self._selector.unregister(number)
        connection.stream.close()

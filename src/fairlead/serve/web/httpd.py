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
    """An answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Callable[[str], Response]
"""What answers a path."""
Guard = Callable[[str, bytes], bool]
"""What says, of a path and a request's head, whether the page may be seen."""


def allow_all(_path: str, _head: bytes) -> bool:
    """Let everybody see every page."""
    return True


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How clients come in: over which kind of line, and who may see what."""

    stream: Callable[[socket.socket], ClientStream] = PlainStream
    guard: Guard = allow_all


def answer(request: bytes, pages: Pages, guard: Guard = allow_all) -> bytes:
    """Return the bytes that answer a request's head."""
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


def serve_request(line: ClientStream, respond: Callable[[bytes], bytes]) -> IoSteps[None]:
    """Hear one request, answer it, and part."""
    yield from line.handshake()
    request = yield from _hear(line)
    if request is None:
        return
    if line.fault:
        reply = encode(Response(400, f"{line.fault}\n".encode()))
    elif len(request) > REQUEST_LIMIT and not _whole(request):
        reply = encode(Response(431, b"the request is too large\n"))
    else:
        reply = respond(request)
    rest = memoryview(reply)
    while rest:
        taken = yield from line.send(rest)
        rest = rest[taken:]
    yield from line.shutdown()
    while (yield from line.receive(_PIECE)):
        pass  # the answer is out: read on, lest closing cut it off


def _hear(line: ClientStream) -> IoSteps[bytes | None]:
    """Return a request's head, or as much as is too much; None when the client left in the middle of it."""
    request = bytearray()
    while not _whole(request) and len(request) <= REQUEST_LIMIT:
        piece = yield from line.receive(_PIECE)
        if not piece:
            return None
        request += piece
    return bytes(request)


def _whole(request: bytes | bytearray) -> bool:
    return b"\n\r\n" in request or b"\n\n" in request


@dataclass(slots=True)
class _Connection:
    """A client, how far the talk with it is, and when it has taken too long."""

    stream: ClientStream
    talk: IoSteps[None]
    deadline: Seconds
    events: int = 0


class PageServer:
    """The server, driven by somebody else's selector: each key's data is called when its line is ready."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        pages: Pages,
        front: ServingOptions | None = None,
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._pages = pages
        self._front = front or ServingOptions()
        self._open: dict[int, _Connection] = {}
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def expire(self, now: Seconds) -> None:
        """Close the connections that took too long."""
        for number in [number for number, each in self._open.items() if each.deadline <= now]:
            self._close(number)

    def deadline(self) -> Seconds | None:
        """Return when the next connection will have taken too long."""
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
        except OSError:  # the client went away before it was let in
            return
        sock.setblocking(False)
        if len(self._open) >= CONNECTION_LIMIT:
            self._close(next(iter(self._open)))  # the oldest: a real scraper is long done
        line, number = self._front.stream(sock), sock.fileno()
        connection = _Connection(line, serve_request(line, self._respond), Seconds(now + TIME_LIMIT))
        self._open[number] = connection
        self._go_on(number, connection)

    def _respond(self, request: bytes) -> bytes:
        return answer(request, self._pages, self._front.guard)

    def _go_on(self, number: int, connection: _Connection) -> None:
        """Talk as far as the client lets us, and wait for what it takes to go on."""
        if self._open.get(number) is not connection:
            return  # it had to make room a moment ago
        try:
            events = next(connection.talk)
        except (StopIteration, OSError):
            self._close(number)
            return
        if events != connection.events:
            change = self._selector.modify if connection.events else self._selector.register
            change(number, events, lambda _: self._go_on(number, connection))
            connection.events = events

    def _close(self, number: int) -> None:
        connection = self._open.pop(number)
        with contextlib.suppress(KeyError):
            self._selector.unregister(number)
        connection.stream.close()

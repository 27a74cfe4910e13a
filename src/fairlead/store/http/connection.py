"""Requests and their connection: cheroot's, with bodies and answers of the store."""

import socket
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from cheroot.server import HeaderReader, HTTPConnection, HTTPRequest
from cheroot.wsgi import Gateway_10

from fairlead.store.http.body import KEY, ChunkedBody, LengthBody
from fairlead.store.http.stream import ConnectionStream
from fairlead.store.reads import FileSlice

if TYPE_CHECKING:
    from fairlead.store.http.server import StoreServer

_DRAINED: Final = 64 << 10
"""Bytes of an unread body that are received so that the connection can be used again."""
_MOMENT: Final = 2.0
"""Milliseconds."""
_RESET: Final = struct.pack("ii", 1, 0)
_ONCE: Final = (b"content-length", b"transfer-encoding", b"authorization", b"host")


class _Headers(HeaderReader):
    """Reads header fields; one with an underscore could pass for another and is left out."""

    def _allow_header(self, key_name: bytes) -> bool:
        return b"_" not in key_name


_HEADERS: Final = _Headers()


class StoreRequest(HTTPRequest):
    """A request, whose body is received only when it is wanted."""

    _expects = False
    body: "LengthBody | ChunkedBody"
    conn: "ClientConnection"

    def parse_request(self) -> None:
        """Parse the head; one that could mean two bodies is refused."""
        head = self.conn.rfile.peek_head().lower()
        if any(head.count(b"\n" + name + b":") > 1 for name in _ONCE):
            self.refuse(400, "a header field is there twice")
            return
        super().parse_request()

    def header_reader(self, rfile: Any, fields: dict[bytes, bytes]) -> None:
        """Read the header fields; `100 Continue` is answered when the body is received, not by cheroot."""
        _HEADERS(rfile, fields)
        self._expects = fields.pop(b"Expect", b"").lower() == b"100-continue"

    def read_request_headers(self) -> bool:
        """Read and check the header fields."""
        if not super().read_request_headers():  # type: ignore[no-untyped-call]  # cheroot's stub
            return False
        length = self.inheaders.get(b"Content-Length")
        if length is not None and (self.chunked_read or not length.isdigit()):
            self.refuse(400, "a request has one length, or comes in chunks")
            return False
        return True

    def refuse(self, status: int, reason: str) -> None:
        """Answer a request whose head cannot be understood, and close."""
        self.close_connection = True
        self.conn.is_unread = True
        self.server.counters.answered("", status, 0, 0)
        self.simple_response(f"{status} {HTTPStatus(status).phrase}", f"{reason}\n")

    def respond(self) -> None:
        """Answer the request."""
        stream = self.conn.rfile
        proceed = self._proceed if self._expects else None
        if self.chunked_read:
            self.body = ChunkedBody(stream, proceed)
        else:
            self.body = LengthBody(stream, int(self.inheaders.get(b"Content-Length", 0)), proceed)
        self.rfile = None
        StoreGateway(self).respond()
        self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b"0\r\n\r\n")

    def send_headers(self) -> None:
        """Send the head of the answer; after a body that was not received the connection ends."""
        self.body.drain(_DRAINED)
        if not self.body.is_complete:
            self.close_connection = True
            self.conn.is_unread = True
        super().send_headers()

    def _proceed(self) -> None:
        self.conn.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")


class StoreGateway(Gateway_10):
    """The way from a request to the application and back; files go from the disk to the socket."""

    req: StoreRequest
    sent = 0
    """Bytes of the answer's body that were sent."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]  # cheroot's stub says None
        """Return the environment of the request, with its body."""
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]  # as above
        environ[KEY] = self.req.body
        return environ

    def respond(self) -> None:
        """Answer the request, and count it, also where the client takes no answer."""
        try:
            self._respond()
        finally:
            status = int(self.req.status[:3] or 500)
            method, received = self.env["REQUEST_METHOD"], self.req.body.received
            self.req.server.counters.answered(method, status, received, self.sent)

    def _respond(self) -> None:
        response = self.req.server.wsgi_app(self.env, self.start_response)
        if not isinstance(response, FileSlice):
            self._write_all(response)
            return
        try:
            self.req.ensure_headers_sent()
            for count in self.req.conn.rfile.send_file(response.handle, response.offset, response.length):
                self.sent += count
        finally:
            response.close()

    def _write_all(self, response: Any) -> None:
        for piece in response:
            if piece:
                self.write(piece)
                self.sent += len(piece)
        self.req.ensure_headers_sent()


class ClientConnection(HTTPConnection):
    """A connection: it waits in the gate until a whole head is there, and then for its answer."""

    RequestHandlerClass = StoreRequest
    rfile: ConnectionStream
    server: "StoreServer"

    def __init__(self, server: "StoreServer", sock: socket.socket, address: tuple[str, int]) -> None:
        stream = ConnectionStream(sock, server.limits)
        super().__init__(server, sock, lambda *_: stream)
        self.remote_addr, self.remote_port = address
        self.is_unread = False
        """Whether a body was left unread: what still arrives is dropped before the end."""
        self.served = 0

    def communicate(self) -> bool:
        """Answer requests that come at once; return whether the connection may have another later."""
        try:
            while self._answer():
                if not self._has_next():
                    return True
        except TimeoutError:  # what it has not taken must not stay in the kernel
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        except OSError:  # the client is gone
            pass
        return False

    def _answer(self) -> bool:
        """Answer one request; return whether there may be another."""
        request = self.RequestHandlerClass(self.server, self)
        request.parse_request()
        if not request.ready:
            return False
        self.served += 1
        request.respond()
        return not request.close_connection

    def _has_next(self) -> bool:
        """Wait a moment for the next request: many clients send it at once, and the gate takes longer."""
        if self.server.is_busy:
            return False
        if not self.rfile.has_head and self.rfile.wait(_MOMENT):
            self.rfile.fill()
        return self.rfile.has_head

    def close(self) -> None:
        """Close the connection; after an unread body the gate does it, once the answer is read."""
        if self.is_unread:
            self.is_unread = False
            if self.server.linger(self):
                return
        self.rfile.close()
        self.socket.close()
        self.server.closed(self)

"""StoreConnection: HTTP to the store of a session, over TLS whose certificate is pinned."""

import hashlib
import http.client
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from fairlead import __version__
from fairlead.errors import DeviceError, StoreUnavailableError, TransferError

BLOCK: Final = 256 * 1024
_CONNECT_SECONDS: Final = 10.0
_REPLY_SECONDS: Final = 60.0
_MOST_REPLY: Final = 1 << 20
"""Bytes of a reply that is kept whole; contents of files are streamed."""
_LOST: Final = (http.client.HTTPException, OSError)
_WHEN_LOST: Final = "queued uploads are kept and sent later"
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Body(Protocol):
    """What an upload is read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the store."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        """Whether the request was done."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The first line of the body, as people can read it."""
        line = self.body[:400].decode("utf-8", "replace").strip().partition("\n")[0]
        return "".join(char if char.isprintable() else " " for char in line) if line[:1] not in "<{" else ""


class _PinnedConnection(http.client.HTTPSConnection):
    """Sends nothing before the server has shown the pinned certificate."""

    def __init__(self, host: str, port: int | None, fingerprint: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the pin says more than any name: one certificate, byte for byte
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        super().__init__(host, port, timeout=_CONNECT_SECONDS, context=context)
        self._fingerprint = fingerprint

    def connect(self) -> None:
        """Connect, and compare the certificate."""
        super().connect()
        shown = self.sock.getpeercert(binary_form=True) or b""
        found = hashlib.sha256(shown).hexdigest()
        if found != self._fingerprint:
            self.close()
            raise DeviceError(
                f"{self.host}: the store shows another certificate than the pinned one: sha256:{found}",
                "nothing was sent; if the store has a new certificate, join again with a new invite and its "
                "fingerprint: the queue is kept",
            )


class StoreConnection:
    """One connection to a store, opened when it is needed and again when it is lost."""

    def __init__(
        self,
        url: str,
        fingerprint: str,
        token: str,
        reply_seconds: float = _REPLY_SECONDS,
        *,
        when_lost: str = _WHEN_LOST,
    ) -> None:
        """Take what `when_lost` says as the next step of a user whose store cannot be reached."""
        parts = urlsplit(url)
        self._where = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._reply_seconds = reply_seconds
        self._when_lost = when_lost
        self.token = token
        host = parts.hostname or ""
        self._http: http.client.HTTPConnection = (
            _PinnedConnection(host, parts.port, fingerprint)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=_CONNECT_SECONDS)
        )

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def interrupt(self) -> None:
        """End a request that another thread waits for, and the connection."""
        sock = self._http.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        query: str = "",
    ) -> Reply:
        """Send a small request and return the whole reply."""
        with self.exchange(method, path, headers, body, query) as response:
            return _reply(response, b"".join(self.blocks(response, _MOST_REPLY)))

    def blocks(self, response: http.client.HTTPResponse, most: int | None = None) -> Iterator[bytes]:
        """Yield the content of a response in blocks, not more than `most` bytes."""
        total = 0
        while True:
            try:
                block = response.read(BLOCK)
            except _LOST as error:
                self._http.close()
                raise self._unavailable(error) from None
            if not block:
                break
            total += len(block)
            if most is not None and total > most:
                raise TransferError(
                    f"{self._where}: a reply of more than {most} bytes: is this a fairlead store?"
                )
            yield block
        if response.length:  # the connection ended in the middle of it
            self._http.close()
            raise self._unavailable(http.client.IncompleteRead(b"", response.length))

    @contextmanager
    def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        query: str = "",
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a small request, and yield the response to read from; an unread rest closes the connection.

        A connection that the store closed while it was idle is opened again, once.
        """
        idle = self._http.sock is not None
        try:
            response = self._send(method, path, headers, body, query)
        except _LOST as error:
            self._http.close()
            if not idle or isinstance(error, TimeoutError):
                raise self._unavailable(error) from None
            try:
                response = self._send(method, path, headers, body, query)
            except _LOST as again:
                self._http.close()
                raise self._unavailable(again) from None
        try:
            yield response
        finally:
            if not response.isclosed():
                response.close()
                self._http.close()

    def upload(
        self,
        path: str,
        headers: Mapping[str, str],
        open_body: Callable[[], Body],
        size: int,
        *,
        repeats: bool = True,
    ) -> Reply:
        """PUT the contents of a file; a reply that comes before the end of the upload is returned as well.

        A connection that the store closed while it was idle is opened again, once: an upload is conditional,
        so that a second one can do no harm. One that goes on where another ended must not be repeated.
        """
        idle = repeats and self._http.sock is not None
        try:
            return self._upload(path, headers, open_body(), size)
        except _LOST as error:
            self._http.close()
            if not idle or isinstance(error, TimeoutError):
                raise self._unavailable(error) from None
        try:
            return self._upload(path, headers, open_body(), size)
        except _LOST as error:
            self._http.close()
            raise self._unavailable(error) from None

    def _upload(self, path: str, headers: Mapping[str, str], body: Body, size: int) -> Reply:
        try:
            self._start("PUT", path, {**headers, "Content-Length": str(size)})
            whole = self._send_body(body, size)
            response = self._http.getresponse()
            reply = _reply(response, b"".join(self.blocks(response, _MOST_REPLY)))
        except TransferError:
            self._http.close()
            raise
        if not whole or not response.isclosed():
            self._http.close()  # the rest of the body would be taken for the next request
        return reply

    def _send_body(self, body: Body, size: int) -> bool:
        """Send a body; False: the store has refused the rest, and its reply says why."""
        left = size
        while left:
            block = body.read(min(BLOCK, left))
            if not block:
                raise TransferError("the queued content is shorter than its record: the upload was not made")
            try:
                self._http.send(block)
            except (BrokenPipeError, ConnectionResetError):
                return False
            left -= len(block)
        return True

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query: str
    ) -> http.client.HTTPResponse:
        length = {"Content-Length": str(len(body))} if body or method in ("POST", "PUT") else {}
        self._start(method, path, {**headers, **length}, query)
        if body:
            self._http.send(body)
        return self._http.getresponse()

    def _start(self, method: str, path: str, headers: Mapping[str, str], query: str = "") -> None:
        if self._http.sock is None:
            self._open()
        self._http.putrequest(method, self._prefix + quote(path) + query, skip_accept_encoding=True)
        own = {"User-Agent": f"fairlead-device/{__version__}", "Authorization": f"Bearer {self.token}"}
        for name, value in {**own, **headers}.items():
            self._http.putheader(name, value)
        self._http.endheaders()

    def _open(self) -> None:
        self._http.connect()
        self._http.sock.settimeout(self._reply_seconds)
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _unavailable(self, error: BaseException) -> StoreUnavailableError:
        if isinstance(error, ssl.SSLError):
            why = f"TLS failed: {error.reason or error}"
        elif isinstance(error, OSError):
            why = error.strerror or str(error) or type(error).__name__
        else:
            why = f"it broke off its reply ({type(error).__name__})"
        return StoreUnavailableError(f"{self._where}: the store cannot be reached: {why}", self._when_lost)


def _reply(response: http.client.HTTPResponse, body: bytes) -> Reply:
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

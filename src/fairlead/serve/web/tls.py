"""TLS of the servers; imported only where it is configured: OpenSSL costs several megabytes."""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final, TypeVar

from fairlead.errors import SettingsError
from fairlead.serve.web.reloaded import ReloadedFiles, error_text
from fairlead.serve.web.streams import IoSteps, PlainStream
from fairlead.settings import TlsFiles

_HANDSHAKE: Final = b"\x16"
"""The first byte of every TLS connection, and of no HTTP request."""
Result = TypeVar("Result")


class TlsAcceptor:
    """Creates TLS streams with the current certificate."""

    def __init__(self, files: TlsFiles, say: Callable[[str], None]) -> None:
        try:
            self._context = ReloadedFiles((files.cert, files.key), lambda: context(files), say)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"the TLS certificate {files.cert} and key {files.key} cannot be used: {error_text(error)}",
                "they must be PEM, belong together, and have no password",
            ) from None

    def __call__(self, sock: socket.socket) -> "TlsStream":
        """Return the stream of an accepted connection."""
        return TlsStream(sock, self._context.current())


def context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of the pages' TLS; OSError or ValueError where the files cannot be used."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    # One request for each connection: no resumption, no renegotiation.
    tls.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    tls.num_tickets = 0
    tls.load_cert_chain(files.cert, files.key, password=_no_password)
    return tls


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS context of an asyncio server, and its files."""

    context: ssl.SSLContext
    files: ReloadedFiles[None]
    """To be polled now and then: changed files apply to connections from then on."""


def server_tls(files: TlsFiles, client_authority: str, say: Callable[[str], None]) -> Tls:
    """Return the TLS of a server; with an authority, a client certificate must be one of the authority's.

    The router checks with each request that there is one: a kubelet's probes have none.
    """
    try:
        tls = context(files)
        # kube-scheduler keeps its connections, and may resume them.
        tls.options &= ~ssl.OP_NO_TICKET
        if client_authority:
            tls.load_verify_locations(client_authority)
            tls.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        names = f"{files.cert}, {files.key}{f', {client_authority}' if client_authority else ''}"
        raise SettingsError(
            f"the TLS files {names} cannot be used: {error_text(error)}",
            "they must be PEM; the certificate and its key must belong together, and have no password",
        ) from None
    reloaded = ReloadedFiles((files.cert, files.key), lambda: tls.load_cert_chain(files.cert, files.key), say)
    return Tls(tls, reloaded)


class TlsStream:
    """A TLS stream; for a client without TLS it stays plain and sets `fault`."""

    def __init__(self, sock: socket.socket, tls_context: ssl.SSLContext) -> None:
        self._context = tls_context
        self._sock = sock
        self._tls: ssl.SSLSocket | None = None
        self.fault = ""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._sock.fileno()

    def handshake(self) -> IoSteps[None]:
        """Do the TLS handshake."""
        if (yield from self._peek()) != _HANDSHAKE:
            self.fault = "this port serves TLS: use https"
            return
        tls = self._context.wrap_socket(self._sock, server_side=True, do_handshake_on_connect=False)
        self._sock = self._tls = tls
        yield from _retry(tls.do_handshake)

    def receive(self, limit: int) -> IoSteps[bytes]:
        """Return received bytes."""
        tls = self._tls
        return (yield from _retry(lambda: tls.recv(limit)) if tls else self._plain.receive(limit))

    def send(self, data: memoryview) -> IoSteps[int]:
        """Send bytes; return how many were accepted."""
        tls = self._tls
        return (yield from _retry(lambda: tls.send(data)) if tls else self._plain.send(data))

    def shutdown(self) -> IoSteps[None]:
        """Send the authenticated close_notify: without it the client sees a truncated answer."""
        while self._tls:
            try:
                self._tls.unwrap()
            except ssl.SSLWantWriteError:
                yield EVENT_WRITE
                continue
            except ssl.SSLError:  # it is sent; the client has not answered yet, or sends on
                pass
            self._tls = None
        yield from self._plain.shutdown()

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    @property
    def _plain(self) -> PlainStream:
        return PlainStream(self._sock)

    def _peek(self) -> IoSteps[bytes]:
        while True:
            yield EVENT_READ
            try:
                return self._sock.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue


def _retry(call: Callable[[], Result]) -> IoSteps[Result]:
    """Repeat a call until OpenSSL does not have to wait for the client."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield EVENT_READ
        except ssl.SSLWantWriteError:
            yield EVENT_WRITE


def _no_password() -> str:
    """Return an empty password: OpenSSL would otherwise prompt on the terminal and wait."""
    return ""

"""TLS for what programs serve; imported only where it is asked for: OpenSSL costs several megabytes."""

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
    """Makes lines that speak TLS, with the certificate of the moment."""

    def __init__(self, files: TlsFiles, say: Callable[[str], None]) -> None:
        try:
            self._context = ReloadedFiles((files.cert, files.key), lambda: context(files), say)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"the TLS certificate {files.cert} and key {files.key} cannot be used: {error_text(error)}",
                "they must be PEM, belong together, and have no password",
            ) from None

    def __call__(self, sock: socket.socket) -> "TlsStream":
        """Return the line over which a client that was let in is served."""
        return TlsStream(sock, self._context.current())


def context(files: TlsFiles) -> ssl.SSLContext:
    """Return how connections are made; OSError or ValueError where the files cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # One request for each connection: nothing to resume, nothing to negotiate twice.
    made.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    made.num_tickets = 0
    made.load_cert_chain(files.cert, files.key, password=_no_password)
    return made


@dataclass(frozen=True, slots=True)
class Tls:
    """What asyncio's servers make connections with."""

    context: ssl.SSLContext
    files: ReloadedFiles[None]
    """To be looked at now and then: new ones count for connections from then on."""


def server_tls(files: TlsFiles, client_authority: str, say: Callable[[str], None]) -> Tls:
    """Return how to speak TLS; with an authority, who shows a certificate must show one of its.

    That one is shown is checked with each request: a kubelet's probes show none.
    """
    try:
        made = context(files)
        # kube-scheduler keeps its connections, and may resume them.
        made.options &= ~ssl.OP_NO_TICKET
        if client_authority:
            made.load_verify_locations(client_authority)
            made.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        named = f"{files.cert}, {files.key}{f', {client_authority}' if client_authority else ''}"
        raise SettingsError(
            f"the TLS files {named} cannot be used: {error_text(error)}",
            "they must be PEM; the certificate and its key must belong together, and have no password",
        ) from None
    again = ReloadedFiles((files.cert, files.key), lambda: made.load_cert_chain(files.cert, files.key), say)
    return Tls(made, again)


class TlsStream:
    """A line that speaks TLS; with a client that does not, it stays plain and says so."""

    def __init__(self, sock: socket.socket, how: ssl.SSLContext) -> None:
        self._how = how
        self._sock = sock
        self._tls: ssl.SSLSocket | None = None
        self.fault = ""

    def fileno(self) -> int:
        """Return what to wait on."""
        return self._sock.fileno()

    def handshake(self) -> IoSteps[None]:
        """Shake hands."""
        if (yield from self._peek()) != _HANDSHAKE:
            self.fault = "this port speaks TLS: ask with https"
            return
        tls = self._how.wrap_socket(self._sock, server_side=True, do_handshake_on_connect=False)
        self._sock = self._tls = tls
        yield from _patiently(tls.do_handshake)

    def receive(self, limit: int) -> IoSteps[bytes]:
        """Return what came."""
        tls = self._tls
        return (yield from _patiently(lambda: tls.recv(limit)) if tls else self._plain.receive(limit))

    def send(self, data: memoryview) -> IoSteps[int]:
        """Return how many bytes the client took."""
        tls = self._tls
        return (yield from _patiently(lambda: tls.send(data)) if tls else self._plain.send(data))

    def shutdown(self) -> IoSteps[None]:
        """Say that nothing more will be sent, in a way that nobody on the road can: else it reads as cut."""
        while self._tls:
            try:
                self._tls.unwrap()
            except ssl.SSLWantWriteError:
                yield EVENT_WRITE
                continue
            except ssl.SSLError:  # it is out; the client has not answered yet, or talks on
                pass
            self._tls = None
        yield from self._plain.shutdown()

    def close(self) -> None:
        """End it."""
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


def _patiently(call: Callable[[], Result]) -> IoSteps[Result]:
    """Call until OpenSSL need not wait for the client."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield EVENT_READ
        except ssl.SSLWantWriteError:
            yield EVENT_WRITE


def _no_password() -> str:
    """Answer for the terminal, where OpenSSL would otherwise ask and wait."""
    return ""

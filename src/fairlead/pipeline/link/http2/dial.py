"""Connect with another host, plain or with TLS."""

import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from fairlead.pipeline.link.http2.channel import SocketChannel
from fairlead.pipeline.link.http2.contexts import ALPN, client_context
from fairlead.pipeline.link.http2.session import TlsSession
from fairlead.pipeline.link.tls import HostTlsFiles

PATIENCE: Final = 5.0
"""Seconds for a connection, and for each answer of its handshake."""
OnSocket = Callable[[socket.socket], None]


def split_address(address: str) -> tuple[str, int]:
    """Return host and port; ValueError where that is no address."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError("not HOST:PORT")
    return host.strip("[]"), int(port)


def connect(address: str, tls: HostTlsFiles | None, on_socket: OnSocket) -> SocketChannel:
    """Return a connected channel, after its handshake; OSError with a sentence for people.

    `on_socket` receives the socket while it is being connected; what it raises ends the attempt.
    """
    context = client_context(tls.read()) if tls is not None else None
    try:
        host, port = split_address(address)
        candidates = socket.getaddrinfo(host or "localhost", port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise OSError(f"{address}: {getattr(error, 'strerror', None) or error}") from error
    failures = []
    for family, kind, protocol, _, target in candidates:
        sock = socket.socket(family, kind, protocol)
        try:
            _connect_plain(sock, target, on_socket)
            return SocketChannel(sock, _secured(sock, context, host or "localhost") if context else None)
        except OSError as error:
            sock.close()
            failures.append(error)
    raise OSError(f"{address}: {_reason(failures[0])}") from failures[0]


def _connect_plain(sock: socket.socket, target: Any, on_socket: OnSocket) -> None:
    sock.settimeout(PATIENCE)
    on_socket(sock)
    sock.connect(target)


def _secured(sock: socket.socket, context: ssl.SSLContext, host: str) -> TlsSession:
    session = TlsSession(context, server_name=host)
    session.shake_hands(sock)
    if session.protocol != ALPN:
        raise ConnectionAbortedError("the other side does not speak HTTP/2")
    return session


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error)).lower()

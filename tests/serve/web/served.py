"""A server on loopback in a thread of its own, and clients for it."""

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fairlead.serve.web.httpd import PageServer, Response, ServingOptions, listen
from fairlead.settings import Address, TlsFiles
from fairlead.units import Seconds
from tests.cluster.loopback import Authority, Pair

LOOPBACK = Address("127.0.0.1", 0)
PATIENCE = 30.0
PROBE = b"GET /healthz HTTP/1.1\r\n\r\n"
LARGE = b"0123456789abcdef" * 2**18
"""More than the buffers of two sockets hold: it can only be sent in pieces."""


def pages(path: str) -> Response:
    """Answer with the path, or with a large body."""
    return Response(200, LARGE if path == "/large" else path.encode())


@contextmanager
def serving(options: ServingOptions) -> Iterator[int]:
    """Serve as long as the context lasts; yield the port."""
    listener = listen(LOOPBACK)
    reader, writer = socket.socketpair()
    thread = threading.Thread(target=_serve, args=(listener, options, reader))
    thread.start()
    try:
        yield listener.getsockname()[1]
        assert thread.is_alive()
    finally:
        writer.send(b"stop")
        thread.join(PATIENCE)
        reader.close()
        writer.close()


def _serve(listener: socket.socket, options: ServingOptions, stop: socket.socket) -> None:
    stopped: list[Seconds] = []
    with selectors.DefaultSelector() as selector, closing(PageServer(listener, selector, pages, options)):
        selector.register(stop, selectors.EVENT_READ, stopped.append)
        while not stopped:
            for key, _ in selector.select():
                key.data(Seconds(time.monotonic()))


def connect(port: int) -> socket.socket:
    """Connect to a port of this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def rest(sock: socket.socket) -> bytes:
    """Return all bytes until the other side closes."""
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def ask(port: int, request: bytes) -> bytes:
    """Return the answer to a request."""
    with closing(connect(port)) as sock:
        sock.sendall(request)
        return rest(sock)


def trusting(authority: Authority) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts one authority."""
    return ssl.create_default_context(cadata=authority.pem.decode())


def connect_tls(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Connect with TLS; a stream that ends without close_notify is an error."""
    return context.wrap_socket(connect(port), server_hostname="127.0.0.1", suppress_ragged_eofs=False)


def ask_tls(port: int, context: ssl.SSLContext, request: bytes = PROBE) -> bytes:
    """Return the answer to a request over TLS."""
    with closing(connect_tls(port, context)) as sock:
        sock.sendall(request)
        return rest(sock)


def mount(folder: Path, name: str, pair: Pair) -> TlsFiles:
    """Put a pair where a kubelet puts a secret, and swap the link to it as a kubelet does."""
    (folder / name).mkdir()
    (folder / name / "tls.crt").write_bytes(pair.certificate)
    (folder / name / "tls.key").write_bytes(pair.key)
    (folder / "..new").symlink_to(name)
    (folder / "..new").replace(folder / "..data")
    for file in ("tls.crt", "tls.key"):
        if not (folder / file).is_symlink():
            (folder / file).symlink_to(f"..data/{file}")
    return TlsFiles(str(folder / "tls.crt"), str(folder / "tls.key"))

"""The HTTP server: cheroot's parser, workers and WSGI behind a gate of our own."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cheroot.wsgi import Server

from fairlead.serve.web.tls import Tls
from fairlead.settings import Address
from fairlead.store.http.connection import ClientConnection
from fairlead.store.http.gate import Gate
from fairlead.store.http.limits import ServerLimits
from fairlead.store.http.metrics import StoreCounters


class StoreServer(Server):
    """Serves the store."""

    shutdown_timeout = 5

    def __init__(
        self,
        listener: socket.socket,
        application: Callable[..., Any],
        tls: Tls | None,
        limits: ServerLimits,
        say: Callable[[str], None],
    ) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__((host, port), application, numthreads=limits.threads, server_name="fairlead")
        self.max_request_header_size = limits.head_bytes
        self.limits = limits
        self.address = Address(host, port)
        self.software = "fairlead"
        self.ssl_adapter = tls  # cheroot asks only whether there is one
        self._tls = tls
        self._say = say
        self.counters = StoreCounters()
        self._open: set[ClientConnection] = set()
        self._connections = Gate(self, listener)
        self._gate = threading.Thread(target=self._connections.run, name="gate", daemon=True)

    @property
    def open_connections(self) -> int:
        """Connections that are open, in the gate and with workers."""
        return len(self._open)

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for a worker, or the server ends."""
        return not self.ready or self.requests.qsize > 0

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context for a new connection, with the certificate that its files hold now."""
        if self._tls is None:
            return None
        self._tls.files.current()
        return self._tls.context

    def start(self) -> None:
        """Serve, in threads of its own."""
        self.requests.start()
        self.ready = True
        self._gate.start()

    def stop(self) -> None:
        """End: requests in work have a few seconds for their answers."""
        self.ready = False
        self._connections.stop()
        abort = threading.Timer(self.shutdown_timeout, self._abort)
        abort.start()
        self.requests.stop(None)
        abort.cancel()
        self._gate.join()
        self._connections.close()

    def opened(self, connection: ClientConnection) -> None:
        """Count an open connection."""
        self._open.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Count a closed connection."""
        self._open.discard(connection)

    def linger(self, connection: ClientConnection) -> bool:
        """Hand a connection to the gate, which ends it when the client has read its answer."""
        return self._connections.linger(connection)

    def _abort(self) -> None:
        """End the connections of requests that take longer."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Log what cheroot reports; lost connections of clients are not worth a line."""
        del traceback
        if level >= 40:
            with suppress(OSError):
                self._say(" ".join(str(msg).split()))

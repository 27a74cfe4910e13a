"""The HTTP server: cheroot with the store's limits."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from cheroot.ssl.builtin import BuiltinSSLAdapter
from cheroot.wsgi import Server

from fairlead.settings import Address, TlsFiles

_HEAD_LIMIT: Final = 32 << 10


class StoreServer(Server):
    """Serves the store."""

    max_request_header_size = _HEAD_LIMIT
    keep_alive_conn_limit = 512

    def __init__(
        self,
        listen: Address,
        application: Callable[..., Any],
        tls: TlsFiles | None,
        threads: int,
        say: Callable[[str], None],
    ) -> None:
        super().__init__((listen.host, listen.port), application, numthreads=threads, server_name="fairlead")
        self._say = say
        if tls is not None:
            self.ssl_adapter = BuiltinSSLAdapter(tls.cert, tls.key)

    @property
    def address(self) -> Address:
        """Where it listens, once it is prepared."""
        host, port = self.socket.getsockname()[:2]
        return Address(host, port)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Log what cheroot reports; lost connections of clients are not worth a line."""
        del traceback
        if level >= 40:
            with suppress(OSError):
                self._say(" ".join(str(msg).split()))

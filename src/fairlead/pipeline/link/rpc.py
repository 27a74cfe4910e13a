"""The door to grpcio: streams of raw bytes, from both ends."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as PoolTimeoutError
from typing import Any, Final

import grpc

from fairlead.errors import FairleadError, SettingsError
from fairlead.pipeline.link.tls import HostTlsFiles, ReloadedTls, TlsTexts
from fairlead.pipeline.link.wire import CHUNK_BYTES

SERVICE: Final = "fairlead.pipeline.v1.Host"
MOST_STREAMS: Final = 256
"""Of a server, at the same time."""
_PROBE: Final = 2.0
_KEEPALIVE: Final = (
    ("grpc.keepalive_time_ms", 2000),
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.ping_timeout_ms", 3000),  # a minute unless stated, whatever the line before says
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
)
"""A connection that has died without a word is noticed within five seconds."""
_OPTIONS: Final = (("grpc.max_receive_message_length", CHUNK_BYTES), *_KEEPALIVE)
_CLIENT: Final = (*_OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
_REFUSALS: Final = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
)
# glibc gives memory above a threshold back at once, and raises the threshold to what was freed so. Else every
# message of a link would be mapped, touched and unmapped several times, which costs more than to send it.
bytearray(1 << 24)
Handler = Callable[["ServerStream"], Iterator[bytes]]


class StreamBrokenError(FairleadError):
    """A stream has ended, or could not begin: the other host is away, or the connection was cut."""


class StreamRefusedError(StreamBrokenError):
    """The other host refuses the stream: another attempt would be refused as well."""


class OpenedStream:
    """A stream that this host has opened, on a connection of its own."""

    def __init__(
        self, address: str, tls: HostTlsFiles | None, method: str, outgoing: Iterator[bytes]
    ) -> None:
        if tls is None:
            self._channel = grpc.insecure_channel(address, _CLIENT)
        else:
            texts = tls.read()
            credentials = grpc.ssl_channel_credentials(texts.ca, texts.key, texts.cert)
            self._channel = grpc.secure_channel(address, credentials, _CLIENT)
        self._call: Any = self._channel.stream_stream(f"/{SERVICE}/{method}")(outgoing)

    def __iter__(self) -> Iterator[bytes]:
        """Yield what the other host sends; StreamBrokenError unless it ends the stream."""
        try:
            yield from self._call
        except grpc.RpcError as error:
            code, details = self._call.code(), _first_line(self._call.details())
            kind = StreamRefusedError if code in _REFUSALS else StreamBrokenError
            raise kind(details or code.name) from error

    def cancel(self) -> None:
        """End the stream, from any thread."""
        self._call.cancel()
        self._channel.close()


class ServerStream:
    """A stream that another host has opened."""

    def __init__(self, requests: Iterator[bytes], context: Any) -> None:
        self._requests = requests
        self._context = context
        self.peer: str = context.peer()

    def __iter__(self) -> Iterator[bytes]:
        """Yield what the other host sends, until the stream is over for any reason."""
        try:
            yield from self._requests
        except Exception as error:  # grpcio raises a bare Exception here
            raise StreamBrokenError("the stream was cut") from error

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once the stream is over; at once if it is already."""
        if not self._context.add_callback(callback):
            callback()

    def cancel(self) -> None:
        """End the stream, from any thread."""
        self._context.cancel()


class RpcServer:
    """A server with a method for each kind of stream."""

    def __init__(self, handlers: Mapping[str, Handler], log: Callable[[str], None]) -> None:
        self.refused_streams = 0
        self.handshakes = 0
        """Connections that began a TLS handshake."""
        self._peers: set[str] = set()
        self._log = log
        self._pool = ThreadPoolExecutor(MOST_STREAMS, "stream")
        options = (*_OPTIONS, ("grpc.so_reuseport", 0))
        self._server = grpc.server(self._pool, options=options, maximum_concurrent_rpcs=MOST_STREAMS)
        methods = {
            name: grpc.stream_stream_rpc_method_handler(self._guarded(handler))
            for name, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))

    @property
    def refused_connections(self) -> int:
        """Connections that began a handshake, and from which no stream came."""
        return max(0, self.handshakes - len(self._peers))

    def listen(self, address: str, tls: HostTlsFiles | None) -> int:
        """Listen, and return the port; SettingsError where the address cannot be used."""
        try:
            if tls is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, self._credentials(tls)))
        except RuntimeError:
            raise SettingsError(
                f"--listen {address}: cannot be used", "name an address of this host with a free port"
            ) from None

    def start(self) -> None:
        """Serve from now on."""
        self._server.start()

    def has_free_stream(self) -> bool:
        """Return whether a thread is left for another stream, and answers."""
        try:
            return self._pool.submit(lambda: True).result(_PROBE)
        except (PoolTimeoutError, RuntimeError):  # all are in use, or the server has stopped
            return False

    def stop(self) -> None:
        """End every stream."""
        self._server.stop(None).wait()
        self._pool.shutdown(wait=False)

    def _guarded(self, handler: Handler) -> Callable[[Iterator[bytes], Any], Iterator[bytes]]:
        def serve(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            stream = ServerStream(requests, context)
            self._peers.add(stream.peer)
            try:
                yield from handler(stream)
            except StreamRefusedError as error:
                self.refused_streams += 1
                self._log(f"refused a stream of {stream.peer}: {error}")
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

        return serve

    def _credentials(self, tls: HostTlsFiles) -> Any:
        reloaded = ReloadedTls(tls, self._log)

        def fetch() -> Any:
            """Run by grpcio at each handshake."""
            self.handshakes += 1
            texts = reloaded.changed()
            return None if texts is None else _configuration(texts)

        first = _configuration(reloaded.texts)
        return grpc.dynamic_ssl_server_credentials(first, fetch, require_client_authentication=True)


def _configuration(texts: TlsTexts) -> Any:
    return grpc.ssl_server_certificate_configuration([(texts.key, texts.cert)], texts.ca)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:300]

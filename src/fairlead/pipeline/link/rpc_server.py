"""A server of streams: accepts connections, checks their certificates, and counts what it refuses."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from fairlead.errors import SettingsError
from fairlead.pipeline.link.http2 import grpc
from fairlead.pipeline.link.http2.channel import SocketChannel
from fairlead.pipeline.link.http2.connection import Http2Connection
from fairlead.pipeline.link.http2.contexts import ALPN, server_context
from fairlead.pipeline.link.http2.dial import split_address
from fairlead.pipeline.link.http2.grpc import GrpcStatus
from fairlead.pipeline.link.http2.session import TlsSession
from fairlead.pipeline.link.http2.stream import Stream, StreamEndedError
from fairlead.pipeline.link.rpc import (
    SERVICE,
    Message,
    Received,
    StreamBrokenError,
    StreamRefusedError,
    send_all,
)
from fairlead.pipeline.link.tls import HostTlsFiles, ReloadedTls
from fairlead.pipeline.link.wire import CHUNK_BYTES

MOST_STREAMS: Final = 256
"""Of a server, at the same time."""
MOST_CONNECTIONS: Final = 512
_HANDSHAKE: Final = 5.0
"""Seconds for a handshake."""
Handler = Callable[["ServerStream"], Iterator[Message]]


class ServerStream:
    """A stream that another host has opened."""

    def __init__(self, stream: Stream, peer: str) -> None:
        self._stream = stream
        self.peer = peer

    def __iter__(self) -> Iterator[Received]:
        """Yield what the other host sends, until it ends its half; StreamBrokenError if the stream is cut."""
        yield from self._stream.messages()
        self._raise_if_broken()

    def deliver(self, on_message: Callable[[Received], None]) -> None:
        """Call with what the other host sends, in the thread that reads the connection.

        A FrameError of the callback ends the stream, and the other host learns why.
        """
        self._stream.deliver(on_message)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once the other host sends no more; at once if that is so already."""
        self._stream.on_end(callback)

    def cancel(self) -> None:
        """End the stream, from any thread."""
        self._stream.cancel()

    def _raise_if_broken(self) -> None:
        if self._stream.wait().code != grpc.OK:
            raise StreamBrokenError("the stream was cut")


class RpcServer:
    """A server with a method for each kind of stream."""

    def __init__(self, handlers: Mapping[str, Handler], log: Callable[[str], None]) -> None:
        self.refused_streams = 0
        self.refused_connections = 0
        """Connections whose handshake failed, or from which bytes came and no stream."""
        self._handlers = {f"/{SERVICE}/{name}": handler for name, handler in handlers.items()}
        self._log = log
        self._streams = threading.Semaphore(MOST_STREAMS)
        self._lock = threading.Lock()
        self._connections: dict[Http2Connection, None] = {}
        self._sockets = 0
        self._stopping = False
        self._reloaded: ReloadedTls | None = None
        self._context: ssl.SSLContext | None = None
        self._listener: socket.socket | None = None

    def listen(self, address: str, tls: HostTlsFiles | None) -> int:
        """Listen, and return the port; SettingsError where the address cannot be used."""
        if tls is not None:
            self._reloaded = ReloadedTls(tls, self._log)
            self._context = server_context(self._reloaded.texts)
        try:
            host, port = split_address(address)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, port), family=family, backlog=128)
        except (OSError, ValueError, OverflowError):
            raise SettingsError(
                f"--listen {address}: cannot be used", "name an address of this host with a free port"
            ) from None
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Serve from now on."""
        threading.Thread(target=self._accept, name="listener", daemon=True).start()

    def has_free_stream(self) -> bool:
        """Return whether another stream would be served."""
        if self._stopping or not self._streams.acquire(blocking=False):
            return False
        self._streams.release()
        return True

    def stop(self) -> None:
        """End every stream."""
        with self._lock:
            self._stopping = True
            connections = list(self._connections)
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for connection in connections:
            connection.shutdown()

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._stopping:
            try:
                sock, peer = self._listener.accept()
            except OSError:  # stopped, or no descriptor is free
                if not self._stopping:
                    threading.Event().wait(0.05)
                continue
            with self._lock:
                is_full = self._sockets >= MOST_CONNECTIONS or self._stopping
                self._sockets += not is_full
                self.refused_connections += is_full
            if is_full:
                sock.close()
                continue
            name = f"{peer[0]}:{peer[1]}"
            threading.Thread(
                target=self._serve, args=(sock, name), name=f"connection {name}", daemon=True
            ).start()

    def _serve(self, sock: socket.socket, peer: str) -> None:
        try:
            channel = self._secured(sock)
            if channel is not None:
                self._read(channel, peer)
        finally:
            with self._lock:
                self._sockets -= 1

    def _read(self, channel: SocketChannel, peer: str) -> None:
        connection = Http2Connection(
            channel,
            most_message=CHUNK_BYTES,
            is_client=False,
            on_request=lambda stream: self._begin(stream, peer),
        )
        with self._lock:
            self._connections[connection] = None
            if self._stopping:
                connection.shutdown()
        try:
            connection.run()
        finally:
            with self._lock:
                del self._connections[connection]
                self.refused_connections += connection.has_bytes and not connection.opened

    def _secured(self, sock: socket.socket) -> SocketChannel | None:
        """Return a channel after its handshake; None: it was refused."""
        if self._context is None:
            return SocketChannel(sock)
        sock.settimeout(_HANDSHAKE)
        try:
            if not sock.recv(1, socket.MSG_PEEK):  # a probe of the port
                sock.close()
                return None
            return SocketChannel(sock, _shake_hands(self._current_context(), sock))
        except OSError:
            sock.close()
        with self._lock:
            self.refused_connections += 1
        return None

    def _current_context(self) -> ssl.SSLContext:
        """Return the context of the certificates as they are now, or as they were last usable."""
        assert self._reloaded is not None
        assert self._context is not None
        with self._lock:
            texts = self._reloaded.changed()
            if texts is not None:
                try:
                    self._context = server_context(texts)
                except SettingsError as error:
                    self._log(f"{error}: the last certificates stay in use")
            return self._context

    def _begin(self, stream: Stream, peer: str) -> None:
        """Serve a stream in a thread of its own; called by the thread that reads its connection."""
        handler = self._handlers.get(stream.headers.get(":path", ""))
        if handler is None:
            stream.cancel(GrpcStatus(grpc.UNIMPLEMENTED, "no such method"))
        elif not self._streams.acquire(blocking=False):
            stream.cancel(
                GrpcStatus(grpc.RESOURCE_EXHAUSTED, f"this host serves {MOST_STREAMS} streams already")
            )
        else:
            arguments = (handler, stream, peer)
            threading.Thread(target=self._handle, args=arguments, name="stream", daemon=True).start()

    def _handle(self, handler: Handler, stream: Stream, peer: str) -> None:
        served = ServerStream(stream, peer)
        messages = handler(served)
        try:
            stream.answer()
            send_all(stream, messages)
            stream.end()
        except StreamRefusedError as error:
            self._refuse(stream, peer, str(error))
        except (StreamEndedError, StreamBrokenError):
            pass  # the other host is gone, or will connect again
        finally:
            messages.close()  # type: ignore[attr-defined] # handlers are generators
            stream.cancel()
            self._streams.release()

    def _refuse(self, stream: Stream, peer: str, reason: str) -> None:
        with self._lock:
            self.refused_streams += 1
        self._log(f"refused a stream of {peer}: {reason}")
        stream.cancel(GrpcStatus(grpc.FAILED_PRECONDITION, reason))


def _shake_hands(context: ssl.SSLContext, sock: socket.socket) -> TlsSession:
    """Return the TLS of a socket; OSError where its handshake fails, or takes too long."""
    session = TlsSession(context)
    deadline = threading.Timer(_HANDSHAKE, sock.shutdown, (socket.SHUT_RDWR,))
    deadline.daemon = True
    deadline.start()
    try:
        session.shake_hands(sock)
        if session.protocol != ALPN:
            raise ConnectionAbortedError("the other side does not speak HTTP/2")
    finally:
        deadline.cancel()
    return session

"""gRPC over unix sockets: a server for a kubelet's calls, and a call to a kubelet.

This is the one file that uses `grpclib`; its interface is bytes and our own messages. Whatever a peer does
(disconnect, stop reading, send invalid bytes) affects only its own connection.
"""

import asyncio
import errno
import logging
import os
import stat
from asyncio import BaseTransport, Transport
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, cast

from grpclib.client import Channel
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream

from fairlead.compat import aio
from fairlead.errors import AllocationRefusedError, FairleadError, KubeletError
from fairlead.kubelet.proto import M, Message, decode, encode

REQUEST_LIMIT: Final = 16 * 1024 * 1024
"""Four times the size of a request that names every unit of a node."""
LONGEST_PATH: Final = 107
"""The longest path of a unix socket in bytes, a limit of the kernel."""
GRACE: Final = 2.0
"""Seconds that running calls have to finish when a server closes."""
_LONGEST_REASON: Final = 2000
_Bytes: TypeAlias = Stream[bytes, bytes]

# The library logs every disconnected peer; without a handler, Python prints these lines to stderr.
logging.getLogger("grpclib").addHandler(logging.NullHandler())


def quiet(_: object) -> None:
    """Ignore a log line or a status: the default callback."""


@dataclass(frozen=True, slots=True)
class UnaryMethod(Generic[M]):
    """A method that answers one message with one message."""

    path: str
    request: type[M]
    answer: Callable[[M], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class StreamMethod:
    """A method that streams encoded messages for as long as the peer reads."""

    path: str
    items: Callable[[], AsyncGenerator[bytes, None]]


Method: TypeAlias = UnaryMethod[Any] | StreamMethod


class GrpcServer:
    """A gRPC server on one unix socket."""

    def __init__(
        self,
        path: Path,
        methods: Sequence[Method],
        say: Callable[[str], None] = quiet,
        grace: float = GRACE,
    ) -> None:
        self.path = path
        self._methods = methods
        self._say = say
        self._grace = grace
        self._server: _Server | None = None
        self._inode = (0, 0)
        self._closing = False
        self._calls: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Listen; an existing socket counts as stale and is replaced, any other file is not."""
        server = _Server([self], codec=_Raw())
        try:
            _remove_stale(self.path)
            await server.start(path=str(self.path))
            self._inode = _inode(self.path)
        except OSError as error:
            raise KubeletError(
                f"cannot listen on {self.path}: {error.strerror or error}",
                f"its folder must exist and be writable, and the path must have at most {LONGEST_PATH} bytes",
            ) from None
        self._server, self._closing = server, False

    async def close(self) -> None:
        """Remove the socket, wait a moment for running calls, then end them and every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        # While the server listens no other socket can get its inode number: compare before closing.
        with suppress(OSError):
            if _inode(self.path) == self._inode:
                os.unlink(self.path)
        self._closing = True
        await _wait_for(self._calls, self._grace)
        server.close()
        await _wait_for(self._calls, self._grace)
        await server.close_connections(self._grace)

    def __mapping__(self) -> dict[str, Handler]:
        """Return the methods in the library's form."""
        return {method.path: self._handler(method) for method in self._methods}

    def _handler(self, method: Method) -> Handler:
        async def handle(stream: _Bytes) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._calls.add(task)
            try:
                await (
                    self._stream(method, stream)
                    if isinstance(method, StreamMethod)
                    else self._answer(method, stream)
                )
            finally:
                self._calls.discard(task)

        kind = Cardinality.UNARY_STREAM if isinstance(method, StreamMethod) else Cardinality.UNARY_UNARY
        return Handler(handle, kind, bytes, bytes)

    async def _answer(self, method: UnaryMethod[M], stream: _Bytes) -> None:
        data = await self._receive(stream)
        try:
            request = decode(method.request, data)
        except ValueError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, f"{method.path}: {error}") from None
        try:
            answer = encode(await method.answer(request))
        except AllocationRefusedError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, reason(error)) from None
        except FairleadError as error:
            raise GRPCError(Status.INTERNAL, reason(error)) from None
        except Exception as error:  # noqa: BLE001  # our own fault: log it, and serve the next call
            self._say(f"{method.path} failed: {error!r}")
            raise GRPCError(Status.INTERNAL, f"{method.path} failed: see the log of the agent") from None
        await stream.send_message(answer)

    async def _stream(self, method: StreamMethod, stream: _Bytes) -> None:
        await self._receive(stream)
        async with aclosing(method.items()) as items:
            async for item in items:
                await stream.send_message(item)

    async def _receive(self, stream: _Bytes) -> bytes:
        if self._closing:
            raise GRPCError(Status.UNAVAILABLE, "the agent is shutting down")
        try:
            data = await stream.recv_message()
        except (AssertionError, NotImplementedError):  # truncated, or compressed without negotiation
            data = None
        if data is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "the message cannot be read")
        return data


def reason(error: FairleadError) -> str:
    """Return an error's message and hint, as the owner of a pod reads them in an event."""
    text = f"{error} ({error.hint})" if error.hint else str(error) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


async def call(path: Path, method: str, request: Message, answer: type[M], timeout: float, limit: int) -> M:
    """Make one unary call on a connection of its own; every failure is a KubeletError."""
    # The library cancels the task that waits on a broken connection: use a task of its own.
    return await asyncio.create_task(_call(path, method, request, answer, timeout, limit))


async def _call(path: Path, method: str, request: Message, answer: type[M], timeout: float, limit: int) -> M:
    channel = _Channel(limit, path=str(path), codec=_Raw())
    try:
        async with aio.timeout(timeout):
            request_stream = channel.request(method, Cardinality.UNARY_UNARY, bytes, bytes)
            async with request_stream as stream:
                await stream.send_message(encode(request), end=True)
                data = await stream.recv_message()
        if data is None:
            raise ValueError("it sent no answer")
        return decode(answer, data)
    except TimeoutError:
        raise KubeletError(f"{path}: no answer within {timeout:g} s", "check that the kubelet runs") from None
    except Exception as error:  # anything that a peer can make the library raise
        raise KubeletError(
            f"{path}: {_error_text(error)}", "check that the kubelet runs and accepts this connection"
        ) from error
    finally:
        channel.close()


def _error_text(error: Exception) -> str:
    if isinstance(error, GRPCError):
        return f"{error.status.name}: {error.message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, AttributeError):
        return "the connection broke"  # the library raises this where a connection ends at a bad moment
    return str(error) or type(error).__name__


def _remove_stale(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "the file there is not a socket")
        os.unlink(path)


def _inode(path: Path) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


async def _wait_for(futures: Iterable[asyncio.Future[Any]], seconds: float | None) -> None:
    if pending := set(futures):
        await asyncio.wait(pending, timeout=seconds)


class _Raw(CodecBase):
    """Passes messages through as bytes."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Return the message, which is bytes already."""
        return cast(bytes, message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        """Return the message unchanged."""
        return data


class _Connection(H2Protocol):
    """A connection that bounds what it receives, fails silently, and reports its end."""

    def __init__(self, protocol: H2Protocol, limit: int, connections: "set[_Connection]") -> None:
        super().__init__(protocol.handler, protocol.config, protocol.h2_config)
        self._limit = limit
        self._connections = connections
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: BaseTransport) -> None:
        """Register the connection."""
        self.transport = cast(Transport, transport)
        self._connections.add(self)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Process received bytes, up to the limit."""
        try:
            super().data_received(data)
            streams = self.processor.streams.values()
            if any(stream.data_received > self._limit for stream in streams):
                self.processor.close(f"it sent more than {self._limit} bytes")
        except Exception:  # noqa: BLE001  # malformed bytes can make the library raise
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Report the end, and wake writers that wait for a peer that will never read again."""
        self.connection.resume_writing()
        super().connection_lost(exc)
        self._connections.discard(self)
        if not self.closed.done():
            self.closed.set_result(None)


class _Server(Server):
    def __init__(self, servers: Sequence[GrpcServer], codec: CodecBase) -> None:
        super().__init__(servers, codec=codec)
        self._connections: set[_Connection] = set()

    def _protocol_factory(self) -> H2Protocol:
        return _Connection(super()._protocol_factory(), REQUEST_LIMIT, self._connections)

    async def close_connections(self, grace: float) -> None:
        """Close every connection; abort those whose peer does not read within the grace period."""
        connections = tuple(self._connections)
        for connection in connections:
            connection.transport.close()
        await _wait_for((connection.closed for connection in connections), grace)
        for connection in connections:
            connection.transport.abort()
        await _wait_for((connection.closed for connection in connections), None)


class _Channel(Channel):
    def __init__(self, limit: int, path: str, codec: CodecBase) -> None:
        super().__init__(path=path, codec=codec)
        self._limit = limit

    def _protocol_factory(self) -> H2Protocol:
        return _Connection(super()._protocol_factory(), self._limit, set())

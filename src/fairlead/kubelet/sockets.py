"""gRPC over unix sockets: a door that answers a kubelet, and a question to one.

This is the one file that knows `grpclib`; what goes in and out is bytes and our own messages. Whatever a
peer does (vanish, stop reading, send rubbish) stays between it and its connection.
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
"""A request that names every unit of a node is a quarter of this."""
LONGEST_PATH: Final = 107
"""Bytes that the kernel takes as the path of a socket."""
GRACE: Final = 2.0
"""Seconds that calls have to come to their end when a door closes."""
_LONGEST_REASON: Final = 2000
_Bytes: TypeAlias = Stream[bytes, bytes]

# The library logs every peer that goes away; without this, Python prints that where nobody set up logging.
logging.getLogger("grpclib").addHandler(logging.NullHandler())


def quiet(_: object) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class UnaryMethod(Generic[M]):
    """A method that answers a message with a message."""

    path: str
    request: type[M]
    answer: Callable[[M], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class StreamMethod:
    """A method that answers with messages, already encoded, for as long as the peer listens."""

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
        self._busy: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Listen; a socket that lies there is taken to be stale and makes way, anything else does not."""
        server = _Server([self], codec=_Raw())
        try:
            _clear(self.path)
            await server.start(path=str(self.path))
            self._inode = _inode(self.path)
        except OSError as error:
            raise KubeletError(
                f"cannot listen on {self.path}: {error.strerror or error}",
                f"its folder must exist and be ours to write, and the path be {LONGEST_PATH} bytes at most",
            ) from None
        self._server, self._closing = server, False

    async def close(self) -> None:
        """Take the socket away, let calls end for a moment, then end them and every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        # While we listen nobody else can get our inode's number: look before letting go.
        with suppress(OSError):
            if _inode(self.path) == self._inode:
                os.unlink(self.path)
        self._closing = True
        await _settle(self._busy, self._grace)
        server.close()
        await _settle(self._busy, self._grace)
        await server.hang_up(self._grace)

    def __mapping__(self) -> dict[str, Handler]:
        """Return the methods as the library wants them."""
        return {method.path: self._handler(method) for method in self._methods}

    def _handler(self, method: Method) -> Handler:
        async def handle(stream: _Bytes) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._busy.add(task)
            try:
                await (
                    self._feed(method, stream)
                    if isinstance(method, StreamMethod)
                    else self._call(method, stream)
                )
            finally:
                self._busy.discard(task)

        kind = Cardinality.UNARY_STREAM if isinstance(method, StreamMethod) else Cardinality.UNARY_UNARY
        return Handler(handle, kind, bytes, bytes)

    async def _call(self, call: UnaryMethod[M], stream: _Bytes) -> None:
        data = await self._received(stream)
        try:
            request = decode(call.request, data)
        except ValueError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, f"{call.path}: {error}") from None
        try:
            answer = encode(await call.answer(request))
        except AllocationRefusedError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, reason(error)) from None
        except FairleadError as error:
            raise GRPCError(Status.INTERNAL, reason(error)) from None
        except Exception as error:  # noqa: BLE001  # a fault of ours: say it, and serve the next call
            self._say(f"{call.path} failed: {error!r}")
            raise GRPCError(Status.INTERNAL, f"{call.path} failed: see the log of the agent") from None
        await stream.send_message(answer)

    async def _feed(self, feed: StreamMethod, stream: _Bytes) -> None:
        await self._received(stream)
        async with aclosing(feed.items()) as items:
            async for item in items:
                await stream.send_message(item)

    async def _received(self, stream: _Bytes) -> bytes:
        if self._closing:
            raise GRPCError(Status.UNAVAILABLE, "the agent is going away")
        try:
            data = await stream.recv_message()
        except (AssertionError, NotImplementedError):  # cut off, or compressed though nobody agreed to that
            data = None
        if data is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "there is no message that could be read")
        return data


def reason(error: FairleadError) -> str:
    """Return why something cannot be, as the user of a pod reads it in an event."""
    text = f"{error} ({error.hint})" if error.hint else str(error) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


async def call(path: Path, method: str, request: Message, answer: type[M], timeout: float, limit: int) -> M:
    """Ask one question on a connection of its own; whatever goes wrong is a KubeletError."""
    # The library cancels the task that waits for a line that broke: let that be a task of its own.
    return await asyncio.create_task(_ask(path, method, request, answer, timeout, limit))


async def _ask(path: Path, method: str, request: Message, answer: type[M], timeout: float, limit: int) -> M:
    channel = _Channel(limit, path=str(path), codec=_Raw())
    try:
        async with aio.timeout(timeout):
            asked = channel.request(method, Cardinality.UNARY_UNARY, bytes, bytes)
            async with asked as stream:
                await stream.send_message(encode(request), end=True)
                data = await stream.recv_message()
        if data is None:
            raise ValueError("it gave no answer")
        return decode(answer, data)
    except TimeoutError:
        raise KubeletError(
            f"{path}: no answer within {timeout:g} s", "see whether the kubelet runs"
        ) from None
    except Exception as error:  # whatever the peer made the library raise
        raise KubeletError(
            f"{path}: {_why(error)}", "see whether the kubelet runs and lets us ask"
        ) from error
    finally:
        channel.close()


def _why(error: Exception) -> str:
    if isinstance(error, GRPCError):
        return f"{error.status.name}: {error.message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, AttributeError):
        return "the connection broke"  # the library stumbles over one that ends in the wrong moment
    return str(error) or type(error).__name__


def _clear(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "something that is no socket lies there")
        os.unlink(path)


def _inode(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


async def _settle(futures: Iterable[asyncio.Future[Any]], seconds: float | None) -> None:
    if waited := set(futures):
        await asyncio.wait(waited, timeout=seconds)


class _Raw(CodecBase):
    """Leaves messages to us."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Return the message, which is bytes already."""
        return cast(bytes, message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        """Return the message as it came."""
        return data


class _Line(H2Protocol):
    """A connection that bounds what it takes in, fails in silence, and is seen to its end."""

    def __init__(self, made: H2Protocol, limit: int, lines: "set[_Line]") -> None:
        super().__init__(made.handler, made.config, made.h2_config)
        self._limit = limit
        self._lines = lines
        self.gone = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin."""
        self.transport = cast(Transport, transport)
        self._lines.add(self)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        try:
            super().data_received(data)
            streams = self.processor.streams.values()
            if any(stream.data_received > self._limit for stream in streams):
                self.processor.close(f"it sent more than {self._limit} bytes")
        except Exception:  # noqa: BLE001  # bytes that no peer in its senses sends can make the library raise
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End, and wake those who wait for a peer that will never read again."""
        self.connection.resume_writing()
        super().connection_lost(exc)
        self._lines.discard(self)
        if not self.gone.done():
            self.gone.set_result(None)


class _Server(Server):
    def __init__(self, doors: Sequence[GrpcServer], codec: CodecBase) -> None:
        super().__init__(doors, codec=codec)
        self._lines: set[_Line] = set()

    def _protocol_factory(self) -> H2Protocol:
        return _Line(super()._protocol_factory(), REQUEST_LIMIT, self._lines)

    async def hang_up(self, grace: float) -> None:
        """Close every connection. One that is closed waits for its peer to read; the grace ends that."""
        lines = tuple(self._lines)
        for line in lines:
            line.transport.close()
        await _settle((line.gone for line in lines), grace)
        for line in lines:
            line.transport.abort()
        await _settle((line.gone for line in lines), None)


class _Channel(Channel):
    def __init__(self, limit: int, path: str, codec: CodecBase) -> None:
        super().__init__(path=path, codec=codec)
        self._limit = limit

    def _protocol_factory(self) -> H2Protocol:
        return _Line(super()._protocol_factory(), self._limit, set())

"""One stream of gRPC: what has arrived, what may leave, how it ended."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.http2 import frames, grpc
from fairlead.pipeline.link.http2.channel import Buffer
from fairlead.pipeline.link.http2.grpc import GrpcStatus
from fairlead.pipeline.link.http2.messages import MessageAssembler
from fairlead.pipeline.link.http2.windows import ReceiveAllowance, SendAllowance

if TYPE_CHECKING:
    from fairlead.pipeline.link.http2.connection import Http2Connection

STREAM_WINDOW: Final = 1 << 23
"""Bytes that a stream holds for a program that does not read."""
_MESSAGE_COST: Final = 64
"""What a message that waits counts at least: empty ones need memory too."""
_MOST_WAITING: Final = STREAM_WINDOW // _MESSAGE_COST
_CUT: Final = GrpcStatus(grpc.UNAVAILABLE, "the stream was cut")
_FINE: Final = GrpcStatus(grpc.OK)


class Stream:
    """Both directions of one call; any thread may use it."""

    def __init__(self, connection: "Http2Connection", number: int, allowance: int, most_message: int) -> None:
        self.number = number
        self.allowance = SendAllowance(allowance)
        self.headers: Mapping[str, str] = {}
        """The first headers of the other side."""
        self.status: GrpcStatus | None = None
        """How the other side has ended the stream, or the connection; None: it goes on."""
        self._connection = connection
        self._changed: threading.Condition = connection.changed
        self._reader = MessageAssembler(most_message)
        self._received = ReceiveAllowance(STREAM_WINDOW)
        self._waiting: deque[memoryview] = deque()
        self._deliver: Callable[[memoryview], None] | None = None
        self._delivering = threading.Lock()
        self._on_end: list[Callable[[], None]] = []
        self._is_sending = True
        self._has_answered = connection.is_client

    @property
    def is_open(self) -> bool:
        """Whether either side may still send."""
        return self._is_sending or self.status is None

    @property
    def may_send(self) -> bool:
        """Whether what this side sends still has a reader: a client that has ended its half still reads."""
        half = self.status is not None and self.status.code == grpc.OK and not self._connection.is_client
        return self._is_sending and (self.status is None or half)

    # The program's side

    def messages(self) -> Iterator[memoryview]:
        """Yield what arrives, until the other side has ended the stream in whatever way."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self.status is not None)
                if not self._waiting:
                    return
                message = self._waiting.popleft()
            self._consume(len(message))
            yield message

    def deliver(self, on_message: Callable[[memoryview], None]) -> None:
        """Call with what has arrived and with what arrives, in order, in the thread that reads.

        A FrameError of the callback ends the stream.
        """
        with self._delivering:
            with self._changed:
                waiting, self._deliver = list(self._waiting), on_message
                self._waiting.clear()
            for message in waiting:
                self._consume(len(message))
                self._hand_over(on_message, message)

    def wait(self) -> GrpcStatus:
        """Wait until the other side has ended the stream, and return how."""
        with self._changed:
            self._changed.wait_for(lambda: self.status is not None)
            assert self.status is not None
            return self.status

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back once the other side or the connection has ended the stream; at once if it has."""
        with self._changed:
            if self.status is None:
                self._on_end.append(callback)
                return
        callback()

    def send(self, message: Sequence[Buffer]) -> None:
        """Send a message, in pieces; StreamEndedError once the stream is over."""
        total = sum(map(len, message))
        self._connection.send_data(self, [grpc.message_prefix(total), *message], total + grpc.PREFIX_BYTES)

    def answer(self) -> None:
        """Begin the answer of a server, at once: messages may be long in coming."""
        if not self._has_answered:
            self._has_answered = True
            self._connection.send_headers(self.number, grpc.RESPONSE_HEADERS, ends=False)

    def end(self, status: GrpcStatus = _FINE) -> None:
        """End this side's half; a server says how."""
        with self._changed:
            if not self._is_sending:
                return
            self._is_sending = False
        if self._connection.is_client:
            self._connection.send_control(frames.frame(frames.DATA, frames.END_STREAM, self.number))
        else:
            self.answer()
            self._connection.send_headers(self.number, grpc.trailers(status), ends=True)
        if self.status is not None:
            self._connection.forget(self)

    def cancel(self, status: GrpcStatus = _CUT) -> None:
        """End both halves at once; a server that still sends says how."""
        if self.is_open:
            if not self._connection.is_client and status is not _CUT:
                self.end(status)
            code = frames.CANCEL if self._is_sending else frames.NO_ERROR
            self._connection.send_control(frames.reset(self.number, code))
        self._is_sending = False
        self.on_ended(status)
        self._connection.forget(self)

    # The connection's side: its reading thread

    def room(self) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.room()

    def take(self, size: int) -> None:
        """Count the payload of a frame against what was allowed."""
        with self._changed:
            self._received.take(size)

    def on_padding(self, size: int) -> None:
        """Count bytes that belong to no message."""
        self._consume(size - grpc.PREFIX_BYTES)

    def filled(self, count: int) -> None:
        """Count bytes that were read to the room, and pass on what they complete."""
        try:
            message = self._reader.filled(count)
        except FrameError as error:
            self.cancel(GrpcStatus(grpc.RESOURCE_EXHAUSTED, str(error)))
            return
        if message is None:
            return
        with self._delivering:
            with self._changed:
                deliver = self._deliver
                if deliver is None:
                    self._waiting.append(message)
                    if len(self._waiting) > _MOST_WAITING:
                        raise FrameError("more messages than a stream holds")
                    self._changed.notify_all()
                    return
            self._consume(len(message))
            self._hand_over(deliver, message)

    def on_headers(self, headers: Mapping[str, str], *, ends: bool) -> None:
        """Take the headers of the other side: its first ones, its last ones, or both at once."""
        if not self.headers:
            self.headers = headers
        if ends:
            self.on_half_end(headers)

    def on_half_end(self, headers: Mapping[str, str] | None = None) -> None:
        """Note that the other side sends no more; `headers` are a client's way to learn the status."""
        if not self._reader.is_between:
            self.on_ended(GrpcStatus(grpc.INTERNAL, "the stream ends within a message"))
        elif headers is not None and self._connection.is_client:
            self.on_ended(grpc.read_status(headers))
        else:
            self.on_ended(_FINE)
        if not self.is_open:
            self._connection.forget(self)

    def on_ended(self, status: GrpcStatus) -> None:
        """Note how the stream ended; the first note counts."""
        with self._changed:
            if self.status is not None:
                return
            self.status = status
            callbacks, self._on_end = self._on_end, []
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    def _hand_over(self, deliver: Callable[[memoryview], None], message: memoryview) -> None:
        try:
            deliver(message)
        except FrameError as error:
            self.cancel(GrpcStatus(grpc.INVALID_ARGUMENT, str(error)))

    def _consume(self, length: int) -> None:
        with self._changed:
            increment = self._received.consume(length + grpc.PREFIX_BYTES)
        if increment and self.status is None:
            self._connection.send_control(frames.window_update(self.number, increment))


class StreamEndedError(FairleadError):
    """A stream has ended while this side was sending."""

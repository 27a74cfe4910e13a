"""One stream between two hosts, over any number of connections: nothing is lost or repeated between them.

Each side keeps what the other has not acknowledged. On a new connection both say what they have received, and
go on from there. A session ends when one side closes it, or does not know it any more.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import FrameError, boottime
from fairlead.pipeline.link.clock import ClockOffset
from fairlead.pipeline.link.pace import ChunkPace
from fairlead.pipeline.link.window import Assembler, Bytes, OpenMessage, SendWindow
from fairlead.pipeline.link.wire import PROTOCOL, Ack, Chunk, Close, Hello, Ping, Pong, decode, encode

T = TypeVar("T")
Pieces = tuple[Bytes, ...]
"""A message of the stream below."""
PING_PERIOD: Final = 0.5
_QUICK_PINGS: Final = 5
"""Of every connection, one after another: the first frames already have a clock offset."""


_ACK_DELAY: Final = 0.005
"""Seconds that a credit waits for others: an ack for each frame halves the rate of a link."""


class LinkLostError(FairleadError):
    """A session cannot go on although neither side has closed it."""


class LinkSession(Generic[T]):
    """Numbered messages both ways; any thread may call it."""

    connections = 0
    """How often the two sides were connected."""
    is_over = False
    """Neither side sends or receives any more."""
    failure = ""
    """Why the session is over, unless one side has closed it or is not wanted any more."""

    def __init__(
        self,
        hello: Mapping[str, Any],
        depth: int,
        open_message: Callable[[memoryview, int], OpenMessage[T]],
        on_message: Callable[[T], None],
        on_change: Callable[[], None] = lambda: None,
        now: Callable[[], float] = boottime,
    ) -> None:
        """Take what names the session, how many messages may be under way, and what receives messages.

        `on_change` is called, without waiting, when credits come back and when the session ends.
        """
        self._now = now
        self.clock = ClockOffset()
        self._hello = dict(hello)
        self._window = SendWindow(depth)
        self._pace = ChunkPace()
        self._assembler = Assembler(open_message)
        self._on_message = on_message
        self._on_change = on_change
        self._released = 0
        self._acked = Ack(0, 0)
        self._free_since = 0.0
        """Since when a credit waits to be given back."""
        self._behind_since = 0.0
        """Since when a message is received and not acknowledged."""
        self._busy_since = 0.0
        """Since when the other side lacks a message; 0: it has every one."""
        self._busy = 0.0
        self._depth = depth
        self.changed = threading.Condition(lock := threading.RLock())
        """For the ends of a link, which wait for credits and messages."""
        self._to_send = threading.Condition(lock)
        """For streams, which wait for something to send; a thread that wakes for nothing is dear."""
        self._connection, self._is_ready = 0, False
        self._pong: Ping | None = None
        self._pong_arrived = 0.0
        self._pings, self._pinged = 0, -math.inf
        self._closing = False

    @property
    def is_connected(self) -> bool:
        """Whether the other side is there."""
        return self._is_ready and not self.is_over

    @property
    def has_left(self) -> bool:
        """Whether this side has closed the session; each later connection says so again."""
        return self.is_over and self._closing and not self.failure

    @property
    def credits(self) -> int:
        """How many messages can be posted now."""
        with self.changed:
            return self._window.credits

    @property
    def sent_bytes(self) -> int:
        """Bytes that the other side has received."""
        return self._window.acked_bytes

    @property
    def send_seconds(self) -> float:
        """How long messages were on their way to it, without what a single one takes to be acknowledged."""
        with self.changed:
            return self._busy + (self._on_way() if self._busy_since else 0.0)

    def _on_way(self) -> float:
        overhead = _ACK_DELAY + (self.clock.round_trip or 0.0)
        return max(0.0, self._now() - self._busy_since - overhead)

    def post(self, parts: Sequence[Bytes], on_ack: Callable[[], None] | None = None) -> None:
        """Send a message, now or with the next connection; ValueError without a credit."""
        with self.changed:
            self._window.post(parts, on_ack)
            self._busy_since = self._busy_since or self._now()
            self._to_send.notify_all()

    def release(self) -> None:
        """Give the other side one credit back."""
        with self.changed:
            is_first = self._released == self._acked.released
            if is_first:
                self._free_since = self._now()
            self._released += 1
            if is_first or self._is_ack_due():
                self._to_send.notify_all()

    def close(self) -> None:
        """Leave, once the other side has every message; does not wait for it."""
        with self.changed:
            self._closing = True
            self._notify_all()

    def abandon(self, failure: str = "") -> None:
        """End the session here: the other side is not wanted any more, or it cannot go on, and why."""
        with self.changed:
            if not self.is_over:
                self.failure = failure
            self._finish()

    def connect(self) -> int:
        """Begin a connection, and return its number; an older one ends."""
        with self.changed:
            self._connection += 1
            self._is_ready = False
            self._pings, self._pinged, self._pong = 0, -math.inf, None
            self._notify_all()
            return self._connection

    def disconnect(self, connection: int) -> None:
        """End a connection; the session waits for the next one."""
        with self.changed:
            if connection == self._connection:
                self._connection += 1
                self._is_ready = False
                self._notify_all()

    def outgoing(self, connection: int) -> Iterator[Pieces]:
        """Yield what this side sends on a connection, until that ends."""
        if (hello := self.greet(connection)) is None:
            return
        yield (hello,)
        self._pace = ChunkPace()
        while (message := self._wait_for_next(connection)) is not None:
            begin = self._now()
            yield message
            self._pace.on_sent(sum(map(len, message)), self._now() - begin)
        if self.has_left:
            yield (encode(Close()),)

    def greet(self, connection: int) -> bytes | None:
        """Return the first message of a connection; None: it has ended already.

        A connection that has ended must not count what it says as said: the other side never reads it.
        """
        with self.changed:
            if connection != self._connection:
                return None
            self._acked = Ack(self._assembler.received, self._released)
            state = {"protocol": PROTOCOL, "received": self._acked.received, "released": self._acked.released}
            return encode(Hello(self._hello | state | {"offset": self._assembler.offset}))

    def take(self, connection: int) -> Pieces | None:
        """Return what this side has to send on a connection now; None: nothing."""
        with self.changed:
            is_open = connection == self._connection and self._is_ready and not self.is_over
            return self._next() if is_open else None

    def receive(self, connection: int, data: Bytes) -> None:
        """Handle what came on a connection; FrameError for nonsense, after which the connection must end."""
        message = decode(data)
        with self.changed:
            if connection != self._connection or self.is_over:
                return
            if not self._is_ready and not isinstance(message, Hello):
                raise FrameError("a message before the hello")
            self._handle(message)

    def _handle(self, message: Any) -> None:
        match message:
            case Chunk():
                if self._assembler.received - self._released >= self._depth:
                    raise FrameError(f"message {message.number} without a credit")
                content = self._assembler.add(message)
                if content is not None:
                    is_first = self._assembler.received - self._acked.received == 1
                    self._behind_since = self._now() if is_first else self._behind_since
                    self._on_message(content)
                    self.changed.notify_all()
                    if is_first or self._is_ack_due():
                        self._to_send.notify_all()
            case Ack():
                self._window.on_ack(message)
                if self._busy_since and self._window.is_empty:
                    self._busy, self._busy_since = self._busy + self._on_way(), 0.0
                self._on_change()
                self.changed.notify_all()
                if self._closing:
                    self._to_send.notify_all()
            case Ping():
                self._pong, self._pong_arrived = message, self._now()
                self._to_send.notify_all()
            case Pong():
                self.clock.add(message.sent, message.arrived, message.answered, self._now())
                self.changed.notify_all()
            case Hello():
                self._on_hello(message)
            case Close():
                self._finish()

    def _on_hello(self, message: Hello) -> None:
        body: dict[str, Any] = {"offset": 0} | message.body
        received, released, offset = (body.get(name) for name in ("received", "released", "offset"))
        if message.body.get("protocol") != PROTOCOL:
            raise FrameError(f"protocol {message.body.get('protocol')!r}: this host speaks {PROTOCOL}")
        if (
            self._is_ready
            or type(received) is not int
            or type(released) is not int
            or type(offset) is not int
        ):
            raise FrameError("a hello that makes no sense")
        self._window.rewind(Ack(received, released), offset)
        self._is_ready = True
        self.connections += 1
        self._on_change()
        self._notify_all()

    def _finish(self) -> None:
        self.is_over = True
        self._on_change()
        self._notify_all()

    def _notify_all(self) -> None:
        self.changed.notify_all()
        self._to_send.notify_all()

    def _wait_for_next(self, connection: int) -> Pieces | None:
        """Return the next message to send; None: the connection or the session is over."""
        with self.changed:
            while connection == self._connection and not self.is_over:
                message = self.take(connection)
                if message is not None:
                    return message
                if self.is_over:
                    break
                pending = self._released > self._acked.released or (
                    self._assembler.received > self._acked.received
                )
                self._to_send.wait(_ACK_DELAY if pending else self._ping_period())
        return None

    def _next(self) -> Pieces | None:
        if self._pong is not None:
            ping, self._pong = self._pong, None
            return (encode(Pong(ping.sent, self._pong_arrived, self._now())),)
        if self._is_ack_due():
            self._acked = Ack(self._assembler.received, self._released)
            return (encode(self._acked),)
        if self._closing and self._window.is_empty:
            self._finish()
            return None
        chunk = self._window.next_chunk(self._pace.most) if not self._is_first_exchange() else None
        if chunk is None and self._is_ping_due():
            self._pings += 1
            self._pinged = self._now()
            return (encode(Ping(self._pinged)),)
        return chunk

    def _is_ack_due(self) -> bool:
        """Return whether the other side waits for news: a credit, or room for what it keeps."""
        behind = self._assembler.received - self._acked.received
        free = self._released - self._acked.released
        now = self._now()
        waited = (free > 0 and now - self._free_since >= _ACK_DELAY) or (
            behind > 0 and now - self._behind_since >= _ACK_DELAY
        )
        return waited or free >= max(1, self._depth // 2) or behind >= max(1, self._depth // 2)

    def _is_first_exchange(self) -> bool:
        """Return whether the first ping of the connection is still due: it must not wait behind frames."""
        return self._pings == 0

    def _is_ping_due(self) -> bool:
        return self._now() - self._pinged >= self._ping_period()

    def _ping_period(self) -> float:
        return PING_PERIOD / 10 if self._pings < _QUICK_PINGS else PING_PERIOD

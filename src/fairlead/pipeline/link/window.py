"""Both halves of a session, without connections: what is sent and not acknowledged, what is not whole yet."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.wire import CHUNK_DATA, Ack, Chunk, chunk_head

T = TypeVar("T")
Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class _Posted:
    """A message until the other side has it."""

    parts: tuple[Bytes, ...]
    total: int
    on_ack: Callable[[], None] | None


class SendWindow:
    """The messages that the other side may not have; at most `depth`, counted until it has released them."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._posted: deque[_Posted] = deque()
        self._acked = 0
        self._released = 0
        self._cursor = 0
        """The message, counted from the first one that is not acknowledged, that is sent next."""
        self._offset = 0
        self.acked_bytes = 0

    @property
    def credits(self) -> int:
        """How many messages can be posted now."""
        return self._depth - (self._acked + len(self._posted) - self._released)

    @property
    def is_empty(self) -> bool:
        """Whether the other side has every message."""
        return not self._posted

    @property
    def next_number(self) -> int:
        """The number of the message that is posted next."""
        return self._acked + len(self._posted)

    def post(self, parts: Sequence[Bytes], on_ack: Callable[[], None] | None = None) -> None:
        """Add a message, in pieces that stay as they are until the other side has it.

        ValueError without a credit.
        """
        if self.credits < 1:
            raise ValueError("no credit for another message")
        self._posted.append(_Posted(tuple(parts), sum(map(len, parts)), on_ack))

    def next_chunk(self, most: int = CHUNK_DATA) -> tuple[Bytes, ...] | None:
        """Return the next pieces to send, with at most so many bytes of a message; None: all was sent."""
        if self._cursor >= len(self._posted):
            return None
        posted = self._posted[self._cursor]
        pieces: list[Bytes] = [chunk_head(self._acked + self._cursor, self._offset, posted.total)]
        end = min(self._offset + most, posted.total)
        start = 0
        for part in posted.parts:
            first, last = max(self._offset - start, 0), min(end - start, len(part))
            if first < last:
                pieces.append(memoryview(part)[first:last])
            start += len(part)
        self._offset = end
        if end == posted.total:
            self._cursor, self._offset = self._cursor + 1, 0
        return tuple(pieces)

    def on_ack(self, ack: Ack) -> None:
        """Forget what the other side has; FrameError where it claims what it cannot have."""
        self._check(ack, self._acked + self._cursor)
        self._forget(ack)

    def _check(self, ack: Ack, sent: int) -> None:
        if not self._acked <= ack.received <= sent or not self._released <= ack.released <= ack.received:
            raise FrameError(f"{ack.received} messages acknowledged and {ack.released} released of {sent}")

    def _forget(self, ack: Ack) -> None:
        self._released = ack.released
        while self._acked < ack.received:
            posted = self._posted.popleft()
            self.acked_bytes += posted.total
            self._acked, self._cursor = self._acked + 1, self._cursor - 1
            if posted.on_ack is not None:
                posted.on_ack()

    def rewind(self, ack: Ack, offset: int = 0) -> None:
        """Begin on a new connection with the first byte that the other side lacks of the first such message.

        Where a link is slow and is cut often, a long message would else never be whole.
        """
        self._check(ack, self._acked + len(self._posted))
        ahead = ack.received - self._acked
        if offset and not (ahead < len(self._posted) and 0 < offset < self._posted[ahead].total):
            raise FrameError(f"{offset} bytes received of message {ack.received}")
        self._forget(ack)
        self._cursor, self._offset = 0, offset


@dataclass(frozen=True, slots=True)
class OpenMessage(Generic[T]):
    """A message whose first bytes have arrived."""

    content: T
    buffer: memoryview | None
    """Where its bytes go, from `skip` on; None: they came at once, and the content refers to them."""
    skip: int


class Assembler(Generic[T]):
    """Messages from their chunks, each once and in order."""

    def __init__(self, open_message: Callable[[memoryview, int], OpenMessage[T]]) -> None:
        """Take what makes room for a message, by its first bytes and its length; FrameError refuses it."""
        self._open_message = open_message
        self._open: OpenMessage[T] | None = None
        self._at = 0
        self._total = 0
        self.received = 0

    @property
    def offset(self) -> int:
        """How many bytes of the next message are here."""
        return self._at

    def add(self, chunk: Chunk) -> T | None:
        """Return the message that a chunk completes; None: it is not whole, or was received before."""
        if chunk.number < self.received:
            return None
        if chunk.number > self.received:
            raise FrameError(f"message {chunk.number} before message {self.received}")
        data = chunk.data
        if chunk.offset == 0:  # also again, after a new connection
            self._open = self._open_message(data, chunk.total)
            self._at, self._total = 0, chunk.total
            data = data[self._open.skip :]
        if self._open is None or chunk.offset != self._at or chunk.total != self._total:
            raise FrameError(f"byte {chunk.offset} of message {chunk.number} where byte {self._at} is next")
        if self._open.buffer is not None:
            start = self._at - self._open.skip if self._at else 0
            self._open.buffer[start : start + len(data)] = data
        self._at += len(chunk.data)
        if self._at < self._total:
            return None
        done, self._open = self._open, None
        self.received += 1
        self._at = 0
        return done.content

"""Flow control of HTTP/2: how much may be sent, and when the other side may send more. Pure."""

from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.http2.frames import FIRST_WINDOW, MOST_WINDOW


class SendAllowance:
    """How many bytes of data may leave on a stream, or on a connection."""

    def __init__(self, first: int = FIRST_WINDOW) -> None:
        self.left = first
        """May be below zero, after the other side has made its first window smaller."""

    def take(self, size: int) -> None:
        """Count bytes that leave."""
        self.left -= size

    def add(self, increment: int) -> None:
        """Count what the other side allows; FrameError beyond the largest window."""
        if not increment or self.left + increment > MOST_WINDOW:
            raise FrameError(f"a window of {self.left} bytes and {increment} more")
        self.left += increment


class ReceiveAllowance:
    """How many bytes of data the other side may send."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size
        self._consumed = 0

    def take(self, size: int) -> None:
        """Count bytes that have arrived; FrameError beyond what was allowed."""
        self._left -= size
        if self._left < 0:
            raise FrameError("more data than was allowed")

    def consume(self, size: int) -> int:
        """Count bytes that are not held any more; return the increment to send now, or 0."""
        self._consumed += size
        if 2 * self._consumed < self._size:
            return 0
        increment, self._consumed = self._consumed, 0
        self._left += increment
        return increment

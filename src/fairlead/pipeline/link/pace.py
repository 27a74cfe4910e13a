"""How long the chunks of a connection may be: a quick link takes whole frames, a slow one short pieces."""

from typing import Final

from fairlead.pipeline.link.wire import CHUNK_BYTES, CHUNK_HEAD_BYTES

FIRST: Final = 1 << 20
_LEAST: Final = 1 << 16
QUICK: Final = 0.025
"""Seconds: the next chunk may be twice as long as one that took less."""
SLOW: Final = 0.1
"""Seconds: the next chunk is at most half as long as one that took more.

A cut loses the chunk under way, and pings and acks wait behind it.
"""


class ChunkPace:
    """The length of the next chunk, from the time that the last ones took."""

    def __init__(self) -> None:
        self._bytes = FIRST

    @property
    def most(self) -> int:
        """How many bytes of a message the next chunk may have."""
        return self._bytes - CHUNK_HEAD_BYTES

    def on_sent(self, size: int, seconds: float) -> None:
        """Count a message of gRPC: its bytes, and the seconds until the stream took the next one."""
        if seconds > SLOW:
            self._bytes = max(_LEAST, min(self._bytes, size) // 2)
        elif seconds < QUICK and 2 * size > self._bytes:  # a short message says nothing of long ones
            self._bytes = min(CHUNK_BYTES, 2 * self._bytes)

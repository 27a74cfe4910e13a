"""Messages of gRPC from the data of a stream, read to where they stay. Pure."""

from typing import Final

import numpy as np

from fairlead.pipeline.link.http2.grpc import PREFIX_BYTES, read_prefix

# glibc gives memory above a threshold back at once, and raises the threshold to what was freed so. Else every
# message of a link would be mapped, touched and unmapped, which costs more than to send it.
bytearray(1 << 24)
_EMPTY: Final = memoryview(b"")


class MessageAssembler:
    """Where the next bytes of a stream belong."""

    def __init__(self, most: int) -> None:
        """Take how long a message may be."""
        self._most = most
        self._prefix = memoryview(bytearray(PREFIX_BYTES))
        self._body: memoryview | None = None
        self._at = 0

    @property
    def is_between(self) -> bool:
        """Whether no message is half here."""
        return self._body is None and not self._at

    def room(self) -> memoryview:
        """Return where to read to, never empty."""
        return (self._prefix if self._body is None else self._body)[self._at :]

    def filled(self, count: int) -> memoryview | None:
        """Count bytes that were read to the room; return the message that they complete.

        FrameError where a message is compressed or too long.
        """
        self._at += count
        if self._body is None:
            if self._at < PREFIX_BYTES:
                return None
            length = read_prefix(self._prefix, self._most)
            self._at = 0
            if not length:
                return _EMPTY
            self._body = np.empty(length, np.uint8).data  # not filled with zeros first
            return None
        if self._at < len(self._body):
            return None
        done, self._body, self._at = self._body, None, 0
        return done

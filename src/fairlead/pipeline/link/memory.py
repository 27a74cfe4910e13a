"""Where the message of a frame is written: it leaves as it lies there, without another copy."""

from collections.abc import Sequence
from io import BytesIO

from fairlead.pipeline.link.wire import CHUNK_HEAD_BYTES


class MessageMemory:
    """Room for a chunk that is a whole message: its head, the header of a frame, and the payload.

    gRPC takes bytes only. The value of a BytesIO is the object that its buffer writes to; were it a copy,
    this would be slower, and nothing else.
    """

    def __init__(self, header: int, payload: int) -> None:
        """Take the length of the frame header, which is a guess, and that of the payload."""
        self.header = header
        self.payload = payload
        self._file = BytesIO(bytes(CHUNK_HEAD_BYTES + header + payload))

    def buffers(self, sizes: Sequence[int]) -> tuple[memoryview, ...]:
        """Return the room for each part of the payload."""
        view, buffers, at = self._file.getbuffer(), [], CHUNK_HEAD_BYTES + self.header
        for size in sizes:
            buffers.append(view[at : at + size])
            at += size
        return tuple(buffers)

    def message(self, chunk_head: bytes, header: bytes) -> bytes:
        """Return the message; nothing may be written to its memory until the other side has it."""
        view = self._file.getbuffer()
        view[:CHUNK_HEAD_BYTES] = chunk_head
        view[CHUNK_HEAD_BYTES : CHUNK_HEAD_BYTES + self.header] = header
        del view
        return self._file.getvalue()

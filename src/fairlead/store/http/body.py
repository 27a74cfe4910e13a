"""The body of a request as it arrives: complete, or an error; no more in memory than the caller's buffer."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from fairlead.store.http.stream import ConnectionStream
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody

KEY: Final = "fairlead.body"
"""Where the environment of a request has its body."""
_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_LINE: Final = 1024
_TRAILERS: Final = 64


class _ReceivedBody:
    """What the two kinds of bodies share: the answer `100 Continue`, the pace, and whether it is complete."""

    def __init__(self, stream: ConnectionStream, proceed: Callable[[], None] | None) -> None:
        self._stream = stream
        self._proceed = proceed
        self._pace = stream.pace()
        self.is_complete = False
        self.received = 0
        """How many bytes of it have arrived."""

    @property
    def awaits_proceed(self) -> bool:
        """Whether the client waits to be told to send it."""
        return self._proceed is not None

    def receive(self, buffer: memoryview) -> int:
        """Receive some bytes; 0 at the end. ConnectionError where it ends before it is complete."""
        if self.is_complete:
            return 0
        if self._proceed is not None:
            proceed, self._proceed = self._proceed, None
            proceed()
        return self._next(buffer)

    def drain(self, most: int) -> None:
        """Drop what is left, where that is little and has arrived: the connection can be used again."""
        if self.is_complete or self._proceed is not None:
            return
        buffer, left = memoryview(bytearray(16 << 10)), most
        with self._stream.without_waiting(), suppress(OSError):
            while left > 0 and (count := self.receive(buffer)):
                left -= count

    def _next(self, buffer: memoryview) -> int:
        raise NotImplementedError

    def _some(self, buffer: memoryview) -> int:
        count = self._stream.receive(buffer)
        if not count:
            raise ConnectionError("the connection ended in the body of a request")
        self._pace.moved(count)
        self.received += count
        return count


class LengthBody(_ReceivedBody):
    """A body of a stated length."""

    def __init__(
        self, stream: ConnectionStream, length: int, proceed: Callable[[], None] | None = None
    ) -> None:
        super().__init__(stream, proceed)
        self.length = self._left = length
        self.is_complete = not length

    def _next(self, buffer: memoryview) -> int:
        count = self._some(buffer[: self._left])
        self._left -= count
        self.is_complete = not self._left
        return count


class ChunkedBody(_ReceivedBody):
    """A body in chunks; without its last, empty chunk it is not complete."""

    length = None

    def __init__(self, stream: ConnectionStream, proceed: Callable[[], None] | None = None) -> None:
        super().__init__(stream, proceed)
        self._left = 0
        self._began = False

    def _next(self, buffer: memoryview) -> int:
        if not self._left:
            self._begin_chunk()
        if self.is_complete:
            return 0
        count = self._some(buffer[: self._left])
        self._left -= count
        return count

    def _begin_chunk(self) -> None:
        """Read the size of the next chunk, after the end of the one before."""
        if self._began and self._stream.readline(2) != b"\r\n":
            raise ConnectionError("a chunk of a body does not end where it says")
        self._began = True
        match = _SIZE.fullmatch(self._stream.readline(_LINE))
        if match is None:
            raise ConnectionError("the connection ended between two chunks, or the size of one is malformed")
        self._left = int(match[1], 16)
        if not self._left:
            self._end()

    def _end(self) -> None:
        """Drop the trailers."""
        for _ in range(_TRAILERS):
            line = self._stream.readline(_LINE)
            if line == b"\r\n":
                self.is_complete = True
                return
            if not line.endswith(b"\r\n"):
                break
        raise ConnectionError("the connection ended before the last line of a body")


def body_of(environ: dict[str, Any]) -> RequestBody:
    """Return the body of a request."""
    body: RequestBody = environ[KEY]
    return body


def read_whole(body: RequestBody, most: int) -> bytes:
    """Return a body of at most so many bytes; RefusedError where it is longer."""
    if body.length is not None and body.length > most:
        raise RefusedError(413, f"a body of this request has at most {most} bytes")
    data, buffer = bytearray(), memoryview(bytearray(64 << 10))
    while count := body.receive(buffer):
        data += buffer[:count]
        if len(data) > most:
            raise RefusedError(413, f"a body of this request has at most {most} bytes")
    if body.length is not None and len(data) != body.length:
        raise ConnectionError("the body ended before its stated length")
    return bytes(data)

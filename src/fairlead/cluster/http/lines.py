"""Split a stream of bytes into lines, wherever its chunks end. Pure."""

from typing import Final

from fairlead.errors import ClusterError

LONGEST: Final = 64 * 1024 * 1024
"""No object comes near this limit: etcd stores none over 1.5 MB."""


class LineSplitter:
    """Collects chunks and returns complete lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        """The start of an incomplete line, in pieces: joining them at each chunk would be quadratic."""
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without empty ones."""
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._keep(chunk)
            return []
        self._parts.append(head)
        first = b"".join(self._parts) if len(self._parts) > 1 else head
        *lines, last = rest.split(b"\n")
        self._parts, self._size = [], 0
        self._keep(last)
        return [line for line in (first, *lines) if line]

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > LONGEST:
                raise ClusterError(f"the server sent a line of more than {LONGEST >> 20} MiB")

    @property
    def incomplete(self) -> bool:
        """Whether the stream stopped in the middle of a line."""
        return any(part.strip() for part in self._parts)

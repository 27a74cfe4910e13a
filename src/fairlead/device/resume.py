"""Large uploads go on where a cut one ended: the store keeps what has arrived, and says how much that is."""

import hashlib
from collections.abc import Mapping
from typing import BinaryIO, Final

from fairlead.device.connection import BLOCK, Reply, StoreConnection
from fairlead.device.queue import QueuedUpload
from fairlead.errors import TransferError

FROM_SIZE: Final = 4 << 20
"""Bytes from which an upload is sent so that it can go on; a smaller one is sent again as fast."""
_TRIES: Final = 3
"""How often the store is asked where to go on, before the upload is put off."""


class VerifiedContent:
    """The content of an upload, whose checksum is computed while it is read."""

    def __init__(self, file: BinaryIO, upload: QueuedUpload) -> None:
        self._file = file
        self._upload = upload
        self._digest = hashlib.sha256()
        self._size = 0

    def at(self, offset: int) -> "VerifiedContent":
        """Go to a place; what is before it is read again, because its checksum counts as well."""
        if offset != self._size:
            self._file.seek(0)
            self._digest, self._size = hashlib.sha256(), 0
            while self._size < offset:
                if not self.read(min(BLOCK, offset - self._size)):
                    raise TransferError("the queued content is shorter than its record")
        return self

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        try:
            block = self._file.read(size)
        except OSError as error:  # not one of the connection
            raise TransferError(f"its content cannot be read: {error.strerror or error}") from None
        self._digest.update(block)
        self._size += len(block)
        return block

    @property
    def is_changed(self) -> bool:
        """Whether all was read, and is not what was queued."""
        return self._size == self._upload.size and self._digest.hexdigest() != self._upload.sha256


def put_rest(
    connection: StoreConnection, path: str, headers: Mapping[str, str], content: VerifiedContent, size: int
) -> Reply:
    """PUT what the store does not have yet of a file, and return its last reply.

    The first request has no body: its conditions are checked before much is sent in vain.
    """
    for _ in range(_TRIES):
        reply = connection.request("PUT", path, {**headers, "Content-Range": f"bytes */{size}"})
        offset = _offset_of(reply, size)
        if offset is None:
            return reply
        part = {**headers, "Content-Range": f"bytes {offset}-{size - 1}/{size}"}
        reply = connection.upload(path, part, lambda: content.at(offset), size - offset, repeats=False)  # noqa: B023  # called now
        is_damaged = reply.status == 400 and offset > 0 and not content.is_changed
        has_moved = reply.status == 409 and "upload-offset" in reply.headers
        if not is_damaged and not has_moved:
            break
    return reply


def _offset_of(reply: Reply, size: int) -> int | None:
    """Return how many bytes have arrived; None where the reply says something else."""
    text = reply.headers.get("upload-offset", "")
    offset = int(text) if text.isdecimal() and len(text) < 20 else -1
    return offset if reply.status == 202 and 0 <= offset < size else None

"""The body of a request as it arrives."""

from typing import Any, Final

from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody

_KEY: Final = "fairlead.body"


class InputBody:
    """A body read from a WSGI input."""

    def __init__(self, stream: Any, length: int | None) -> None:
        self._stream = stream
        self.length = length

    def receive(self, buffer: memoryview) -> int:
        """Receive some bytes; 0 at the end."""
        try:
            data = self._stream.read(len(buffer))
        except ValueError as error:  # a malformed or cut chunk
            raise ConnectionError(str(error)) from None
        buffer[: len(data)] = data
        return len(data)


def body_of(environ: dict[str, Any]) -> RequestBody:
    """Return the body of a request."""
    if _KEY not in environ:
        environ[_KEY] = InputBody(environ["wsgi.input"], _length(environ))
    body: RequestBody = environ[_KEY]
    return body


def _length(environ: dict[str, Any]) -> int | None:
    if environ.get("wsgi.input_terminated"):
        if "CONTENT_LENGTH" in environ:
            raise RefusedError(400, "a request has a length or comes in chunks, not both")
        return None
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        length = -1
    if length < 0:
        raise RefusedError(400, "Content-Length is not a number of bytes")
    return length

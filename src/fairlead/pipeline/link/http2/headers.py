"""Headers of HTTP/2 (RFC 7541) without tables: they depend on nothing that was written before. Pure."""

from fairlead.pipeline.link.http2 import frames
from fairlead.pipeline.link.http2.grpc import Headers

_NEVER_INDEXED = b"\x10"


def header_frame(stream: int, headers: Headers, *, ends: bool) -> bytes:
    """Return the headers of a stream, in one frame."""
    block = b"".join(_NEVER_INDEXED + _text(name) + _text(value) for name, value in headers)
    flags = frames.END_HEADERS | (frames.END_STREAM if ends else 0)
    return frames.frame(frames.HEADERS, flags, stream, block)


def _text(value: str) -> bytes:
    data = value.encode("latin-1", "replace")
    return _number(len(data), 7) + data


def _number(value: int, bits: int) -> bytes:
    """Return a number whose first byte has this many bits for it."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    out = bytearray((most,))
    value -= most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)

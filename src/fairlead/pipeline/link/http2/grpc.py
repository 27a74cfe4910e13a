"""Messages and statuses of gRPC in streams of HTTP/2. Pure."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from fairlead.pipeline.frame import FrameError

PREFIX_BYTES: Final = 5
CONTENT_TYPE: Final = "application/grpc"
OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT = 0, 1, 2, 3
NOT_FOUND, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 5, 8, 9
UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 12, 13, 14
REFUSALS: Final = frozenset((NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED))
"""Statuses after which another attempt would end the same way."""
_NAMES: Final = {
    CANCELLED: "CANCELLED",
    UNKNOWN: "UNKNOWN",
    INVALID_ARGUMENT: "INVALID_ARGUMENT",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
    FAILED_PRECONDITION: "FAILED_PRECONDITION",
    UNIMPLEMENTED: "UNIMPLEMENTED",
    INTERNAL: "INTERNAL",
    UNAVAILABLE: "UNAVAILABLE",
}
_PREFIX: Final = struct.Struct(">BI")
_MOST_DETAILS: Final = 300
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GrpcStatus:
    """How a stream ended."""

    code: int
    details: str = ""

    @property
    def text(self) -> str:
        """The status for people."""
        return self.details or _NAMES.get(self.code, f"status {self.code}")


def message_prefix(length: int) -> bytes:
    """Return what precedes a message of this length."""
    return _PREFIX.pack(0, length)


def read_prefix(prefix: bytes | bytearray | memoryview, most: int) -> int:
    """Return the length of the message that follows; FrameError where it is compressed or too long."""
    compressed, length = _PREFIX.unpack(prefix)
    if compressed:
        raise FrameError("a compressed message")
    if length > most:
        raise FrameError(f"a message of {length} bytes: at most {most} are taken")
    return int(length)


def request_headers(path: str, authority: str, *, secure: bool) -> Headers:
    """Return the headers that open a stream."""
    return (
        (":method", "POST"),
        (":scheme", "https" if secure else "http"),
        (":path", path),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", CONTENT_TYPE),
        ("user-agent", "grpc-python-fairlead"),
    )


RESPONSE_HEADERS: Final = ((":status", "200"), ("content-type", CONTENT_TYPE))


def trailers(status: GrpcStatus) -> Headers:
    """Return the headers that end a stream."""
    head = (("grpc-status", str(status.code)),)
    if not status.details:
        return head
    return (
        *head,
        ("grpc-message", quote(status.details[:_MOST_DETAILS], safe=" !\"#$&'()*+,/:;<=>?@[]^`{|}")),
    )


def refusal_of(headers: Mapping[str, str]) -> GrpcStatus | None:
    """Return why a request opens no stream of gRPC; None: it does."""
    if headers.get(":method") != "POST" or not headers.get("content-type", "").startswith(CONTENT_TYPE):
        return GrpcStatus(UNIMPLEMENTED, "this port speaks gRPC alone")
    if headers.get("grpc-encoding", "identity") != "identity":
        return GrpcStatus(UNIMPLEMENTED, "messages must not be compressed")
    return None


def read_status(headers: Mapping[str, str]) -> GrpcStatus:
    """Return how the other side ended a stream, by its last headers."""
    code = headers.get("grpc-status", "")
    if not code.isdigit():
        answer = headers.get(":status", "")
        return GrpcStatus(
            UNKNOWN, f"the other side answers with HTTP status {answer[:20] or 'none'}, not with gRPC"
        )
    details = unquote(headers.get("grpc-message", ""), errors="replace")
    return GrpcStatus(int(code[:9]), details.strip().partition("\n")[0][:_MOST_DETAILS])


def header_map(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by name; the last one counts."""
    return dict(headers)

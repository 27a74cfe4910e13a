"""Objects to and from JSON: decoded straight into types, with null read as an absent field."""

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Metadata, Object, ObjectPart, Raw, ServerVersion, Status, T, WatchEvent
from fairlead.errors import ClusterError

Body = Object | Mapping[str, Any]
"""The body of a request: a typed object, or a whole manifest."""
S = TypeVar("S", bound=Struct)
V = TypeVar("V")


class _ListMeta(ObjectPart, frozen=True):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class _Page(Struct, Generic[T], frozen=True):
    items: list[T] = []
    metadata: _ListMeta = _ListMeta()


class _RawPage(Struct, frozen=True):
    items: list[msgspec.Raw] = []
    metadata: _ListMeta = _ListMeta()


class _Head(ObjectPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()


class _Line(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class ListPage(Struct, Generic[T], frozen=True):
    """A part of a list."""

    items: list[T]
    resource_version: str
    next: str
    """The token of the next page; empty on the last."""


_ENCODE: Final = msgspec.json.Encoder().encode
_LINE: Final = msgspec.json.Decoder(_Line)


@lru_cache(maxsize=256)
def _decoder(shape: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(shape)


@lru_cache(maxsize=256)
def _page_decoder(shape: type[Object]) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(_Page[shape])  # type: ignore[valid-type]  # known when it runs


@lru_cache(maxsize=256)
def _event_decoder(shape: type[Object]) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(WatchEvent[shape])  # type: ignore[valid-type]  # known when it runs


def without_nulls(value: Any) -> Any:
    """Return a document without its nulls: to the API, null and absent are the same."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value if item is not None]
    return value


def decode_as(shape: type[S], data: bytes | msgspec.Raw, what: str) -> S:
    """Decode one value of any of this program's types; a null field has its default."""
    try:
        value: S = _decoder(shape).decode(data)
        return value
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError as error:
        raise _unreadable(what, error) from None
    try:
        return msgspec.convert(without_nulls(msgspec.json.decode(data)), shape)
    except msgspec.MsgspecError as error:
        raise _unreadable(what, error) from None


def from_document(shape: type[V], document: Mapping[str, Any]) -> V:
    """Convert a document to one of this program's types; ValueError names the field that is wrong."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(document, shape)
    try:  # a field is null, or wrong
        return msgspec.convert(without_nulls(document), shape)
    except msgspec.ValidationError as error:
        raise ValueError(_readable(error)) from None


def decode(kind: Kind[T], data: bytes | msgspec.Raw) -> T:
    """Decode one object."""
    if kind.type is Raw:
        raw: T = _raw(kind, data)
        return raw
    return decode_as(kind.type, data, kind.resource)


def decode_document(data: bytes) -> dict[str, Any]:
    """Decode one object as plain JSON."""
    try:
        document: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise _unreadable("an object", error) from None
    return document


def decode_page(kind: Kind[T], data: bytes) -> ListPage[T]:
    """Decode a list, or one page of it."""
    try:
        if kind.type is not Raw:
            page = _page_decoder(kind.type).decode(data)
            return ListPage(page.items, page.metadata.resource_version, page.metadata.next)
    except msgspec.ValidationError:
        pass  # a field is null: decode one object at a time
    except msgspec.DecodeError as error:
        raise _unreadable(kind.resource, error) from None
    loose = decode_as(_RawPage, data, kind.resource)
    items = [decode(kind, item) for item in loose.items]
    return ListPage(items, loose.metadata.resource_version, loose.metadata.next)


def decode_event(kind: Kind[T], line: bytes) -> WatchEvent[T] | Status:
    """Decode one line of a watch; a Status is the server's reason for ending it."""
    if kind.type is not Raw and not line.startswith((b'{"type":"B', b'{"type":"E')):
        try:
            event: WatchEvent[T] = _event_decoder(kind.type).decode(line)
            if event.type not in ("BOOKMARK", "ERROR"):
                return event
        except msgspec.MsgspecError:
            pass  # the slower code below raises the error, if there is one
    try:
        loose = _LINE.decode(line)
    except msgspec.MsgspecError as error:
        raise _unreadable(f"the watch of {kind.resource}", error) from None
    if loose.type == "ERROR":
        return decode_as(Status, loose.object, f"the watch of {kind.resource}")
    if loose.type == "BOOKMARK" and kind.type is not Raw:
        # A bookmark has metadata alone, and a kind may require more fields.
        bare = decode_as(Object, loose.object, kind.resource)
        return WatchEvent(type=loose.type, object=cast("T", bare))
    return WatchEvent(type=loose.type, object=decode(kind, loose.object))


def decode_status(data: bytes) -> Status | None:
    """Decode a Status; None if the body is not one of Kubernetes'."""
    try:
        return msgspec.convert(without_nulls(msgspec.json.decode(data)), Status)
    except msgspec.MsgspecError:
        return None


def decode_version(data: bytes) -> ServerVersion:
    """Decode the server's version."""
    return decode_as(ServerVersion, data, "/version")


def encode(kind: Kind[Any], body: Body) -> bytes:
    """Encode an object with its API version and kind, which the server requires."""
    return _ENCODE(to_document(kind, body))


def encode_plain(value: Any) -> bytes:
    """Encode any value as JSON."""
    return _ENCODE(value)


def to_document(kind: Kind[Any], body: Body) -> dict[str, Any]:
    """Return an object as a manifest."""
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    if isinstance(body, Raw):
        fields = body.document()
    elif isinstance(body, Object):
        fields = msgspec.to_builtins(body)
    else:
        fields = dict(body)
    manifest = {**head, **fields}
    if not manifest["kind"]:
        raise TypeError(f"a manifest of {kind.resource} must name its kind")
    return manifest


def _raw(kind: Kind[Any], data: bytes | msgspec.Raw) -> Any:
    head = decode_as(_Head, data, kind.resource)
    return Raw(
        api_version=head.api_version or kind.api_version,
        kind=head.kind or kind.name,  # objects in a list have neither
        metadata=head.metadata,
        body=bytes(data),
    )


def _readable(error: Exception) -> str:
    """Return msgspec's message as `field: what`: msgspec puts the field last, behind a dollar sign."""
    what, _, path = str(error).partition(" - at `$.")
    what = what[0].lower() + what[1:]
    return f"{path.rstrip('`')}: {what}" if path else what


def _unreadable(what: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"the server's response for {what} cannot be read: {error}",
        hint="check that this is a Kubernetes API server, not a proxy's login page",
    )

"""Protocol buffers, as far as a kubelet's messages need them, to and from frozen dataclasses.

    @dataclass(frozen=True, slots=True)
    class Claim:
        namespace: str = at(1, "")
        uid: str = at(2, "")

    decode(Claim, encode(Claim("default", "u1")))

A field is text, bytes, a bool, an integer, a message, `str | None`, a tuple of texts, bytes or messages, or
a map from text. Unknown fields are skipped; malformed bytes raise ValueError. A kubelet writes a hundred
thousand unit ids into one message, so runs of them are read and written in tight loops.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Final, Protocol, TypeVar, get_args, get_origin, get_type_hints

from fairlead import varint

_DEEPEST: Final = 32
_VARINT, _FIXED64, _PIECE, _FIXED32 = 0, 1, 2, 5
_LARGEST_NUMBER: Final = 2**29 - 1
_SHORT: Final = tuple(bytes((size,)) for size in range(0x80))
T = TypeVar("T")


class Message(Protocol):
    """A frozen dataclass whose fields are made with `at` and `map_at`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


M = TypeVar("M", bound=Message)


def at(number: int, default: T, *, bits: int = 64) -> T:
    """Declare a field with its number; `bits` is the size of an integer."""
    field: T = dataclasses.field(default=default, metadata={"number": number, "bits": bits})
    return field


def map_at(number: int) -> Any:
    """Declare a map field with its number."""
    return dataclasses.field(default_factory=dict, metadata={"number": number, "bits": 64})


class _Kind(Enum):
    TEXT = auto()
    BYTES = auto()
    BOOL = auto()
    INTEGER = auto()
    MESSAGE = auto()


_KINDS: Final = {str: _Kind.TEXT, bytes: _Kind.BYTES, bool: _Kind.BOOL, int: _Kind.INTEGER}
_NUMBERS: Final = (_Kind.BOOL, _Kind.INTEGER)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: _Kind
    tag: int
    head: bytes
    bits: int = 64
    message: type[Message] | None = None
    many: bool = False
    mapped: bool = False
    optional: bool = False


@cache
def _fields(message: type[Message]) -> Mapping[int, _Field]:
    """Return a message's fields by their tags: field number and wire type."""
    hints = get_type_hints(message)
    fields = [_field(field, hints[field.name]) for field in dataclasses.fields(message)]
    return {field.tag: field for field in fields}


def _field(field: "dataclasses.Field[Any]", hint: Any) -> _Field:
    origin, args = get_origin(hint), get_args(hint)
    many, mapped, optional = origin is tuple, origin is not None and issubclass(origin, Mapping), False
    if many:
        hint = args[0]
    elif mapped:
        hint = args[1]
    elif origin is UnionType:
        hint, optional = args[0], True
    kind = _KINDS.get(hint, _Kind.MESSAGE)
    wire = _VARINT if kind in _NUMBERS and not mapped else _PIECE
    if (many and wire == _VARINT) or (mapped and kind not in (_Kind.TEXT, _Kind.MESSAGE)):
        raise TypeError(f"{field.name}: no message of a kubelet has such a field yet")
    tag = field.metadata["number"] << 3 | wire
    nested = hint if kind is _Kind.MESSAGE else None
    bits = field.metadata["bits"]
    return _Field(field.name, kind, tag, varint.encode(tag), bits, nested, many, mapped, optional)


# Reading


def decode(message: type[M], data: bytes) -> M:
    """Decode a message; ValueError where the bytes are malformed."""
    return _read(message, data, 0, len(data), 0)


def _read(message: type[M], data: bytes, start: int, end: int, depth: int) -> M:
    if depth > _DEEPEST:
        raise ValueError("a message is nested too deeply")
    fields = _fields(message)
    values: dict[str, Any] = {}
    while start < end:
        tag, start = varint.decode(data, start, end)
        field = fields.get(tag)
        if field is None:
            start = _skip(data, start, end, tag)
        elif field.tag & 7 == _VARINT:
            number, start = varint.decode(data, start, end)
            values[field.name] = _number(field, number)
        elif field.many and field.message is None:
            start = _run(data, start, end, field, values.setdefault(field.name, []))
        else:
            start, stop = _piece(data, start, end)
            _add(field, values, data, start, stop, depth + 1)
            start = stop
    for field in fields.values():
        if field.many and field.name in values:
            values[field.name] = tuple(values[field.name])
    return message(**values)


def _add(field: _Field, values: dict[str, Any], data: bytes, start: int, stop: int, depth: int) -> None:
    """Add one value of a field that is not a run of texts."""
    if field.mapped:
        key, value = _entry(field, data, start, stop, depth)
        values.setdefault(field.name, {})[key] = value
    elif field.many:
        assert field.message is not None
        values.setdefault(field.name, []).append(_read(field.message, data, start, stop, depth))
    else:
        values[field.name] = _value(field, data, start, stop, depth)


def _entry(field: _Field, data: bytes, start: int, end: int, depth: int) -> tuple[str, Any]:
    key, value = "", _value(field, b"", 0, 0, depth)
    while start < end:
        tag, start = varint.decode(data, start, end)
        if tag not in (1 << 3 | _PIECE, 2 << 3 | _PIECE):
            start = _skip(data, start, end, tag)
            continue
        start, stop = _piece(data, start, end)
        if tag == 1 << 3 | _PIECE:
            key = data[start:stop].decode()
        else:
            value = _value(field, data, start, stop, depth)
        start = stop
    return key, value


def _value(field: _Field, data: bytes, start: int, stop: int, depth: int) -> Any:
    if field.message is not None:
        return _read(field.message, data, start, stop, depth)
    return data[start:stop].decode() if field.kind is _Kind.TEXT else data[start:stop]


def _number(field: _Field, number: int) -> int | bool:
    if field.kind is _Kind.BOOL:
        return number != 0
    number &= (1 << field.bits) - 1
    return number - (1 << field.bits) if number >> (field.bits - 1) else number


def _run(data: bytes, start: int, end: int, field: _Field, values: list[Any]) -> int:
    """Read texts or bytes for as long as the same tag follows, and return where they end."""
    tag, text, append = field.tag, field.kind is _Kind.TEXT, values.append
    while start < end:
        size = data[start]
        start += 1
        if size >= 0x80:
            size, start = varint.decode(data, start - 1, end)
        stop = start + size
        if stop > end:
            break
        append(data[start:stop].decode() if text else data[start:stop])
        if stop == end or data[stop] != tag:
            return stop
        start = stop + 1
    raise ValueError(varint.CUT)


def _piece(data: bytes, start: int, end: int) -> tuple[int, int]:
    size, start = varint.decode(data, start, end)
    if start + size > end:
        raise ValueError(varint.CUT)
    return start, start + size


def _skip(data: bytes, start: int, end: int, tag: int) -> int:
    if not 0 < tag >> 3 <= _LARGEST_NUMBER:
        raise ValueError(f"there is no field {tag >> 3}")
    wire = tag & 7
    if wire == _VARINT:
        return varint.decode(data, start, end)[1]
    if wire == _PIECE:
        return _piece(data, start, end)[1]
    if wire not in (_FIXED64, _FIXED32):
        raise ValueError(f"field {tag >> 3} has the unknown wire type {wire}")
    start += 8 if wire == _FIXED64 else 4
    if start > end:
        raise ValueError(varint.CUT)
    return start


# Writing


def encode(message: Message) -> bytes:
    """Encode a message; fields with their default value are left out."""
    parts: list[bytes] = []
    for field in _fields(type(message)).values():
        _write(field, getattr(message, field.name), parts)
    return b"".join(parts)


def _write(field: _Field, value: Any, parts: list[bytes]) -> None:
    if field.many:
        _write_run(field.head, _bodies(field, value), parts)
    elif field.mapped:
        for key, item in value.items():
            body: list[bytes] = []
            _write_run(b"\x0a", [key.encode()], body)
            _write_run(b"\x12", _bodies(field, [item]), body)
            _write_run(field.head, [b"".join(body)], parts)
    elif field.kind in _NUMBERS:
        if value:
            parts += (field.head, varint.encode(int(value)))
    elif value or (field.optional and value is not None):
        _write_run(field.head, _bodies(field, [value]), parts)


def _bodies(field: _Field, values: Iterable[Any]) -> Iterable[bytes]:
    if field.message is not None:
        return map(encode, values)
    return map(str.encode, values) if field.kind is _Kind.TEXT else values


def _write_run(head: bytes, bodies: Iterable[bytes], parts: list[bytes]) -> None:
    for body in bodies:
        size = len(body)
        parts += (head, _SHORT[size] if size < 0x80 else varint.encode(size), body)

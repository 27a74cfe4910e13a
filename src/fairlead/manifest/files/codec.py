"""Dataclasses to and from documents: every field by its name, with its unit; defaults are left out."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from math import isfinite
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from fairlead.compat import StrEnum
from fairlead.errors import ManifestError
from fairlead.units import pluralize

UNITS: Final = {
    "cpu": "cpu_milli",
    "memory": "memory_bytes",
    "compute": "compute_milli",
    "slo": "slo_seconds",
    "sizes": "sizes_bytes",
}
"""Fields that carry their unit in a document."""
_LARGEST: Final = 2**62
T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return a dataclass as a document."""
    if isinstance(value, StrEnum):
        return value.value
    if is_dataclass(value):
        return {
            UNITS.get(attribute.name, attribute.name): encode(getattr(value, attribute.name))
            for attribute in fields(value)
            if not _is_default(attribute, getattr(value, attribute.name))
        }
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], value: Any, where: str) -> T:
    """Return the dataclass of a document, or reject the document with the place of its first fault."""
    decoded: T = _decode(kind, value, where)
    return decoded


def _is_default(field: Any, value: Any) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    return field.default_factory is not MISSING and value == field.default_factory()


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, value: Any, where: str) -> Any:
    kind = getattr(kind, "__supertype__", kind)  # Bytes is a NewType of int
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(member for member in get_args(kind) if member is not types.NoneType)
        return None if value is None else _decode(inner, value, where)
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    if origin is tuple:
        return _tuple(get_args(kind), value, where)
    if origin is not None and issubclass(origin, Mapping):
        inner = get_args(kind)[1]
        return {key: _decode(inner, item, f"{where}.{key}") for key, item in _mapping(value, where).items()}
    return _plain(kind, value, where)


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    document = _mapping(value, where)
    known = {UNITS.get(attribute.name, attribute.name): attribute for attribute in fields(kind)}
    for key in document:
        if key not in known:
            near = get_close_matches(str(key), known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise ManifestError(f"{where}: unknown key {key!r}", hint)
    for key, attribute in known.items():
        if key not in document and attribute.default is MISSING and attribute.default_factory is MISSING:
            raise ManifestError(f"{where}: {key}: missing", f"known: {', '.join(known)}")
    hints = _hints(kind)
    return kind(
        **{
            known[key].name: _decode(hints[known[key].name], item, f"{where}.{key}")
            for key, item in document.items()
        }
    )


def _tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ManifestError(f"{where}: {_show(value)} is not a list")
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_decode(inner[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if len(value) != len(inner):
        raise ManifestError(f"{where}: {pluralize(len(value), 'value')} instead of {len(inner)}")
    return tuple(
        _decode(kind, item, f"{where}[{at}]")
        for at, (kind, item) in enumerate(zip(inner, value, strict=True))
    )


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ManifestError(f"{where}: {_show(value)} is not a mapping")
    return value


def _plain(kind: Any, value: Any, where: str) -> Any:
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise ManifestError(f"{where}: {_show(value)}", f"known: {', '.join(kind)}")
        return kind(value)
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
        raise ManifestError(f"{where}: {_show(value)} is not {words[kind]}")
    if isinstance(value, int | float) and not (isfinite(value) and abs(value) < _LARGEST):
        raise ManifestError(f"{where}: {_show(value)} is out of range")
    return value


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

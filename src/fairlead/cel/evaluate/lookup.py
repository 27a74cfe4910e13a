"""Fields and elements of values, and the errors where they are missing."""

from typing import Any

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import NO_OVERLOAD, NONE, Map, Optional, kind_name, show
from fairlead.cel.syntax.tree import UInt


def field_of(value: Any, field: str) -> Any:
    """Return `value.field`; an optional value is unwrapped first."""
    if type(value) is Map:
        entry = value.find(field)
        if not entry.has_value:
            raise EvaluationError(f"no such key: {field}")
        return entry.value
    if type(value) is Optional:
        return find_field(value, field)
    raise EvaluationError(f"no such key: {field}")


def find_field(value: Any, field: Any) -> Optional:
    """Return `value.?field`."""
    if type(value) is Optional:
        return find_field(value.value, field) if value.has_value else NONE
    return value.find(field) if type(value) is Map else NONE


def has_field(value: Any, field: str) -> bool:
    """Return `has(value.field)`."""
    return find_field(value, field).has_value


def _list_index(key: Any) -> int:
    if type(key) in (int, UInt) or (type(key) is float and key.is_integer()):
        return int(key)
    raise EvaluationError(f"unsupported index type '{kind_name(key)}' in list")


def at_index(value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    if type(value) is Map:
        entry = value.find(key)
        if not entry.has_value:
            raise EvaluationError(f"no such key: {show(key)}")
        return entry.value
    if type(value) is tuple:
        place = _list_index(key)
        if not 0 <= place < len(value):
            raise EvaluationError(f"index out of bounds: {place}")
        return value[place]
    if type(value) is Optional:
        return find_index(value, key)
    raise EvaluationError(f"no such key: {show(key)}")


def find_index(value: Any, key: Any) -> Optional:
    """Return `value[?key]`."""
    if type(value) is Optional:
        return find_index(value.value, key) if value.has_value else NONE
    if type(value) is Map:
        return value.find(key)
    if type(value) is tuple:
        place = _list_index(key)
        return Optional(value[place], has_value=True) if 0 <= place < len(value) else NONE
    raise EvaluationError(NO_OVERLOAD)

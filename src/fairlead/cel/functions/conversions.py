"""Conversions between numbers, strings, bytes and times; and the standard functions of strings."""

import math
import re
from typing import Any, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import INT_MAX, INT_MIN, UINT_MAX
from fairlead.cel.functions.operators import traversal_cost
from fairlead.cel.functions.patterns import matches, pattern_cost
from fairlead.cel.functions.table import Overload, overload
from fairlead.cel.functions.times import (
    parse_duration,
    parse_timestamp,
    show_duration,
    show_timestamp,
    timestamp_of,
)
from fairlead.cel.syntax.tree import UInt

_UINT: Final = re.compile(r"[0-9]+", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_G_LARGEST: Final = 6
"""The power of ten from which Go's `%g` writes an exponent."""
_LONGEST: Final = 400
"""The most characters of a number."""


def _bool(text: str) -> bool:
    if text not in _BOOLS:
        raise EvaluationError("type conversion error from 'string' to 'bool'")
    return _BOOLS[text]


def _int_of_text(text: str) -> int:
    if len(text) > _LONGEST or not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise EvaluationError("type conversion error from 'string' to 'int'")
    value = int(text)
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("type conversion error from 'string' to 'int'")
    return value


def _int_range(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("integer overflow")
    return value


def _int_of_double(value: float) -> int:
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> UInt:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(int(value))


def _uint_of_int(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def _uint_of_text(text: str) -> UInt:
    if len(text) > _LONGEST or not _UINT.fullmatch(text) or int(text) > UINT_MAX:
        raise EvaluationError("type conversion error from 'string' to 'uint'")
    return UInt(int(text))


def _double_of_text(text: str) -> float:
    if len(text) > _LONGEST or not _DOUBLE.fullmatch(text):
        raise EvaluationError("type conversion error from 'string' to 'double'")
    return float(text)


def show_double(value: float) -> str:
    """Return a number as Go's `%g` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if float(text) == value:
            mantissa, _, exponent = text.partition("e")
            break
    power = int(exponent)
    if power < -4 or power >= _G_LARGEST:
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return f"{value:.{max(0, len(mantissa.lstrip('-').replace('.', '')) - 1 - power)}f}"


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _contains_cost(text: str, part: str) -> int:
    return traversal_cost(len(text)) * traversal_cost(len(part))


def _same(value: Any) -> Any:
    return value


OVERLOADS: Final[list[Overload]] = [
    overload("bool(bool) bool", _same),
    overload("bool(string) bool", _bool),
    overload("bytes(bytes) bytes", _same),
    overload("bytes(string) bytes", lambda text: text.encode(), lambda text: traversal_cost(len(text))),
    overload("double(double) double", _same),
    overload("double(int) double", float),
    overload("double(string) double", _double_of_text),
    overload("double(uint) double", float),
    overload("duration(duration) duration", _same),
    overload("duration(string) duration", parse_duration),
    overload("int(int) int", _same),
    overload("int(double) int", _int_of_double),
    overload("int(duration) int", lambda value: value.nanos),
    overload("int(string) int", _int_of_text),
    overload("int(timestamp) int", lambda value: value.nanos // 10**9),
    overload("int(uint) int", lambda value: _int_range(int(value))),
    overload("string(string) string", _same),
    overload("string(bool) string", lambda value: "true" if value else "false"),
    overload("string(bytes) string", _text_of_bytes, lambda value: traversal_cost(len(value))),
    overload("string(double) string", show_double),
    overload("string(duration) string", show_duration),
    overload("string(int) string", str),
    overload("string(timestamp) string", show_timestamp),
    overload("string(uint) string", lambda value: str(int(value))),
    overload("timestamp(timestamp) timestamp", _same),
    overload("timestamp(int) timestamp", timestamp_of),
    overload("timestamp(string) timestamp", parse_timestamp),
    overload("uint(uint) uint", _same),
    overload("uint(double) uint", _uint_of_double),
    overload("uint(int) uint", _uint_of_int),
    overload("uint(string) uint", _uint_of_text),
    overload(".string.contains(string) bool", lambda text, part: part in text, _contains_cost),
    overload(".string.endsWith(string) bool", str.endswith, lambda _, part: traversal_cost(len(part))),
    overload(".string.startsWith(string) bool", str.startswith, lambda _, part: traversal_cost(len(part))),
    overload("matches(string,string) bool", matches, pattern_cost),
    overload(".string.matches(string) bool", matches, pattern_cost),
]

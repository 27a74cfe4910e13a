"""The strings extension of CEL, in the version that Kubernetes enables."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import STEPS, Duration, Map, Timestamp, TypeValue, kind_name
from fairlead.cel.functions.conversions import show_double
from fairlead.cel.functions.operators import traversal_cost
from fairlead.cel.functions.table import Overload, overload
from fairlead.cel.functions.times import show_duration, show_timestamp
from fairlead.cel.syntax.tree import UInt

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""The characters that Go treats as white space."""
_QUOTED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip
_FINEST: Final = 1000
"""The highest precision of a clause."""


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if old else len(text) + 1
    times = times if count < 0 else min(times, count)
    STEPS.take((len(text) + times * len(new)) // 10)
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> tuple[str, ...]:
    if count == 0:
        return ()
    if separator:
        return tuple(text.split(separator, count - 1 if count > 0 else -1))
    if count < 0 or count >= len(text):
        return tuple(text)
    return (*text[: count - 1], text[count - 1 :])


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, len(text) if end is None else end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(parts: tuple[Any, ...], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {part}")
    STEPS.take((sum(map(len, parts)) + len(parts) * len(separator)) // 5)
    return separator.join(parts)


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(letter, letter) for letter in text) + '"'


def _lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _upper(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def format_string(value: Any, *, inside: bool = False) -> str:
    """Return a value as `%s` writes it; in a list or map, strings are quoted."""
    STEPS.take(1)
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise EvaluationError(
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, "
            f"doubles, maps, lists, types, durations, and timestamps, was given {kind_name(value)}"
        )
    return writer(value, inside)


def _format_double(value: float, inside: bool) -> str:
    if not math.isfinite(value):
        return f'"{show_double(value).removeprefix("+")}"' if inside else show_double(value).removeprefix("+")
    return f"{value:.6f}" if inside else show_double(value)


def _format_map(value: Map, _inside: bool) -> str:
    entries = [
        (format_string(key, inside=True), format_string(held, inside=True)) for key, held in value.items()
    ]
    return "{" + ", ".join(f"{key}:{held}" for key, held in sorted(entries)) + "}"


def _literal(function: str, text: str, inside: bool) -> str:
    return f'{function}("{text}")' if inside else text


_WRITERS: Final[dict[type, Callable[[Any, bool], str]]] = {
    type(None): lambda _value, _inside: "null",
    bool: lambda value, _inside: "true" if value else "false",
    int: lambda value, _inside: str(value),
    UInt: lambda value, _inside: str(int(value)),
    float: _format_double,
    str: lambda value, inside: f'"{value}"' if inside else value,
    bytes: lambda value, inside: ('b"{}"' if inside else "{}").format(value.decode(errors="replace")),
    Duration: lambda value, inside: _literal("duration", show_duration(value), inside),
    Timestamp: lambda value, inside: _literal("timestamp", show_timestamp(value), inside),
    TypeValue: lambda value, _inside: value.name,
    tuple: lambda value, _inside: "[" + ", ".join(format_string(item, inside=True) for item in value) + "]",
    Map: _format_map,
}


def _wrong(clause: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: {clause} clause cannot be used on {kind_name(value)}")


def _decimal(value: Any, _precision: int) -> str:
    if type(value) not in (int, UInt):
        raise _wrong("decimal", value)
    return str(int(value))


_TIMES: Final = "\u00d7"
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _double(clause: str, value: Any) -> float:
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if type(value) is not float:
        raise _wrong(clause, value)
    return value


def _non_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(value: Any, precision: int) -> str:
    number = _double("fixed-point", value)
    return f"{number:,.{precision}f}" if math.isfinite(number) else _non_finite(number)


def _scientific(value: Any, precision: int) -> str:
    """Return a number as Kubernetes writes it: always six digits; the precision is the minimum width."""
    number = _double("scientific", value)
    if not math.isfinite(number):
        return _non_finite(number).rjust(precision)
    digits, _, power = f"{number:.6e}".partition("e")
    return f"{digits}{_TIMES}10{power.removeprefix('+').translate(_RAISED)}".rjust(precision)


def _in_base(form: str) -> Callable[[Any, int], str]:
    def write(value: Any, _precision: int) -> str:
        if type(value) in (int, UInt) or (type(value) is bool and form == "b"):
            return format(int(value), form)
        if type(value) in (str, bytes) and form in "xX":
            text = (value.encode() if type(value) is str else value).hex()
            return str(text.upper() if form == "X" else text)
        raise _wrong({"b": "binary", "o": "octal"}.get(form, "hex"), value)

    return write


_CLAUSES: Final[dict[str, Callable[[Any, int], str]]] = {
    "s": lambda value, _: format_string(value),
    "d": _decimal, "f": _fixed, "e": _scientific,
    "b": _in_base("b"), "o": _in_base("o"), "x": _in_base("x"), "X": _in_base("X"),
}  # fmt: skip


def _clause(text: str, at: int) -> tuple[str, int, int]:
    """Return the letter of a clause, its precision, and the offset after it."""
    precision = 6
    if text[at : at + 1] == ".":
        end = at + 1
        while text[end : end + 1].isdecimal():
            end += 1
        digits = text[at + 1 : end] or "0"
        if len(digits) > 4 or int(digits) > _FINEST:
            raise EvaluationError(
                f"could not parse formatting clause: precision {digits[:8]} exceeds {_FINEST}"
            )
        precision, at = int(digits), end
    if at >= len(text):
        raise EvaluationError("unexpected end of string")
    if text[at] not in _CLAUSES:
        raise EvaluationError(
            f'could not parse formatting clause: unrecognized formatting clause "{text[at]}"'
        )
    return text[at], precision, at + 1


def clauses(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the text before each clause of a format, its letter and precision; the rest has no letter."""
    at, plain = 0, ""
    while (percent := text.find("%", at)) >= 0:
        plain += text[at:percent]
        if text[percent + 1 : percent + 2] == "%":
            plain, at = f"{plain}%", percent + 2
            continue
        letter, precision, at = _clause(text, percent + 1)
        yield plain, letter, precision
        plain = ""
    yield plain + text[at:], "", 0


def _format(text: str, values: tuple[Any, ...]) -> str:
    built: list[str] = []
    used = 0
    for plain, letter, precision in clauses(text):
        built.append(plain)
        if not letter:
            break
        if used >= len(values):
            raise EvaluationError(f"index {used} out of range")
        built.append(_CLAUSES[letter](values[used], precision))
        STEPS.take(len(built[-1]) // 10)
        used += 1
    if used < len(values):
        counts = f"(expected {used}, got {len(values)})"
        raise EvaluationError(f"too many arguments supplied to string.format {counts}")
    return "".join(built)


def _linear_cost(text: str, *_: Any) -> int:
    return traversal_cost(len(text))


def _double_cost(text: str, *_: Any) -> int:
    return traversal_cost(2 * len(text))


OVERLOADS: Final[list[Overload]] = [
    overload(".string.charAt(int) string", _char_at),
    overload(".string.indexOf(string) int", _index_of, _linear_cost),
    overload(".string.indexOf(string,int) int", _index_of, _linear_cost),
    overload(".string.lastIndexOf(string) int", _last_index_of, _linear_cost),
    overload(".string.lastIndexOf(string,int) int", _last_index_of, _linear_cost),
    overload(".string.lowerAscii() string", _lower, _linear_cost),
    overload(".string.upperAscii() string", _upper, _linear_cost),
    overload(".string.replace(string,string) string", _replace, _double_cost),
    overload(".string.replace(string,string,int) string", _replace, _double_cost),
    overload(".string.split(string) list(string)", _split, _double_cost),
    overload(".string.split(string,int) list(string)", _split, _double_cost),
    overload(".string.substring(int) string", _substring, _linear_cost),
    overload(".string.substring(int,int) string", _substring, _linear_cost),
    overload(".string.trim() string", lambda text: text.strip(_SPACE), _linear_cost),
    overload(".string.format(list(dyn)) string", _format, _linear_cost),
    overload("strings.quote(string) string", _quote, _linear_cost),
    overload(".list(string).join() string", _join),
    overload(".list(string).join(string) string", _join),
]

"""Operators on values: arithmetic, comparison, membership, and the type of a value."""

import math
from collections.abc import Callable
from typing import Any, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import (
    INT_MIN,
    NO_OVERLOAD,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    as_int,
    as_uint,
    compare,
    differs,
    equal,
    equals,
    kind_name,
    size,
)
from fairlead.cel.functions.semver import SemanticVersion
from fairlead.cel.functions.table import Overload, overload
from fairlead.cel.syntax.tree import UInt

_YEAR_1: Final = -62135596800 * 10**9
_YEAR_9999: Final = 253402300800 * 10**9


def traversal_cost(*amounts: int) -> int:
    """Return the cost of traversing strings of these lengths."""
    return -(-sum(amounts) // 10)


def timestamp(nanos: int) -> Timestamp:
    """Return a timestamp between the years 1 and 9999."""
    if not _YEAR_1 <= nanos < _YEAR_9999:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos)


def duration(nanos: int) -> Duration:
    """Return a duration that fits 64 bits of nanoseconds."""
    if not INT_MIN <= nanos < -INT_MIN:
        raise EvaluationError("duration overflow")
    return Duration(nanos)


def add(one: Any, other: Any) -> Any:
    """Return `one + other`."""
    match one, other:
        case Timestamp(nanos=nanos), Duration(nanos=more):
            return timestamp(nanos + more)
        case Duration(nanos=nanos), Timestamp(nanos=more):
            return timestamp(nanos + more)
        case Duration(nanos=nanos), Duration(nanos=more):
            return duration(nanos + more)
    kind = type(one)
    if kind is not type(other):
        raise EvaluationError(NO_OVERLOAD)
    if kind in (str, bytes, tuple, float):
        return one + other
    return _number(kind, one, other, int.__add__)


def subtract(one: Any, other: Any) -> Any:
    """Return `one - other`."""
    match one, other:
        case Timestamp(nanos=nanos), Duration(nanos=less):
            return timestamp(nanos - less)
        case Timestamp(nanos=nanos), Timestamp(nanos=less):
            return duration(nanos - less)
        case Duration(nanos=nanos), Duration(nanos=less):
            return duration(nanos - less)
    if type(one) is float and type(other) is float:
        return one - other
    return _number(type(one), one, other, int.__sub__)


def multiply(one: Any, other: Any) -> Any:
    """Return `one * other`."""
    if type(one) is float and type(other) is float:
        return one * other
    return _number(type(one), one, other, int.__mul__)


def _number(kind: type[Any], one: Any, other: Any, run: Callable[[int, int], int]) -> int:
    if kind is not type(other) or kind not in (int, UInt):
        raise EvaluationError(NO_OVERLOAD)
    result = run(int(one), int(other))
    return as_int(result) if kind is int else as_uint(result)


def divide(one: Any, other: Any) -> Any:
    """Return `one / other`; whole numbers are truncated towards zero."""
    if type(one) is float and type(other) is float:
        return _divide_floats(one, other)
    if type(one) in (int, UInt) and type(one) is type(other) and other == 0:
        raise EvaluationError("division by zero")
    return _number(type(one), one, other, _quotient)


def _divide_floats(one: float, other: float) -> float:
    if other:
        return one / other
    if math.isnan(one) or not one:
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def _quotient(one: int, other: int) -> int:
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def modulo(one: Any, other: Any) -> Any:
    """Return the remainder of `one / other`, with the sign of `one`."""
    if type(one) in (int, UInt) and type(one) is type(other) and other == 0:
        raise EvaluationError("modulus by zero")
    return _number(type(one), one, other, lambda left, right: left - right * _quotient(left, right))


def negate(value: Any) -> Any:
    """Return `-value`."""
    if type(value) is float:
        return -value
    if type(value) is not int:
        raise EvaluationError(NO_OVERLOAD)
    return as_int(-value)


def logical_not(value: Any) -> bool:
    """Return `!value`."""
    if type(value) is not bool:
        raise EvaluationError(NO_OVERLOAD)
    return not value


def contains(item: Any, within: Any) -> bool:
    """Return `item in within`."""
    if type(within) is tuple:
        return any(equal(item, element) for element in within)
    if type(within) is Map:
        try:
            return item in within
        except EvaluationError:
            return False
    raise EvaluationError(NO_OVERLOAD)


def is_one_of(item: Any, constants: tuple[Any, ...]) -> bool:
    """Return `item in constants` for a list of plain literals: cel-go uses a hash set."""
    if type(item) in (bytes, SemanticVersion):
        raise EvaluationError(f"internal error: runtime error: hash of unhashable type {kind_name(item)}")
    return contains(item, constants)


def _size(value: Any) -> int:
    if type(value) not in (str, bytes, tuple, Map):
        raise EvaluationError(NO_OVERLOAD)
    return len(value)


def _comparison(test: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: test(compare(one, other))


def _cost_pair(one: Any, other: Any) -> int:
    return max(1, traversal_cost(min(size(one), size(other))))


def _cost_sum(one: Any, other: Any) -> int:
    # In cel-go the sum of two lists is free, because it keeps both; here they are copied.
    return max(1, traversal_cost(size(one), size(other))) if type(one) in (str, bytes, tuple) else 1


def _cost_in(_item: Any, within: Any) -> int:
    return size(within) if type(within) is tuple else 1


_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "_<_": lambda order: order < 0,
    "_<=_": lambda order: order <= 0,
    "_>_": lambda order: order > 0,
    "_>=_": lambda order: order >= 0,
}
_PAIRS: Final = (
    "bool,bool", "int,int", "int,double", "int,uint", "uint,uint", "uint,double", "uint,int",
    "double,double", "double,int", "double,uint", "string,string", "bytes,bytes",
    "timestamp,timestamp", "duration,duration",
)  # fmt: skip


def _orders() -> list[Overload]:
    overloads = []
    for name, test in _ORDERS.items():
        run = _comparison(test)
        overloads += [overload(f"{name}({pair}) bool", run, _cost_pair) for pair in _PAIRS]
    return overloads


def _sums() -> list[Overload]:
    adds = (
        "(bytes,bytes) bytes", "(double,double) double", "(duration,duration) duration",
        "(duration,timestamp) timestamp", "(timestamp,duration) timestamp", "(int,int) int",
        "(list(A),list(A)) list(A)", "(string,string) string", "(uint,uint) uint",
    )  # fmt: skip
    takes = (
        "(double,double) double", "(duration,duration) duration", "(int,int) int",
        "(timestamp,duration) timestamp", "(timestamp,timestamp) duration", "(uint,uint) uint",
    )  # fmt: skip
    numbers = ("double", "int", "uint")
    return [
        *(overload(f"_+_{signature}", add, _cost_sum) for signature in adds),
        *(overload(f"_-_{take}", subtract) for take in takes),
        *(overload(f"_*_({number},{number}) {number}", multiply) for number in numbers),
        *(overload(f"_/_({number},{number}) {number}", divide) for number in numbers),
        *(overload(f"_%_({number},{number}) {number}", modulo) for number in numbers[1:]),
        *(overload(f"-_({number}) {number}", negate) for number in numbers[:2]),
    ]


OVERLOADS: Final = [
    overload("_?_:_(bool,A,A) A"),
    overload("_&&_(bool,bool) bool"),
    overload("_||_(bool,bool) bool"),
    overload("@not_strictly_false(bool) bool"),
    overload("!_(bool) bool", logical_not),
    overload("_==_(A,A) bool", equals, _cost_pair),
    overload("_!=_(A,A) bool", differs, _cost_pair),
    *_sums(),
    *_orders(),
    overload("_[_](list(A),int) A"),
    overload("_[_](map(A,B),A) B"),
    overload("_[_](optional(list(A)),int) optional(A)"),
    overload("_[_](optional(map(A,B)),A) optional(B)"),
    overload("_[?_](list(A),int) optional(A)"),
    overload("_[?_](optional(list(A)),int) optional(A)"),
    overload("_[?_](map(A,B),A) optional(B)"),
    overload("_[?_](optional(map(A,B)),A) optional(B)"),
    overload("@in(A,list(A)) bool", contains, _cost_in),
    overload("@in(A,map(A,B)) bool", contains, _cost_in),
    *(
        overload(form, _size)
        for kind in ("bytes", "list(A)", "map(A,B)", "string")
        for form in (f"size({kind}) int", f".{kind}.size() int")
    ),
    overload("type(A) type(A)", lambda value: TypeValue(kind_name(value))),
    overload("dyn(A) dyn", lambda value: value),
]

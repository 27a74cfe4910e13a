"""Functions of lists, sets, maps and optional values."""

import functools
import itertools
from typing import Any, Final

from fairlead.cel.errors import CostError, EvaluationError
from fairlead.cel.evaluate.values import (
    NO_OVERLOAD,
    NONE,
    STEPS,
    Duration,
    Map,
    Optional,
    compare,
    equal,
    size,
)
from fairlead.cel.functions.operators import add
from fairlead.cel.functions.table import COMPARABLE, Overload, overload
from fairlead.cel.syntax.tree import UInt

_ZEROS: Final = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}
_LONGEST: Final = 100_000
"""The most elements of a range: a longer one would exceed the cost limit."""


def _is_sorted(items: tuple[Any, ...]) -> bool:
    return all(compare(one, other) <= 0 for one, other in itertools.pairwise(items))


def _sum(zero: Any, items: tuple[Any, ...]) -> Any:
    return functools.reduce(add, items, zero)


def _extreme(items: tuple[Any, ...], name: str, sign: int) -> Any:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items[1:]:
        if compare(item, best) == sign:
            best = item
    return best


def _index_of(items: tuple[Any, ...], wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: tuple[Any, ...], wanted: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


def _includes(target: Any, wanted: Any) -> bool:
    if type(target) is tuple:
        return any(equal(item, wanted) for item in target)
    return equal(target, wanted)


def _slice(items: tuple[Any, ...], start: int, end: int) -> tuple[Any, ...]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: Any, depth: int = 1) -> tuple[Any, ...]:
    if type(items) is not tuple:
        raise EvaluationError(NO_OVERLOAD)
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        STEPS.take(1)
        if type(item) is tuple and depth:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return tuple(flat)


def _sort(items: tuple[Any, ...], keys: tuple[Any, ...]) -> tuple[Any, ...]:
    if len({type(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    if (
        keys
        and type(keys[0]) not in (int, UInt, float, bool, Duration, str, bytes)
        and not hasattr(keys[0], "nanos")
    ):
        raise EvaluationError("list elements must be comparable")

    def order(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
        return compare(one[0], other[0])

    pairs = sorted(zip(keys, items, strict=True), key=functools.cmp_to_key(order))
    return tuple(item for _, item in pairs)


def _range(count: int) -> tuple[int, ...]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST:
        raise CostError
    return tuple(range(count))


def _distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    distinct: list[Any] = []
    for item in items:
        if not any(equal(item, other) for other in distinct):
            distinct.append(item)
    return tuple(distinct)


def _contains_all(items: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    return all(_includes(items, item) for item in wanted)


def _quadratic_cost(items: Any, *keys: Any) -> int:
    count = size(keys[0] if keys else items)
    return 10 + 2 * count * count


def _product_cost(one: Any, other: Any) -> int:
    return 1 + size(one) * size(other)


def _linear_cost(items: Any, *_: Any) -> int:
    return max(1, size(items))


def _insert_all(target: Map, source: Map) -> Map:
    for key, value in source.items():
        target = target.inserted(key, value)
    return target


def _is_zero(value: Any) -> bool:
    if isinstance(value, Optional):
        return not value.has_value
    if type(value) in (str, bytes, tuple, Map):
        return len(value) == 0
    if isinstance(value, Duration):
        return value.nanos == 0
    return value is None or (isinstance(value, bool | int | float) and not value)


def _value(optional: Optional) -> Any:
    if not optional.has_value:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(items: tuple[Any, ...]) -> tuple[Any, ...]:
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError("value is not optional")
    return tuple(item.value for item in items if item.has_value)


def _first(items: tuple[Any, ...], at: int) -> Optional:
    return Optional(items[at], has_value=True) if items else NONE


def _sorted_lists() -> list[Overload]:
    overloads: list[Overload] = []
    for kind in COMPARABLE:
        overloads += [
            overload(f".list({kind}).isSorted() bool", _is_sorted, _linear_cost),
            overload(f".list({kind}).max() {kind}", lambda items: _extreme(items, "max", 1), _linear_cost),
            overload(f".list({kind}).min() {kind}", lambda items: _extreme(items, "min", -1), _linear_cost),
            overload(
                f".list({kind}).sort() list({kind})", lambda items: _sort(items, items), _quadratic_cost
            ),
            overload(f".list(A).@sortByAssociatedKeys(list({kind})) list(A)", _sort, _quadratic_cost),
        ]
    for kind, zero in _ZEROS.items():
        overloads.append(overload(f".list({kind}).sum() {kind}", functools.partial(_sum, zero), _linear_cost))
    return overloads


OVERLOADS: Final[list[Overload]] = [
    *_sorted_lists(),
    overload(".list(A).indexOf(A) int", _index_of, _linear_cost),
    overload(".list(A).lastIndexOf(A) int", _last_index_of, _linear_cost),
    overload(".dyn.includes(dyn) bool", _includes, _linear_cost),
    overload(".list(A).slice(int,int) list(A)", _slice, _linear_cost),
    overload(".list(list(A)).flatten() list(A)", _flatten, _linear_cost),
    overload(".list(dyn).flatten(int) list(dyn)", _flatten, _linear_cost),
    overload("lists.range(int) list(int)", _range, lambda count: 11 + max(0, count)),
    overload(".list(A).reverse() list(A)", lambda items: items[::-1], _linear_cost),
    overload(".list(A).distinct() list(A)", _distinct, _quadratic_cost),
    overload("sets.contains(list(A),list(A)) bool", _contains_all, _product_cost),
    overload(
        "sets.equivalent(list(A),list(A)) bool",
        lambda one, other: _contains_all(one, other) and _contains_all(other, one),
        lambda one, other: 2 * _product_cost(one, other),
    ),
    overload(
        "sets.intersects(list(A),list(A)) bool",
        lambda one, other: any(_includes(other, item) for item in one),
        _product_cost,
    ),
    overload(
        "cel.@mapInsert(map(A,B),A,B) map(A,B)",
        lambda target, key, value: target.inserted(key, value),
        _linear_cost,
    ),
    overload("cel.@mapInsert(map(A,B),map(A,B)) map(A,B)", _insert_all, _linear_cost),
    overload("optional.of(A) optional(A)", lambda value: Optional(value, has_value=True)),
    overload(
        "optional.ofNonZeroValue(A) optional(A)",
        lambda value: NONE if _is_zero(value) else Optional(value, has_value=True),
    ),
    overload("optional.none() optional(A)", lambda: NONE),
    overload(".optional(A).value() A", _value),
    overload(".optional(A).hasValue() bool", lambda optional: optional.has_value),
    overload(".optional(A).or(optional(A)) optional(A)"),
    overload(".optional(A).orValue(A) A"),
    overload(".list(A).first() optional(A)", lambda items: _first(items, 0)),
    overload(".list(A).last() optional(A)", lambda items: _first(items, -1)),
    overload("optional.unwrap(list(optional(A))) list(A)", _unwrap, _linear_cost),
    overload(".list(optional(A)).unwrapOpt() list(A)", _unwrap, _linear_cost),
]

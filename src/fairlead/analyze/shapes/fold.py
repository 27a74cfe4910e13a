"""Fold small constants: the arithmetic that exporters write around shapes."""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import product as places
from typing import Final, TypeAlias

from fairlead.analyze import bounds
from fairlead.analyze.graph import Fact, Number
from fairlead.analyze.shapes.call import OperatorCall, UnknownShapeError, axis_of
from fairlead.analyze.shapes.move import bounds_of_slice

Values: TypeAlias = tuple[Number, ...]
_Fold: TypeAlias = Callable[[OperatorCall, tuple[int, ...]], Values]


def fold_values(call: OperatorCall, results: Sequence[Fact]) -> list[Fact]:
    """Return the results with their values, where those can be known."""
    first = results[0]
    if first.values is not None or not first.known or first.elements > bounds.VALUES:
        return list(results)
    dims = _small(first)
    if call.op == "Split":
        return _split(call, results)
    fold = _FOLDS.get(call.op)
    if fold is None:
        return list(results)
    values = fold(call, dims)
    if len(values) != first.elements:
        return list(results)
    return [Fact(first.dtype, first.dims, _typed(values, first.dtype)), *results[1:]]


def _typed(values: Values, dtype: str) -> Values:
    if dtype == "bool":
        return tuple(bool(value) for value in values)
    if "int" not in dtype:
        return tuple(float(value) for value in values)
    whole = tuple(int(value) for value in values)
    if any(abs(value) >= 2**63 for value in whole):
        raise UnknownShapeError  # no type holds it, and it would grow without bound
    return whole


def _input_values(call: OperatorCall, place: int) -> tuple[Values, tuple[int, ...]]:
    """Return the values and sizes of an input."""
    fact = call.arg(place)
    if fact.values is None or fact.dims is None:
        raise UnknownShapeError
    return fact.values, _small(fact)


def _small(fact: Fact) -> tuple[int, ...]:
    """Return the sizes, none of which may be large: beside a size of zero, any other could be."""
    dims = tuple(dim for dim in fact.dims or () if dim is not None)
    if any(dim > bounds.VALUES for dim in dims):
        raise UnknownShapeError
    return dims


def _strides(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[place + 1 :]) for place in range(len(dims))]


def _broadcast_values(call: OperatorCall, place: int, dims: tuple[int, ...]) -> Values:
    """Return an input's values, repeated as broadcasting repeats them."""
    values, own = _input_values(call, place)
    if own == dims:
        return values
    if len(values) == 1:
        return values * math.prod(dims)
    padded = (1,) * (len(dims) - len(own)) + own
    steps = [0 if size == 1 else step for size, step in zip(padded, _strides(padded), strict=True)]
    return tuple(
        values[sum(index * step for index, step in zip(at, steps, strict=True))]
        for at in places(*map(range, dims))
    )


def _unary(function: Callable[[Number], Number]) -> _Fold:
    return lambda call, _: tuple(function(value) for value in _input_values(call, 0)[0])


def _binary(function: Callable[[Number, Number], Number]) -> _Fold:
    def fold(call: OperatorCall, dims: tuple[int, ...]) -> Values:
        left, right = _broadcast_values(call, 0, dims), _broadcast_values(call, 1, dims)
        return tuple(function(*pair) for pair in zip(left, right, strict=True))

    return fold


def _variadic(function: Callable[[Sequence[Number]], Number]) -> _Fold:
    def fold(call: OperatorCall, dims: tuple[int, ...]) -> Values:
        columns = (_broadcast_values(call, place, dims) for place in range(len(call.args)))
        return tuple(function(row) for row in zip(*columns, strict=True))

    return fold


def _divide(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return int(left / right) if abs(left) < 2**52 else left // right  # towards zero, as in C
    return left / right


def _power(left: Number, right: Number) -> Number:
    if abs(right) > 64 or abs(left) > 2**32:
        raise UnknownShapeError
    result = left**right
    if isinstance(result, complex):
        raise UnknownShapeError
    return result


def _same(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    return _input_values(call, 0)[0]


def _expand(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    return _broadcast_values(call, 0, dims)


def _fill(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    value = call.tensor("value")
    if value is None:
        return (0.0,) * math.prod(dims)
    if not value.values:
        raise UnknownShapeError
    return (value.values[0],) * math.prod(dims)


def _range(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    (start,), (step,) = _input_values(call, 0)[0], _input_values(call, 2)[0]
    return tuple(start + step * place for place in range(dims[0]))


def _pick(values: Values, dims: Sequence[int], choice: Sequence[Sequence[int]]) -> Values:
    """Return the elements at every combination of the indices chosen along each axis."""
    steps = _strides(dims)
    return tuple(
        values[sum(index * step for index, step in zip(at, steps, strict=True))] for at in places(*choice)
    )


def _gather(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    values, own = _input_values(call, 0)
    rows, _ = _input_values(call, 1)
    axis = axis_of(call.integer("axis"), len(own))
    choice: list[Sequence[int]] = [range(size) for size in own]
    choice[axis] = [int(row) % own[axis] for row in rows]
    return _pick(values, own, choice)


def _slice(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    values, own = _input_values(call, 0)
    choice: list[Sequence[int]] = [range(size) for size in own]
    for axis, start, end, step in bounds_of_slice(call):
        stop = None if step < 0 and end < -(2**31) + 2 else end
        choice[axis] = range(own[axis])[start:stop:step]
    return _pick(values, own, choice)


def _transpose(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    values, own = _input_values(call, 0)
    order = call.ints("perm") or tuple(reversed(range(len(own))))
    steps = _strides(own)
    permuted = [steps[axis] for axis in order]
    return tuple(
        values[sum(index * step for index, step in zip(at, permuted, strict=True))]
        for at in places(*map(range, dims))
    )


def _concat(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    axis = axis_of(call.integer("axis", 1), len(dims))
    outer = math.prod(dims[:axis])
    parts = [_input_values(call, place) for place in range(len(call.args))]
    widths = [math.prod(own[axis:]) for _, own in parts]
    return tuple(
        value
        for row in range(outer)
        for (values, _), width in zip(parts, widths, strict=True)
        for value in values[row * width : (row + 1) * width]
    )


def _split(call: OperatorCall, results: Sequence[Fact]) -> list[Fact]:
    """Split known values of one dimension."""
    fact = call.args[0]
    if fact is None or fact.values is None or fact.dims is None or len(fact.dims) != 1:
        return list(results)
    parts, start = [], 0
    for result in results:
        end = start + result.elements
        parts.append(Fact(result.dtype, result.dims, fact.values[start:end]))
        start = end
    return parts


def _reduce(function: Callable[[Sequence[Number]], Number]) -> _Fold:
    def fold(call: OperatorCall, dims: tuple[int, ...]) -> Values:
        values, own = _input_values(call, 0)
        if math.prod(dims) == 1 and values:
            return (function(values),)
        if own == dims:
            return values
        raise UnknownShapeError

    return fold


def _non_zero(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    values, own = _input_values(call, 0)
    indices = [at for at, value in zip(places(*map(range, own)), values, strict=True) if value]
    return tuple(at[axis] for axis in range(len(own)) for at in indices)


def _where(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    columns = [_broadcast_values(call, place, dims) for place in range(3)]
    return tuple(yes if test else no for test, yes, no in zip(*columns, strict=True))


def _tile(call: OperatorCall, dims: tuple[int, ...]) -> Values:
    values, own = _input_values(call, 0)
    choice = [[at % size for at in range(total)] for size, total in zip(own, dims, strict=True)]
    return _pick(values, own, choice)


_FOLDS: Final[dict[str, _Fold]] = {
    **dict.fromkeys(("Identity", "Cast", "CastLike", "Reshape", "Squeeze", "Unsqueeze", "Flatten"), _same),
    "Add": _binary(operator.add),
    "Sub": _binary(operator.sub),
    "Mul": _binary(operator.mul),
    "Div": _binary(_divide),
    "Mod": _binary(lambda left, right: math.fmod(left, right) if isinstance(left, float) else left % right),
    "Pow": _binary(_power),
    "Max": _variadic(max),
    "Min": _variadic(min),
    "Sum": _variadic(sum),
    "Equal": _binary(operator.eq),
    "Greater": _binary(operator.gt),
    "GreaterOrEqual": _binary(operator.ge),
    "Less": _binary(operator.lt),
    "LessOrEqual": _binary(operator.le),
    "And": _binary(lambda left, right: bool(left) and bool(right)),
    "Or": _binary(lambda left, right: bool(left) or bool(right)),
    "Not": _unary(operator.not_),
    "Neg": _unary(operator.neg),
    "Abs": _unary(abs),
    "Floor": _unary(math.floor),
    "Ceil": _unary(math.ceil),
    "Round": _unary(round),
    "Sqrt": _unary(math.sqrt),
    "Reciprocal": _unary(lambda value: 1 / value),
    "Where": _where,
    "Expand": _expand,
    "Tile": _tile,
    "ConstantOfShape": _fill,
    "Range": _range,
    "Gather": _gather,
    "Slice": _slice,
    "Transpose": _transpose,
    "Concat": _concat,
    "NonZero": _non_zero,
    "ReduceProd": _reduce(math.prod),
    "ReduceSum": _reduce(sum),
    "ReduceMax": _reduce(max),
    "ReduceMin": _reduce(min),
}

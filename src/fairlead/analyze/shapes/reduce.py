"""Shapes of reductions, and of outputs whose size depends on the data."""

from fairlead.analyze.graph import Dims, Fact
from fairlead.analyze.shapes.call import OperatorCall, UnknownShapeError, axis_of, product


def reduced(call: OperatorCall) -> list[Fact]:
    """Shape a reduction of some axes; no axes means all, unless `noop_with_empty_axes` is set."""
    dims = call.dims(0)
    axes = call.values(1) if call.has(1) else call.ints("axes")
    if not axes and call.integer("noop_with_empty_axes"):
        return [Fact(call.arg(0).dtype, dims)]
    gone = {axis_of(axis, len(dims)) for axis in axes} or set(range(len(dims)))
    return [Fact(call.arg(0).dtype, _without(dims, gone, keep=bool(call.integer("keepdims", 1))))]


def _without(dims: Dims, gone: set[int], *, keep: bool) -> Dims:
    return tuple(1 if place in gone else dim for place, dim in enumerate(dims) if keep or place not in gone)


def arg_reduced(call: OperatorCall) -> list[Fact]:
    """Shape the index of the largest or smallest along one axis."""
    dims = call.dims(0)
    axis = axis_of(call.integer("axis"), len(dims))
    return [Fact("int64", _without(dims, {axis}, keep=bool(call.integer("keepdims", 1))))]


def top_k(call: OperatorCall) -> list[Fact]:
    """Shape the largest along one axis, and their indices."""
    dims = list(call.dims(0))
    numbers = call.numbers(1)
    dims[axis_of(call.integer("axis", -1), len(dims))] = (
        int(numbers[0]) if numbers else call.integer("k") or None
    )
    return [Fact(call.arg(0).dtype, tuple(dims)), Fact("int64", tuple(dims))]


def non_zero(call: OperatorCall) -> list[Fact]:
    """Shape the indices of nonzero elements: their number depends on the data."""
    values = call.numbers(0)
    count = sum(1 for value in values if value) if values is not None else None
    return [Fact("int64", (len(call.dims(0)), count))]


def non_max(call: OperatorCall) -> list[Fact]:
    """Shape the boxes that no better one covers."""
    return [Fact("int64", (None, 3))]


def unique(call: OperatorCall) -> list[Fact]:
    """Shape the distinct elements: their number depends on the data."""
    dims = list(call.dims(0))
    if "axis" in call.attributes:
        dims[axis_of(call.integer("axis"), len(dims))] = None
    else:
        dims = [None]
    some: Dims = (None,)
    everything: Dims = (product(call.dims(0)),) if "axis" not in call.attributes else some
    return [
        Fact(call.arg(0).dtype, tuple(dims)),
        Fact("int64", some),
        Fact("int64", everything),
        Fact("int64", some),
    ]


def compress(call: OperatorCall) -> list[Fact]:
    """Shape the elements that a condition selects."""
    dims = list(call.dims(0))
    kept = call.numbers(1)
    count = None if kept is None else sum(1 for value in kept if value)
    if "axis" not in call.attributes:
        return [Fact(call.arg(0).dtype, (count,))]
    dims[axis_of(call.integer("axis"), len(dims))] = count
    return [Fact(call.arg(0).dtype, tuple(dims))]


def scalar(call: OperatorCall) -> list[Fact]:
    """Shape one number."""
    return [Fact(call.arg(0).dtype, ())]


def determinant(call: OperatorCall) -> list[Fact]:
    """Shape one number for each matrix."""
    return [Fact(call.arg(0).dtype, call.dims(0)[:-2])]


def fourier(call: OperatorCall) -> list[Fact]:
    """Shape a Fourier transform along one axis: real and imaginary parts."""
    dims = list(call.dims(0))
    axis = int((call.numbers(2) or (call.integer("axis", -2 if call.opset >= 20 else 1),))[0])
    at = axis_of(axis, len(dims))
    length, size_before = call.numbers(1), dims[at]
    if size_before is None:
        raise UnknownShapeError
    back = bool(call.integer("inverse"))
    one_sided = bool(call.integer("onesided"))
    size = int(length[0]) if length else 2 * (size_before - 1) if one_sided and back else size_before
    dims[at] = size // 2 + 1 if one_sided and not back else size
    dims[-1] = 1 if one_sided and back else 2
    return [Fact(call.arg(0).dtype, tuple(dims))]


def short_fourier(call: OperatorCall) -> list[Fact]:
    """Shape Fourier transforms of a signal, frame by frame."""
    dims, (step, *_) = call.dims(0), call.values(1)
    window = call.dims(2)[0] if call.has(2) else None
    length = call.values(3)[0] if call.has(3) else window
    if dims[1] is None or length is None:
        raise UnknownShapeError
    bins = length // 2 + 1 if call.integer("onesided", 1) else length
    return [Fact(call.arg(0).dtype, (dims[0], (dims[1] - length) // step + 1, bins, 2))]


def window(call: OperatorCall) -> list[Fact]:
    """Shape the weights of a window over a signal."""
    return [Fact("fp32", call.values(0)[:1])]

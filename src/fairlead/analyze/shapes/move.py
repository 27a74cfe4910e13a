"""Shapes of operators that move elements without computing."""

from collections.abc import Sequence
from math import ceil

from fairlead.analyze import dtypes
from fairlead.analyze.graph import Dims, Fact
from fairlead.analyze.shapes.call import OperatorCall, UnknownShapeError, axis_of, broadcast, product


def reshape(call: OperatorCall) -> list[Fact]:
    """Shape the same elements in another shape; -1 is inferred, 0 keeps the size."""
    data = call.arg(0)
    requested: Sequence[int] = call.values(1) if call.has(1) else call.ints("shape")
    dims = data.dims or ()
    keep = not call.integer("allowzero")
    result: list[int | None] = [
        dims[place] if size == 0 and keep else size for place, size in enumerate(requested)
    ]
    if -1 in result:
        inferred = result.index(-1)
        result[inferred] = None
        rest = product(tuple(size for place, size in enumerate(result) if place != inferred))
        total = product(data.dims) if data.dims is not None else None
        result[inferred] = (
            total // rest if total is not None and rest else _only_unknown(dims, result, inferred)
        )
    return [Fact(data.dtype, tuple(result))]


def _only_unknown(dims: Dims, result: list[int | None], hole: int) -> int | None:
    """Return 0 where an empty tensor decides the size; otherwise the size stays open."""
    return 0 if 0 in dims and None not in dims and 0 not in result[:hole] + result[hole + 1 :] else None


def flatten(call: OperatorCall) -> list[Fact]:
    """Shape a matrix: the axes before an axis, and the rest."""
    dims = call.dims(0)
    axis = call.integer("axis", 1)
    axis += len(dims) if axis < 0 else 0
    return [Fact(call.arg(0).dtype, (product(dims[:axis]), product(dims[axis:])))]


def squeeze(call: OperatorCall) -> list[Fact]:
    """Shape without axes of size one."""
    dims = call.dims(0)
    axes = _axes(call)
    if axes is None:
        return [Fact(call.arg(0).dtype, tuple(dim for dim in dims if dim != 1))]
    gone = {axis_of(axis, len(dims)) for axis in axes}
    return [Fact(call.arg(0).dtype, tuple(dim for place, dim in enumerate(dims) if place not in gone))]


def unsqueeze(call: OperatorCall) -> list[Fact]:
    """Shape with more axes of size one."""
    dims, axes = list(call.dims(0)), _axes(call)
    if axes is None:
        raise UnknownShapeError
    for axis in sorted(axis_of(axis, len(dims) + len(axes)) for axis in axes):
        dims.insert(axis, 1)
    return [Fact(call.arg(0).dtype, tuple(dims))]


def _axes(call: OperatorCall) -> tuple[int, ...] | None:
    if call.has(1):
        return call.values(1)
    return call.ints("axes") or None


def transpose(call: OperatorCall) -> list[Fact]:
    """Shape the axes in another order."""
    dims = call.dims(0)
    order = call.ints("perm") or tuple(reversed(range(len(dims))))
    return [Fact(call.arg(0).dtype, tuple(dims[axis] for axis in order))]


def concat(call: OperatorCall) -> list[Fact]:
    """Shape inputs concatenated along an axis."""
    shapes = [call.dims(place) for place, fact in enumerate(call.args) if fact is not None]
    axis = axis_of(call.integer("axis", 1), len(shapes[0]))
    sizes = [shape[axis] for shape in shapes]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    result = list(shapes[0])
    for shape in shapes[1:]:
        result = [new if old is None else old for old, new in zip(result, shape, strict=True)]
    result[axis] = total
    return [Fact(call.arg(0).dtype, tuple(result))]


def split(call: OperatorCall) -> list[Fact]:
    """Shape an input split into parts."""
    dims = call.dims(0)
    axis = axis_of(call.integer("axis"), len(dims))
    sizes: Sequence[int | None] = call.values(1) if call.has(1) else call.ints("split")
    if not sizes:
        count, total = min(call.integer("num_outputs") or call.outputs, call.outputs), dims[axis]
        part = None if total is None else -(-total // count)
        sizes = [part] * count
        if part is not None and total is not None:
            sizes = [*[part] * (count - 1), total - part * (count - 1)]
    return [Fact(call.arg(0).dtype, (*dims[:axis], size, *dims[axis + 1 :])) for size in sizes]


def bounds_of_slice(call: OperatorCall) -> list[tuple[int, int, int, int]]:
    """Return axis, start, end and step of every sliced axis, as the file has them."""
    if len(call.args) < 2:
        starts, ends, axes = call.ints("starts"), call.ints("ends"), call.ints("axes")
        steps: tuple[int, ...] = ()
    else:
        starts, ends = call.values(1), call.values(2)
        axes = call.values(3) if call.has(3) else ()
        steps = call.values(4) if call.has(4) else ()
    rank = len(call.dims(0))
    places = [axis_of(axis, rank) for axis in axes] or list(range(len(starts)))
    return list(zip(places, starts, ends, steps or (1,) * len(starts), strict=True))


def slice_(call: OperatorCall) -> list[Fact]:
    """Shape a part of the input."""
    dims = list(call.dims(0))
    for axis, start, end, step in bounds_of_slice(call):
        size = dims[axis]
        dims[axis] = None if size is None else len(range(*slice(start, _end(end, step), step).indices(size)))
    return [Fact(call.arg(0).dtype, tuple(dims))]


def _end(end: int, step: int) -> int | None:
    """Return an end as Python understands it: far below zero, backwards, is before the first element."""
    return None if step < 0 and end < -(2**31) + 2 else end


def pad(call: OperatorCall) -> list[Fact]:
    """Shape the input with padding."""
    dims = list(call.dims(0))
    pads = call.values(1) if call.has(1) else call.ints("pads") or call.ints("paddings")
    axes = call.values(3) if call.has(3) else tuple(range(len(dims)))
    if len(pads) != 2 * len(axes):
        raise UnknownShapeError
    for place, axis in enumerate(axes):
        at = axis_of(axis, len(dims))
        size = dims[at]
        dims[at] = None if size is None else size + pads[place] + pads[place + len(axes)]
    return [Fact(call.arg(0).dtype, tuple(dims))]


def tile(call: OperatorCall) -> list[Fact]:
    """Shape the input repeated along its axes."""
    dims = call.dims(0)
    sizes = (None if dim is None else dim * times for dim, times in zip(dims, call.values(1), strict=True))
    return [Fact(call.arg(0).dtype, tuple(sizes))]


def expand(call: OperatorCall) -> list[Fact]:
    """Shape the input broadcast to a shape."""
    return [Fact(call.arg(0).dtype, broadcast(call.dims(0), call.values(1)))]


def gather(call: OperatorCall) -> list[Fact]:
    """Shape rows selected by index."""
    dims = call.dims(0)
    axis = axis_of(call.integer("axis"), len(dims))
    return [Fact(call.arg(0).dtype, (*dims[:axis], *call.dims(1), *dims[axis + 1 :]))]


def gather_elements(call: OperatorCall) -> list[Fact]:
    """Shape elements selected by index."""
    return [Fact(call.arg(0).dtype, call.dims(1))]


def gather_nd(call: OperatorCall) -> list[Fact]:
    """Shape slices selected by several indices."""
    dims, places = call.dims(0), call.dims(1)
    if places[-1] is None:
        raise UnknownShapeError
    kept = dims[call.integer("batch_dims") + places[-1] :]
    return [Fact(call.arg(0).dtype, (*places[:-1], *kept))]


def one_hot(call: OperatorCall) -> list[Fact]:
    """Shape a one-hot row for each index."""
    dims, (depth, *_) = call.dims(0), call.values(1)
    axis = axis_of(call.integer("axis", -1), len(dims) + 1)
    return [Fact(call.arg(2).dtype, (*dims[:axis], depth, *dims[axis:]))]


def range_(call: OperatorCall) -> list[Fact]:
    """Shape a range of numbers."""
    ends = [call.numbers(place) for place in range(3)]
    start, limit, step = (numbers[0] if numbers else None for numbers in ends)
    dtype = call.arg(0).dtype
    if start is None or limit is None or step is None:
        return [Fact(dtype, (None,))]
    return [Fact(dtype, (max(ceil((limit - start) / step), 0),))]


def filled(call: OperatorCall) -> list[Fact]:
    """Shape one value in a given shape."""
    value = call.tensor("value")
    shape = call.values(0) if call.args else call.ints("shape")
    return [Fact(value.dtype if value else "fp32", shape)]


def eye(call: OperatorCall) -> list[Fact]:
    """Shape ones on a diagonal."""
    return [Fact(dtypes.ONNX.get(call.integer("dtype"), call.arg(0).dtype), call.dims(0))]


def random(call: OperatorCall) -> list[Fact]:
    """Shape random numbers in a given shape, or in that of an input."""
    dtype = dtypes.ONNX.get(call.integer("dtype"), call.arg(0).dtype if call.args else "fp32")
    return [Fact(dtype, call.dims(0) if call.args else call.ints("shape"))]


def shape(call: OperatorCall) -> list[Fact]:
    """Shape the sizes of the input, as numbers."""
    dims = call.dims(0)
    start, end = call.integer("start"), call.attributes.get("end")
    part = dims[slice(start, end if isinstance(end, int) else None)]
    values = tuple(dim for dim in part if dim is not None)
    return [Fact("int64", (len(part),), values if len(values) == len(part) else None)]


def count(call: OperatorCall) -> list[Fact]:
    """Shape the number of elements of the input."""
    total = product(call.dims(0))
    return [Fact("int64", (), None if total is None else (total,))]


def crop_pad(call: OperatorCall) -> list[Fact]:
    """Shape the input, cropped or padded around its centre to a given size."""
    dims, sizes = list(call.dims(0)), call.values(1)
    for axis, size in zip(call.ints("axes") or range(len(sizes)), sizes, strict=True):
        dims[axis_of(axis, len(dims))] = size
    return [Fact(call.arg(0).dtype, tuple(dims))]

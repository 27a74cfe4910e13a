"""Shapes of operators that work element by element."""

from fairlead.analyze import dtypes
from fairlead.analyze.graph import Fact
from fairlead.analyze.shapes.call import OperatorCall, UnknownShapeError, broadcast


def same(call: OperatorCall) -> list[Fact]:
    """Shape like the first input."""
    first = call.arg(0)
    return [Fact(first.dtype, first.dims)]


def same_bool(call: OperatorCall) -> list[Fact]:
    """Shape like the first input, as bool."""
    return [Fact("bool", call.dims(0))]


def broadcast_inputs(call: OperatorCall) -> list[Fact]:
    """Shape all inputs broadcast together."""
    present = [fact for fact in call.args if fact is not None]
    if call.integer("broadcast"):  # before opset 7 the second input was aligned to an axis of the first
        return same(call)
    return [Fact(call.arg(0).dtype, broadcast(*(_dims(fact) for fact in present)))]


def compared(call: OperatorCall) -> list[Fact]:
    """Shape two inputs broadcast together, as bool."""
    return [Fact("bool", broadcast(call.dims(0), call.dims(1)))]


def where(call: OperatorCall) -> list[Fact]:
    """Shape a condition and two values to choose from."""
    return [Fact(call.arg(1).dtype, broadcast(call.dims(0), call.dims(1), call.dims(2)))]


def cast(call: OperatorCall) -> list[Fact]:
    """Shape the same in another type."""
    return [Fact(dtypes.ONNX.get(call.integer("to"), dtypes.UNKNOWN), call.dims(0))]


def typed(call: OperatorCall) -> list[Fact]:
    """Shape like the first input, in a type that an attribute may name."""
    first = call.arg(0)
    return [Fact(dtypes.ONNX.get(call.integer("dtype"), first.dtype), first.dims)]


def cast_like(call: OperatorCall) -> list[Fact]:
    """Shape the same in the type of the second input."""
    return [Fact(call.arg(1).dtype, call.dims(0))]


def quantised(call: OperatorCall) -> list[Fact]:
    """Shape the same in few bits."""
    dtype = dtypes.ONNX.get(call.integer("output_dtype"), "uint8")
    return [Fact(call.arg(2).dtype if call.has(2) else dtype, call.dims(0))]


def dequantised(call: OperatorCall) -> list[Fact]:
    """Shape the same as numbers with a scale."""
    dtype = dtypes.ONNX.get(call.integer("output_dtype"))
    return [Fact(dtype or call.arg(1).dtype, call.dims(0))]


def dynamically_quantised(call: OperatorCall) -> list[Fact]:
    """Shape the same in few bits, with the computed scale and zero point."""
    return [Fact("uint8", call.dims(0)), Fact("fp32", ()), Fact("uint8", ())]


def dropout(call: OperatorCall) -> list[Fact]:
    """Shape the input and the mask of kept elements, which are all of them."""
    return [*same(call), Fact("bool", call.dims(0))]


def q_binary(call: OperatorCall) -> list[Fact]:
    """Shape two quantised inputs, each with a scale and a zero point."""
    return [Fact(call.arg(0).dtype, broadcast(call.dims(0), call.dims(3)))]


def skip_norm(call: OperatorCall) -> list[Fact]:
    """Shape a normalised sum; the sum itself may be the last output."""
    fact = same(call)[0]
    return [fact, Fact("fp32"), Fact("fp32"), fact]


def normalised(call: OperatorCall) -> list[Fact]:
    """Shape a norm over the last axes, with mean and deviation."""
    dims = call.dims(0)
    axis = call.integer("axis", -1) % len(dims) if dims else 0
    kept = (*dims[:axis], *(1 for _ in dims[axis:]))
    return [*same(call), Fact("fp32", kept), Fact("fp32", kept)]


def batch_norm(call: OperatorCall) -> list[Fact]:
    """Shape a norm with statistics; training is not expected."""
    return [*same(call), *(Fact(call.arg(1).dtype, call.dims(1)) for _ in range(4))]


def _dims(fact: Fact) -> tuple[int | None, ...]:
    if fact.dims is None:
        raise UnknownShapeError
    return fact.dims

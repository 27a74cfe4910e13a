"""Multiply-adds of each operator, as timm, fvcore and the papers count them.

Convolutions and matrix products count, also those of attention; biases, norms and pointwise work do not. An
unknown size counts as one, so that the sum is a lower bound.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

from fairlead.analyze.graph import Dims, Fact
from fairlead.analyze.program import Step
from fairlead.analyze.shapes.call import UnknownShapeError
from fairlead.analyze.shapes.matrix import einsum_sizes, einsum_terms

_Work: TypeAlias = Callable[[Step, Sequence[Fact], Sequence[Fact]], int]


def is_counted(op: str) -> bool:
    """Say whether the multiply-adds of an operator can be counted."""
    return _count(op) is not None


def macs(step: Step, facts: Mapping[str, Fact]) -> int:
    """Return the multiply-adds of one step."""
    count = _count(step.op)
    if count is None:
        return 0
    blank = Fact()
    inputs = [facts.get(name, blank) for name in step.inputs]
    outputs = [facts.get(name, blank) for name in step.outputs]
    try:
        return max(count(step, inputs, outputs), 0)
    except (ArithmeticError, LookupError, TypeError, ValueError, UnknownShapeError):
        return 0


def _count(op: str) -> _Work | None:
    return _MACS.get(op) or _MACS.get(op.removeprefix("com.microsoft."))


def _dims(fact: Fact) -> tuple[int, ...]:
    if fact.dims is None:
        raise UnknownShapeError
    return tuple(1 if dim is None else dim for dim in fact.dims)


def _int(step: Step, name: str, default: int = 0) -> int:
    value = step.attributes.get(name, default)
    return value if isinstance(value, int) else default


def _conv(weights: int) -> _Work:
    """Every output element takes one window of the weights, whose first axis is the output's channels."""
    return lambda step, inputs, outputs: outputs[0].elements * prod(_dims(inputs[weights])[1:])


def _conv_transpose(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    """Every input element goes into one window of the weights, whose first axis is the input's channels."""
    return inputs[0].elements * prod(_dims(inputs[1])[1:])


def _matmul(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    """Every output element takes a row of the left side."""
    left = _dims(inputs[0])
    return outputs[0].elements * (left[-2] if _int(step, "transA") and len(left) > 1 else left[-1])


def _packed_matmul(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    return outputs[0].elements * _int(step, "K")


def _einsum(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    """Every combination of letters is one multiply-add; more than two inputs are joined one at a time."""
    equation = step.attributes.get("equation")
    shapes = [_dims(fact) for fact in inputs]
    if not isinstance(equation, str) or len(shapes) < 2:
        return 0
    terms, result = einsum_terms(equation, shapes)
    sizes = einsum_sizes(terms, shapes)
    total, letters = 0, set(terms[0])
    for place, term in enumerate(terms[1:], 2):
        total += prod(sizes[letter] or 1 for letter in letters | set(term))
        later = {letter for other in terms[place:] for letter in other}
        letters = {letter for letter in letters | set(term) if letter in later or letter in result}
    return total


def _recurrent(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    """Every step of the sequence takes all weights once, for each member of the batch."""
    steps = prod(_dims(inputs[0])[:2])
    return steps * (prod(_dims(inputs[1])) + prod(_dims(inputs[2])))


def _scores(batch: int, heads: int, query: int, key: int, widths: int) -> int:
    """Query with key, and the result with value; `widths` is the width of a head's key and value together."""
    return batch * heads * query * key * widths


def _attention(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    query, key, value = (_dims(fact) for fact in inputs[:3])
    past = _dims(inputs[4])[2] if len(inputs) > 4 and inputs[4].dims else 0
    if len(query) == 3:
        heads, shared = _int(step, "q_num_heads", 1), _int(step, "kv_num_heads", 1)
        widths = key[2] // shared + value[2] // shared
        return _scores(query[0], heads, query[1], past + key[1], widths)
    return _scores(query[0], query[1], query[2], past + key[2], key[3] + value[3])


def _projected_attention(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    batch, length, _ = _dims(inputs[0])
    weights, width = _dims(inputs[1]), _dims(outputs[0])[2]
    past = _dims(inputs[4])[3] if len(inputs) > 4 and len(inputs[4].dims or ()) == 5 else 0
    return batch * length * prod(weights) + _scores(batch, 1, length, past + length, 2 * width)


def _multi_head_attention(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    batch, length, width = _dims(outputs[0])
    query = _dims(inputs[0])
    key = _dims(inputs[1]) if len(inputs) > 1 and inputs[1].dims else query
    past = _dims(inputs[6])[2] if len(inputs) > 6 and inputs[6].dims else 0
    now = key[2] if len(key) == 4 else key[1]
    return _scores(batch, 1, length, past + now, (query[2] if len(query) == 3 else width) + width)


def _group_query_attention(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    batch, length, width = _dims(outputs[0])
    past = _dims(inputs[3])[2] if len(inputs) > 3 and inputs[3].dims else 0
    return _scores(batch, 1, length, past + length, 2 * width)


def _depthwise(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    return outputs[0].elements * prod(_dims(inputs[1])[1:-1])


def _conv_3d(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    return outputs[0].elements * prod(_dims(inputs[1])[:-1])


def _given_shape_transpose(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    """TFLite's transposed convolution: a shape, weights whose last axis is the input's channels, an image."""
    return inputs[2].elements * prod(_dims(inputs[1])[:-1])


def _custom_transpose(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    return inputs[0].elements * prod(_dims(inputs[1])[:-1])


def _batch_matmul(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    left: Dims = _dims(inputs[0])
    return outputs[0].elements * ((left[-2] if _int(step, "adj_x") else left[-1]) or 1)


def _fully_connected(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
    return outputs[0].elements * _dims(inputs[1])[-1]


def _sequence(*weights: int) -> _Work:
    """TFLite's recurrent layers: the weights that are matrices, once for each step of the sequence."""

    def count(step: Step, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> int:
        steps = prod(_dims(inputs[0])[:-1])
        matrices = (inputs[place] for place in weights if place < len(inputs))
        return steps * sum(fact.elements for fact in matrices if len(fact.dims or ()) == 2)

    return count


def _all(names: str, work: _Work) -> dict[str, _Work]:
    return dict.fromkeys(names.split(), work)


_MACS: Final[dict[str, _Work]] = {
    **_all("Conv FusedConv NhwcConv NhwcFusedConv ConvInteger DeformConv CONV_2D", _conv(1)),
    **_all("QLinearConv", _conv(3)),
    **_all("ConvTranspose ConvTransposeWithDynamicPads", _conv_transpose),
    **_all("MatMul FusedMatMul TransposeMatMul Gemm FusedGemm GemmFastGelu GemmFloat8", _matmul),
    **_all("MatMulInteger MatMulInteger16 MatMulIntegerToFloat DynamicQuantizeMatMul", _matmul),
    **_all("FusedMatMulActivation QLinearMatMul QGemm", _matmul),
    **_all("MatMulNBits MatMulFpQ4 MatMulBnb4", _packed_matmul),
    **_all("Einsum", _einsum),
    **_all("LSTM GRU RNN DynamicQuantizeLSTM", _recurrent),
    **_all("Attention", _attention),
    **_all("com.microsoft.Attention QAttention", _projected_attention),
    **_all("MultiHeadAttention DecoderMaskedMultiHeadAttention", _multi_head_attention),
    **_all("GroupQueryAttention", _group_query_attention),
    **_all("DEPTHWISE_CONV_2D", _depthwise),
    **_all("CONV_3D", _conv_3d),
    **_all("TRANSPOSE_CONV CONV_3D_TRANSPOSE", _given_shape_transpose),
    **_all("custom.Convolution2DTransposeBias", _custom_transpose),
    **_all("BATCH_MATMUL", _batch_matmul),
    **_all("FULLY_CONNECTED", _fully_connected),
    **_all("UNIDIRECTIONAL_SEQUENCE_LSTM tflite.LSTM", _sequence(*range(1, 18))),
    **_all("BIDIRECTIONAL_SEQUENCE_LSTM", _sequence(*range(1, 35))),
    **_all("UNIDIRECTIONAL_SEQUENCE_RNN tflite.RNN SVDF", _sequence(1, 2)),
    **_all("BIDIRECTIONAL_SEQUENCE_RNN", _sequence(1, 2, 5, 6)),
}

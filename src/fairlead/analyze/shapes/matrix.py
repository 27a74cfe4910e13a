"""Shapes of matrix products, attention and recurrent layers."""

from collections.abc import Sequence

from fairlead.analyze.graph import Dims, Fact
from fairlead.analyze.shapes.call import OperatorCall, UnknownShapeError, broadcast

_LONGEST_EQUATION = 200


def product_dims(left: Dims, right: Dims) -> Dims:
    """Return the sizes of a matrix product, where vectors count as matrices of one row or column."""
    if not left or not right:
        raise UnknownShapeError
    rows = () if len(left) == 1 else left[-2:-1]
    columns = () if len(right) == 1 else right[-1:]
    return (*broadcast(left[:-2], right[:-2]), *rows, *columns)


def _transposed(dims: Dims, *, transpose: bool) -> Dims:
    return (*dims[:-2], dims[-1], dims[-2]) if transpose and len(dims) > 1 else dims


def matmul(call: OperatorCall) -> list[Fact]:
    """Shape a matrix product; ONNX Runtime's own operators may transpose either side."""
    left = _transposed(call.dims(0), transpose=bool(call.integer("transA")))
    right = _transposed(call.dims(1), transpose=bool(call.integer("transB")))
    return [Fact(call.arg(0).dtype, product_dims(left, right))]


def integer_matmul(call: OperatorCall) -> list[Fact]:
    """Shape a matrix product of integers that keeps every bit."""
    return [Fact("int32", product_dims(call.dims(0), call.dims(1)))]


def float_from_integers(call: OperatorCall) -> list[Fact]:
    """Shape a matrix product of integers, scaled back."""
    return [Fact("fp32", product_dims(call.dims(0), call.dims(1)))]


def q_matmul(call: OperatorCall) -> list[Fact]:
    """Shape a matrix product of quantised values: each has a scale and a zero point."""
    return [Fact(call.arg(0).dtype, product_dims(call.dims(0), call.dims(3)))]


def packed_matmul(call: OperatorCall) -> list[Fact]:
    """Shape a product with a matrix whose weights are packed into few bits."""
    return [Fact(call.arg(0).dtype, (*call.dims(0)[:-1], call.integer("N")))]


def gemm(call: OperatorCall) -> list[Fact]:
    """Shape a matrix product with an addition."""
    left = _transposed(call.dims(0), transpose=bool(call.integer("transA")))
    right = _transposed(call.dims(1), transpose=bool(call.integer("transB")))
    return [Fact(call.arg(0).dtype, (left[0], right[-1]))]


def q_gemm(call: OperatorCall) -> list[Fact]:
    """Shape a Gemm of quantised values."""
    left = _transposed(call.dims(0), transpose=bool(call.integer("transA")))
    right = _transposed(call.dims(3), transpose=bool(call.integer("transB")))
    dtype = call.arg(8).dtype if call.has(8) else "fp32"
    return [Fact(dtype, (left[0], right[-1]))]


def einsum_terms(equation: str, shapes: Sequence[Dims]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each input and of the output; an ellipsis becomes letters of its own."""
    equation = equation.replace(" ", "")
    if len(equation) > _LONGEST_EQUATION:
        raise UnknownShapeError
    left, arrow, right = equation.partition("->")
    terms = [_letters(term, len(shape)) for term, shape in zip(left.split(","), shapes, strict=True)]
    every = [letter for term in terms for letter in term]
    if arrow:
        rank = max((sum(letter.startswith(".") for letter in term) for term in terms), default=0)
        return terms, _letters(right, rank + len(right.replace("...", "")))
    dots = sorted({letter for letter in every if letter.startswith(".")}, key=lambda dot: -len(dot))
    once = sorted({letter for letter in every if every.count(letter) == 1 and not letter.startswith(".")})
    return terms, [*dots, *once]


def _letters(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise UnknownShapeError
    return [*before, *("." * (hidden - place) for place in range(hidden)), *after]


def einsum_sizes(terms: Sequence[Sequence[str]], shapes: Sequence[Dims]) -> dict[str, int | None]:
    """Return the size that each letter stands for."""
    sizes: dict[str, int | None] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            if sizes.get(letter, 1) in (1, None):
                sizes[letter] = size
    return sizes


def einsum(call: OperatorCall) -> list[Fact]:
    """Shape a product by an equation."""
    shapes = [call.dims(place) for place in range(len(call.args))]
    terms, result = einsum_terms(call.text("equation"), shapes)
    sizes = einsum_sizes(terms, shapes)
    return [Fact(call.arg(0).dtype, tuple(sizes[letter] for letter in result))]


def recurrent(call: OperatorCall) -> list[Fact]:
    """Shape a recurrent layer: every step, the last state, and of an LSTM the last cell."""
    dims, directions = call.dims(0), call.dims(1)[0]
    hidden = call.integer("hidden_size") or call.dims(2)[-1]
    dtype = call.arg(0).dtype
    if call.integer("layout"):
        last: Dims = (dims[0], directions, hidden)
        return [Fact(dtype, (*dims[:2], directions, hidden)), Fact(dtype, last), Fact(dtype, last)]
    last = (directions, dims[1], hidden)
    return [Fact(dtype, (dims[0], directions, dims[1], hidden)), Fact(dtype, last), Fact(dtype, last)]


def attention(call: OperatorCall) -> list[Fact]:
    """Shape ONNX's attention: query, key, value, a mask, and a past that key and value follow."""
    query, key, value = call.dims(0), call.dims(1), call.dims(2)
    dtype = call.arg(0).dtype
    heads = call.integer("kv_num_heads")
    if len(query) == 3 and heads:
        batch, length = key[:2]
        key = (batch, heads, length, _share(key[2], heads))
        value = (batch, heads, length, _share(value[2], heads))
        width = None if value[3] is None else value[3] * call.integer("q_num_heads", heads)
        result: Dims = (*query[:2], width)
    else:
        result = (*query[:3], value[3])
    if call.has(4):
        past = call.dims(4)[2]
        total = None if past is None or key[2] is None else past + key[2]
        key, value = (*key[:2], total, key[3]), (*value[:2], total, value[3])
    scores = (query[0], call.integer("q_num_heads") or query[1], query[-2], key[2])
    return [Fact(dtype, result), Fact(dtype, key), Fact(dtype, value), Fact(dtype, scores)]


def packed_attention(call: OperatorCall) -> list[Fact]:
    """Shape ONNX Runtime's attention that begins with the projection of one input."""
    dims, weights = call.dims(0), call.dims(1)
    split = call.ints("qkv_hidden_sizes")
    if split:
        width: int | None = split[-1]
    else:
        width = None if weights[-1] is None else weights[-1] // 3
    heads = call.integer("num_heads", 1)
    dtype = call.arg(2).dtype if call.has(2) else call.arg(0).dtype
    past = call.dims(4)[3] if call.has(4) and not call.op.endswith("QAttention") else 0
    total = None if past is None or dims[1] is None else past + dims[1]
    return [Fact(dtype, (*dims[:2], width)), Fact(dtype, (2, dims[0], heads, total, _share(width, heads)))]


def multi_head_attention(call: OperatorCall) -> list[Fact]:
    """Shape ONNX Runtime's attention of a query with keys and values."""
    query = call.dims(0)
    dtype, heads = call.arg(0).dtype, call.integer("num_heads", 1)
    if len(query) == 5:  # query, key and value in one
        batch, length, heads, _, head_width = query[0], query[1], query[2] or 1, query[3], query[4]
        width = None if head_width is None else head_width * heads
        return [Fact(dtype, (batch, length, width))]
    value = call.dims(2) if call.has(2) else call.dims(1)
    width = query[-1]
    if len(value) == 3:
        width = value[2]
    elif len(value) == 4 and value[3] is not None:
        width = value[3] * heads
    now = value[2] if len(value) == 4 else value[1]
    past = call.dims(6)[2] if call.has(6) else 0
    total = None if past is None or now is None else past + now
    cache: Dims = (query[0], heads, total, _share(width, heads))
    return [Fact(dtype, (*query[:2], width)), Fact(dtype, cache), Fact(dtype, cache)]


def group_query_attention(call: OperatorCall) -> list[Fact]:
    """Shape ONNX Runtime's attention where several heads share a key; the query may hold all three."""
    query, heads = call.dims(0), call.integer("num_heads", 1)
    shared = call.integer("kv_num_heads", heads)
    width = query[2]
    if width is not None and not call.has(1):
        width = width // (heads + 2 * shared) * heads
    past = call.dims(3) if call.has(3) else (query[0], shared, 0, _share(width, heads))
    total = None if past[2] is None or query[1] is None else past[2] + query[1]
    cache: Dims = (past[0], past[1], total, past[3])
    dtype = call.arg(0).dtype
    return [Fact(dtype, (*query[:2], width)), Fact(dtype, cache), Fact(dtype, cache)]


def _share(width: int | None, heads: int) -> int | None:
    return None if width is None else width // max(heads, 1)


def embed_norm(call: OperatorCall) -> list[Fact]:
    """Shape ONNX Runtime's sum of embeddings, normalised."""
    fact = Fact(call.arg(2).dtype, (*call.dims(0), call.dims(2)[-1]))
    return [fact, Fact("int32", call.dims(0)[:1]), fact]

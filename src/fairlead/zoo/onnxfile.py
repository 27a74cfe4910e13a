"""Write a graph as an ONNX file, its weights as a stream: a large model takes no memory.

Protocol buffers by hand: a message is a sequence of fields, and a nested message starts with its length.
The same graph always gives the same bytes.
"""

import random
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import IO, Final

from fairlead import varint
from fairlead.outfile import atomic_write
from fairlead.zoo.graph import Attribute, NetGraph, NetNode, NetValue, Weight

OPSET: Final = 17
IR_VERSION: Final = 8
DTYPES: Final = {
    "fp32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "fp16": 10, "fp64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
"""Numbers of TensorProto.DataType."""
FORMATS: Final = {
    "fp32": "f", "uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "int32": "i", "int64": "q",
    "bool": "?", "fp16": "e", "fp64": "d", "uint32": "I", "uint64": "Q",
}  # fmt: skip
_NOISE: Final = 65_521
"""Elements of the noise that fills weights, repeated; prime, so that no two rows are equal."""
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS = 1, 2, 3, 4, 5, 6, 7


def write(
    graph: NetGraph, path: str, *, opset: int = OPSET, domains: Mapping[str, int] | None = None
) -> None:
    """Write a graph to a file, whole or not at all; `domains` are the opset versions of other domains."""
    with atomic_write(path) as out:
        save(graph, out, opset, domains or {})


def save(graph: NetGraph, out: IO[bytes], opset: int, domains: Mapping[str, int]) -> None:
    """Write a graph to a stream."""
    out.write(varint_field(1, IR_VERSION) + string_field(2, "fairlead"))
    for domain, version in {"": opset, **domains}.items():
        out.write(len_field(8, (string_field(1, domain) if domain else b"") + varint_field(2, version)))
    body = _body(graph)
    heads = [_tensor_head(weight) for weight in graph.weights]
    sizes = [len(head) + size(weight) for head, weight in zip(heads, graph.weights, strict=True)]
    out.write(_head(7, len(body) + sum(len(_head(5, length)) + length for length in sizes)) + body)
    for weight, head, length in zip(graph.weights, heads, sizes, strict=True):
        out.write(_head(5, length) + head)
        for block in content(weight):
            out.write(block)


def size(weight: Weight) -> int:
    """Return the bytes of a weight."""
    return weight.count * struct.calcsize(FORMATS[weight.dtype])


def content(weight: Weight) -> Iterator[bytes]:
    """Yield the bytes of a weight, block after block."""
    form = FORMATS[weight.dtype]
    if weight.values is not None and len(weight.values) == weight.count != 1:
        yield struct.pack(f"<{weight.count}{form}", *weight.values)
        return
    block = (
        _noise(weight.deviation, weight.dtype)
        if weight.values is None
        else struct.pack(f"<{form}", *weight.values) * _NOISE
    )
    left = size(weight)
    while left > 0:
        yield block[:left]
        left -= len(block)


@cache
def _gauss() -> tuple[float, ...]:
    draw = random.Random(17)  # noqa: S311 - weights, not secrets
    return tuple(draw.gauss(0.0, 1.0) for _ in range(_NOISE))


@cache
def _noise(deviation: float, dtype: str) -> bytes:
    if not dtype.startswith("fp"):
        raise ValueError(f"{dtype}: only floating-point weights are filled with noise")
    return struct.pack(f"<{_NOISE}{FORMATS[dtype]}", *(value * deviation for value in _gauss()))


def _body(graph: NetGraph) -> bytes:
    """Return a graph without its weights."""
    parts = [len_field(1, _node(node)) for node in graph.nodes]
    parts.append(string_field(2, graph.name))
    parts += [len_field(11, _value(value)) for value in graph.inputs]
    parts += [len_field(12, _value(value)) for value in graph.outputs]
    parts += [len_field(13, _value(value)) for value in graph.values]
    return b"".join(parts)


def _node(node: NetNode) -> bytes:
    parts = [string_field(1, name) for name in node.inputs]
    parts += [string_field(2, name) for name in node.outputs]
    parts += [string_field(3, node.name or node.outputs[0]), string_field(4, node.op)]
    parts += [len_field(5, _attribute(name, value)) for name, value in node.attributes.items()]
    if node.domain:
        parts.append(string_field(7, node.domain))
    return b"".join(parts)


def _attribute(name: str, value: Attribute) -> bytes:
    match value:
        case int():
            kind, content = _INT, varint_field(3, value)
        case float():
            kind, content = _FLOAT, float_field(2, value)
        case str():
            kind, content = _STRING, string_field(4, value)
        case Weight():
            kind, content = _TENSOR, len_field(5, tensor(value))
        case NetGraph():
            kind, content = _GRAPH, len_field(6, _whole(value))
        case _ if any(isinstance(item, float) for item in value):
            kind, content = _FLOATS, b"".join(float_field(7, item) for item in value)
        case _:
            kind, content = _INTS, b"".join(varint_field(8, int(item)) for item in value)
    return string_field(1, name) + content + varint_field(20, kind)


def _whole(graph: NetGraph) -> bytes:
    return _body(graph) + b"".join(len_field(5, tensor(weight)) for weight in graph.weights)


def tensor(weight: Weight) -> bytes:
    """Return a weight as one message."""
    return _tensor_head(weight) + b"".join(content(weight))


def _tensor_head(weight: Weight) -> bytes:
    """Return a tensor up to its data, which follows."""
    dims = b"".join(varint_field(1, dim) for dim in weight.dims)
    return (
        dims + varint_field(2, DTYPES[weight.dtype]) + string_field(8, weight.name) + _head(9, size(weight))
    )


def _value(value: NetValue) -> bytes:
    dims = (varint_field(1, dim) if isinstance(dim, int) else string_field(2, dim) for dim in value.dims)
    shape = b"".join(len_field(1, dim) for dim in dims)
    return string_field(1, value.name) + len_field(
        2, len_field(1, varint_field(1, DTYPES[value.dtype]) + len_field(2, shape))
    )


def varint_field(field: int, value: int) -> bytes:
    """Return a varint field."""
    return varint.encode(field << 3) + varint.encode(value)


def float_field(field: int, value: float) -> bytes:
    """Return a float field."""
    return varint.encode(field << 3 | 5) + struct.pack("<f", value)


def len_field(field: int, content: bytes) -> bytes:
    """Return a length-delimited field: a message or bytes."""
    return _head(field, len(content)) + content


def string_field(field: int, content: str) -> bytes:
    """Return a string field."""
    return len_field(field, content.encode())


def _head(field: int, length: int) -> bytes:
    return varint.encode(field << 3 | 2) + varint.encode(length)

"""Read a TFLite file: its subgraphs, but not its weights."""

import struct
from math import prod
from typing import Final

from fairlead.analyze import bounds, dtypes
from fairlead.analyze.graph import (
    FUSED_ACTIVATION,
    Attribute,
    Constant,
    Graph,
    GraphNode,
    Model,
    Number,
    Value,
)
from fairlead.analyze.names import printable
from fairlead.analyze.source import ModelSource
from fairlead.analyze.tflite.flat import FlatbufferReader, FlatbufferTable
from fairlead.analyze.tflite.names import CUSTOM, name
from fairlead.errors import AnalysisError

BATCH: Final = "batch"
"""The name of an open first dimension."""
_OPTIONS: Final = {
    "BATCH_MATMUL": ("adj_x", "adj_y"),
    "IF": ("then_branch", "else_branch"),
    "WHILE": ("cond", "body"),
    "CALL_ONCE": ("init",),
}
"""The builtin options that the analysis reads, in the order of their fields."""
_ACTIVATION_FIELDS: Final = {
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 4,
    "FULLY_CONNECTED": 0,
    "CONCATENATION": 1,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), 0),
}
"""The field of the builtin options that names the activation fused into an operator."""
_ACTIVATIONS: Final = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}
_CODES: Final = {"int32": "i", "int64": "q", "fp32": "f", "bool": "?"}


def read(source: ModelSource) -> Model:
    """Return the model of a TFLite file."""
    return _Reader(source).model()


class _Reader:
    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._flat = FlatbufferReader(source)
        self._nodes, self._edges = bounds.NODES, bounds.EDGES
        self._tensors = bounds.TENSORS
        self._codes: list[str] = []
        self._buffers: list[FlatbufferTable] = []

    def model(self) -> Model:
        root = self._flat.root()
        self._codes = [self._code(table) for table in root.tables(1, bounds.NODES)]
        self._buffers = root.tables(4, bounds.TENSORS)
        graphs = [self._graph(table) for table in root.tables(2, 4096)]
        if not graphs:
            raise AnalysisError(
                f"{self._source.path}: a TFLite file without a graph", "convert the model again"
            )
        return Model("tflite", graphs[0], bodies=tuple(graphs))

    def _code(self, table: FlatbufferTable) -> str:
        number = max(table.byte(0), table.number(3))  # old writers set the first field, new ones both
        return f"custom.{table.text(1)}" if number == CUSTOM else name(number)

    def _graph(self, table: FlatbufferTable) -> Graph:
        tensors = table.tables(0, bounds.TENSORS)
        self._tensors -= len(tensors)
        if self._tensors < 0:
            raise self._flat.limit_error(f"more than {bounds.TENSORS:,} tensors")
        names = _unique([tensor.text(3) for tensor in tensors])
        values = {key: self._value(tensor) for key, tensor in zip(names, tensors, strict=True)}
        constants: dict[str, Constant] = {}
        for key, tensor in zip(names, tensors, strict=True):
            constant = self._constant(key, tensor)
            if constant is not None:
                constants[key] = constant
        nodes = tuple(self._node(node, names) for node in table.tables(3, bounds.NODES))
        inputs = self._named(table.ints(1, bounds.EDGES), names)
        outputs = self._named(table.ints(2, bounds.EDGES), names)
        formal = {key: values[key] for key in inputs if key in values}
        return Graph(table.text(4), nodes, formal, outputs, constants, values)

    def _named(self, indices: tuple[int, ...], names: list[str]) -> tuple[str, ...]:
        self._edges -= len(indices)
        if self._edges < 0:
            raise self._flat.limit_error(f"more than {bounds.EDGES:,} inputs and outputs of operators")
        if any(index >= len(names) for index in indices):
            raise self._source.damaged_error(self._source.base)
        return tuple(names[index] if index >= 0 else "" for index in indices)

    def _value(self, tensor: FlatbufferTable) -> Value:
        kind = tensor.byte(1)
        dtype = dtypes.TFLITE[kind] if 0 <= kind < len(dtypes.TFLITE) else dtypes.UNKNOWN
        dims, signature = tensor.ints(0, bounds.RANK), tensor.ints(7, bounds.RANK)
        if any(dim > bounds.ELEMENTS for dim in dims) or prod(abs(dim) for dim in dims) > bounds.ELEMENTS:
            raise self._flat.limit_error(f"a tensor of {'x'.join(map(str, dims))} elements")
        if len(signature) != len(dims):
            signature = dims
        return Value(
            dtype,
            tuple(_dim(place, *pair) for place, pair in enumerate(zip(dims, signature, strict=True))),
        )

    def _constant(self, key: str, tensor: FlatbufferTable) -> Constant | None:
        start, length = self._data(tensor.number(2))
        if not length:
            return None
        dims = tuple(max(dim, 0) for dim in tensor.ints(0, bounds.RANK))
        kind = tensor.byte(1)
        dtype = dtypes.TFLITE[kind] if 0 <= kind < len(dtypes.TFLITE) else dtypes.UNKNOWN
        elements = prod(dims)
        size = dtypes.size(elements, dtype)
        if tensor.table(6) is None and dtype in dtypes.BITS and length < size:
            raise AnalysisError(
                f"{self._source.path}: tensor {printable(key)!r} has {length} bytes, its dims need {size}",
                "fetch or convert the model again",
            )
        values: tuple[Number, ...] | None = None
        if dtype in _CODES and elements <= bounds.VALUES and length == size:
            values = struct.unpack(f"<{elements}{_CODES[dtype]}", self._source.read(start, start + length))
        return Constant(dtype, dims, elements, length if dtype in dtypes.BITS else 0, values)

    def _data(self, index: int) -> tuple[int, int]:
        """Return the start of a tensor's data in the file, and its length."""
        if not 0 < index < len(self._buffers):
            return 0, 0
        buffer = self._buffers[index]
        start, length = buffer.long(1), buffer.long(2)
        if start > 1 and length:  # models beyond 2 GB store their data after the flatbuffer
            if start + length > self._source.size:
                raise self._source.damaged_error(start)
            return start, length
        return buffer.span(0)

    def _node(self, table: FlatbufferTable, names: list[str]) -> GraphNode:
        self._nodes -= 1
        code = table.number(0)
        if self._nodes < 0:
            raise self._flat.limit_error(f"more than {bounds.NODES:,} operators")
        if not 0 <= code < len(self._codes):
            raise self._source.damaged_error(self._source.base)
        op = self._codes[code]
        inputs = self._named(table.ints(1, bounds.EDGES), names)
        outputs = self._named(table.ints(2, bounds.EDGES), names)
        return GraphNode(op, outputs[0] if outputs else op, inputs, outputs, self._options(op, table))

    def _options(self, op: str, table: FlatbufferTable) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        if op.startswith("custom."):
            attributes["opaque"] = max(table.span(5)[1], table.long(10))
        names = _OPTIONS.get(op, ())
        options = table.table(4) if names else None
        for field, option in enumerate(names):
            if options is not None:
                flag = option.startswith("adj")
                attributes[option] = options.byte(field) if flag else options.number(field)
        fused = _fused_activation(op, table)
        if fused:
            attributes[FUSED_ACTIVATION] = fused
        composite = table.table(12) if op == "STABLEHLO_COMPOSITE" else None
        if composite is not None:
            attributes["decomposition"] = composite.number(1)
        return attributes


def _fused_activation(op: str, table: FlatbufferTable) -> str:
    """Return the activation that an operator applies to its result; empty where it applies none."""
    field = _ACTIVATION_FIELDS.get(op)
    options = None if field is None else table.table(4)
    return "" if options is None or field is None else _ACTIVATIONS.get(options.byte(field), "")


def _dim(place: int, dim: int, sign: int) -> int | str | None:
    if sign >= 0 and dim >= 0:
        return dim
    return BATCH if place == 0 else None


def _unique(names: list[str]) -> list[str]:
    used: set[str] = set()
    unique: list[str] = []
    for index, name_ in enumerate(names):
        key = name_ or f"tensor{index}"
        while key in used:
            key = f"{key}#{index}"
        used.add(key)
        unique.append(key)
    return unique

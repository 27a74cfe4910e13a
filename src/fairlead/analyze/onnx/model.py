"""Read an ONNX file: its graph, but not its weights.

Tags are written as they are in the file: eight times the field's number in onnx.proto, plus the wire type,
which is two (LEN) for strings, messages and packed lists.
"""

import struct
from collections.abc import Mapping
from typing import Final

from fairlead.analyze import bounds, dtypes
from fairlead.analyze.graph import Attribute, Constant, Function, Graph, GraphNode, Model, Reference, Value
from fairlead.analyze.onnx.external import ExternalDataFolder
from fairlead.analyze.onnx.tensor import TensorReader
from fairlead.analyze.onnx.wire import I32, LEN, VARINT, ProtobufReader, len_tag, signed, varint_tag
from fairlead.analyze.source import ModelSource
from fairlead.errors import AnalysisError

_OWN: Final = ("", "ai.onnx")
_NO_NAMES: Final = ("", "?", "-1", "None", "unknown")
"""The names that exporters write for a dimension without a name."""
_GRAPH, _OPSET, _FUNCTION = len_tag(7), len_tag(8), len_tag(25)
_TENSOR_TYPES: Final = (len_tag(1), len_tag(8))
"""Tags of a tensor type and of a sparse tensor type; sequences and maps stay unknown."""


def read(source: ModelSource) -> Model:
    """Return the model of an ONNX file."""
    return _Reader(source).model()


def qualified(domain: str, op: str) -> str:
    """Return an operator's name with its domain, unless that is ONNX's own."""
    return op if domain in _OWN else f"{domain}.{op}"


class _Reader:
    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._wire = ProtobufReader(source)
        self._external = ExternalDataFolder(source.path)
        self._tensors = TensorReader(self._wire, self._external)
        self._nodes = bounds.NODES
        self._edges = bounds.EDGES

    def model(self) -> Model:
        graph: Graph | None = None
        opset = 0
        functions: dict[str, Function] = {}
        for tag, start, end in self._wire.fields(0, self._source.size):
            if tag == _GRAPH:
                graph = self._graph(start, end, 0)
            elif tag == _OPSET:
                domain, version = self._opset(start, end)
                opset = version if domain in _OWN else opset
            elif tag == _FUNCTION:
                name, function = self._function(start, end)
                functions[name] = function
        if graph is None:
            raise AnalysisError(
                f"{self._source.path}: an ONNX file without a graph", "export the model again"
            )
        return Model("onnx", graph, opset, functions, notes=self._notes())

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self._external.missing:
            notes.append("external data is missing: weights are counted from their dims")
        if self._tensors.stripped:
            notes.append("the file has no weight data: weights are counted from their dims")
        return tuple(notes)

    def _opset(self, start: int, end: int) -> tuple[str, int]:
        domain, version = "", 0
        for tag, first, last in self._wire.fields(start, end):
            if tag == len_tag(1):
                domain = self._wire.text(first, last)
            elif tag == varint_tag(2):
                version = first
        return domain, version

    def _graph(self, start: int, end: int, depth: int) -> Graph:
        if depth > bounds.DEPTH:
            raise self._wire.limit_error(f"more than {bounds.DEPTH} nested graphs")
        name, nodes, outputs = "", list[GraphNode](), list[str]()
        inputs: dict[str, Value] = {}
        values: dict[str, Value] = {}
        constants: dict[str, Constant] = {}
        for tag, first, last in self._wire.fields(start, end):
            match tag:
                case 0x0A:
                    nodes.append(self._node(first, last, depth))
                case 0x12:
                    name = self._wire.text(first, last)
                case 0x2A:
                    key, constant = self._tensors.read(first, last)
                    constants[key] = constant
                case 0x5A:
                    key, value = self._value(first, last)
                    inputs[key] = value
                case 0x62:
                    key, value = self._value(first, last)
                    outputs.append(key)
                    values.setdefault(key, value)
                case 0x6A:
                    key, value = self._value(first, last)
                    values[key] = value
                case 0x7A:
                    key, constant = self._tensors.read_sparse(first, last)
                    constants[key] = constant
        own = {key: value for key, value in inputs.items() if key not in constants}
        return Graph(name, tuple(nodes), own, tuple(outputs), constants, values)

    def _node(self, start: int, end: int, depth: int) -> GraphNode:
        self._nodes -= 1
        if self._nodes < 0:
            raise self._wire.limit_error(f"more than {bounds.NODES:,} operators")
        text = self._wire.text
        inputs, outputs, attributes = list[str](), list[str](), dict[str, Attribute]()
        name = op = domain = ""
        for tag, first, last in self._wire.fields(start, end):
            match tag:
                case 0x0A:
                    inputs.append(text(first, last))
                case 0x12:
                    outputs.append(text(first, last))
                case 0x1A:
                    name = text(first, last)
                case 0x22:
                    op = text(first, last)
                case 0x2A:
                    self._attribute(attributes, first, last, depth)
                case 0x3A:
                    domain = text(first, last)
        self._edges -= len(inputs) + len(outputs)
        if self._edges < 0:
            raise self._wire.limit_error(f"more than {bounds.EDGES:,} inputs and outputs of operators")
        return GraphNode(qualified(domain, op), name, tuple(inputs), tuple(outputs), attributes)

    def _attribute(self, attributes: dict[str, Attribute], start: int, end: int, depth: int) -> None:
        name, value = "", None
        listed: list[int | float] = []
        for tag, first, last in self._wire.fields(start, end):
            if tag == 0x0A:
                name = self._wire.text(first, last)
            elif tag >> 3 in (7, 8):
                self._listed(listed, tag, first, last)
                if len(listed) >= bounds.LISTED:
                    break  # every writer puts the name before the list
            else:
                single = self._single(tag, first, last, depth)
                value = value if single is None else single
        if listed and value is None:
            value = tuple(listed)
        if name:
            attributes[name] = () if value is None else value

    def _single(self, tag: int, first: int, last: int, depth: int) -> Attribute | None:
        match tag:
            case 0x15:
                (value,) = struct.unpack("<f", self._source.read(first, last))
                return float(value)
            case 0x18:
                return signed(first)
            case 0x22:
                return self._wire.text(first, min(last, first + 1024))
            case 0x2A | 0xB2:
                return (self._tensors.read if tag == 0x2A else self._tensors.read_sparse)(first, last)[1]
            case 0x32:
                return self._graph(first, last, depth + 1)
            case 0xAA:
                return Reference(self._wire.text(first, last))
        return None

    def _listed(self, listed: list[int | float], tag: int, first: int, last: int) -> None:
        field, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            listed.append(signed(first))
        elif wire_type == I32:
            listed += self._wire.floats(first, last, 1)
        elif wire_type == LEN and field == 8:
            listed += self._wire.numbers(first, last, bounds.LISTED)
        elif wire_type == LEN:
            listed += self._wire.floats(first, last, bounds.LISTED)

    def _value(self, start: int, end: int) -> tuple[str, Value]:
        self._tensors.count_tensor()
        name, value = "", Value(dtypes.UNKNOWN, None)
        for tag, first, last in self._wire.fields(start, end):
            if tag == 0x0A:
                name = self._wire.text(first, last)
            elif tag == 0x12:
                value = self._type(first, last)
        return name, value

    def _type(self, start: int, end: int) -> Value:
        dtype, dims = dtypes.UNKNOWN, None
        for tag, first, last in self._wire.fields(start, end):
            if tag not in _TENSOR_TYPES:
                continue
            for inner, begin, stop in self._wire.fields(first, last):
                if inner == varint_tag(1):
                    dtype = dtypes.ONNX.get(begin, dtypes.UNKNOWN)
                elif inner == len_tag(2):
                    dims = self._shape(begin, stop)
        return Value(dtype, dims)

    def _shape(self, start: int, end: int) -> tuple[int | str | None, ...]:
        dims: list[int | str | None] = []
        for tag, first, last in self._wire.fields(start, end):
            if tag == len_tag(1):
                dims.append(self._dim(first, last))
            if len(dims) > bounds.RANK:
                raise self._wire.limit_error(f"a value of more than {bounds.RANK} dimensions")
        return tuple(dims)

    def _dim(self, start: int, end: int) -> int | str | None:
        dim: int | str | None = None
        for tag, first, last in self._wire.fields(start, end):
            if tag == varint_tag(1):
                dim = signed(first)
            elif tag == len_tag(2):
                name = self._wire.text(first, last)
                dim = None if name in _NO_NAMES else name
        if isinstance(dim, int) and not 0 <= dim <= bounds.ELEMENTS:
            return None  # some exporters write -1 for an open dimension
        return dim

    def _function(self, start: int, end: int) -> tuple[str, Function]:
        name = domain = ""
        inputs, outputs, nodes = list[str](), list[str](), list[GraphNode]()
        defaults: dict[str, Attribute] = {}
        text = self._wire.text
        for tag, first, last in self._wire.fields(start, end):
            match tag:
                case 0x0A:
                    name = text(first, last)
                case 0x22:
                    inputs.append(text(first, last))
                case 0x2A:
                    outputs.append(text(first, last))
                case 0x3A:
                    nodes.append(self._node(first, last, 0))
                case 0x52:
                    domain = text(first, last)
                case 0x5A:
                    self._attribute(defaults, first, last, 0)
        formal: Mapping[str, Value] = {key: Value(dtypes.UNKNOWN, None) for key in inputs}
        body = Graph(name, tuple(nodes), formal, tuple(outputs))
        return qualified(domain, name), Function(body, defaults)

"""Write tiny TFLite files: flatbuffers by hand, each table before its references."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fairlead.analyze.dtypes import TFLITE
from fairlead.analyze.tflite.names import CUSTOM, NAMES


@dataclass(frozen=True)
class Table:
    """A table by the numbers of its fields; None is a missing field."""

    fields: "tuple[Field, ...]"


@dataclass(frozen=True)
class Byte:
    """An int8."""

    number: int


@dataclass(frozen=True)
class Long:
    """A uint64."""

    number: int


Field: TypeAlias = "int | str | bytes | Byte | Long | Table | Sequence[int] | Sequence[Table] | None"


@dataclass(frozen=True)
class T:
    """A tensor; with data it is a constant."""

    name: str
    dims: tuple[int, ...] = ()
    dtype: str = "fp32"
    data: bytes | None = None
    signature: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Op:
    """An operator on tensors by their names; options by their field."""

    name: str
    inputs: str
    outputs: str
    options: Mapping[int, Field] = field(default_factory=dict)
    custom: bytes | None = None


@dataclass(frozen=True)
class Sub:
    """A subgraph."""

    tensors: Sequence[T]
    ops: Sequence[Op]
    inputs: str
    outputs: str


def zeros(count: int) -> bytes:
    """Return zeros as data."""
    return bytes(count)


def model(*graphs: Sub) -> bytes:
    """Return a whole file."""
    names = list(dict.fromkeys(op.name for graph in graphs for op in graph.ops))
    codes = [_code(name) for name in names]
    buffers = [Table(())]
    subs = [_graph(graph, names, buffers) for graph in graphs]
    root = Table((3, codes, subs, "made by hand", buffers))
    out = bytearray(b"\0\0\0\0TFL3")
    struct.pack_into("<I", out, 0, _emit(out, root))
    return bytes(out)


def _code(name: str) -> Table:
    if name in NAMES:
        number = NAMES.index(name)
        return Table((Byte(min(number, 127)), None, 1, number))
    return Table((Byte(CUSTOM), name.removeprefix("custom."), 1, CUSTOM))


def _graph(graph: Sub, names: Sequence[str], buffers: list[Table]) -> Table:
    places = {tensor.name: place for place, tensor in enumerate(graph.tensors)}
    tensors = []
    for tensor in graph.tensors:
        buffer = 0
        if tensor.data is not None:
            buffer = len(buffers)
            buffers.append(Table((tensor.data,)))
        kind = Byte(TFLITE.index(tensor.dtype))
        tensors.append(
            Table((tensor.dims, kind, buffer, tensor.name, None, None, None, tensor.signature or None))
        )
    ops = [
        Table(
            (
                names.index(op.name),
                [places.get(name, -1) for name in op.inputs.split()],
                [places[name] for name in op.outputs.split()],
                Byte(1),
                Table(tuple(op.options.get(at) for at in range(max(op.options) + 1))) if op.options else None,
                op.custom,
            )
        )
        for op in graph.ops
    ]
    ends = ([places[name] for name in each.split()] for each in (graph.inputs, graph.outputs))
    return Table((tensors, *ends, ops, "main"))


def _emit(out: bytearray, table: Table) -> int:
    """Append a table and all its references; return its start."""
    slots, inline, later = [], bytearray(4), list[tuple[int, Field]]()
    for value in table.fields:
        if value is None:
            slots.append(0)
            continue
        form = {Byte: "<b", Long: "<Q"}.get(type(value), "<i")
        slots.append(len(inline))
        match value:
            case Byte() | Long():
                inline += struct.pack(form, value.number)
            case int():
                inline += struct.pack(form, value)
            case _:
                later.append((len(inline), value))
                inline += bytes(4)
    out += bytes(-len(out) % 4)
    vtable = len(out)
    out += struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), len(inline), *slots)
    start = len(out)
    out += inline
    struct.pack_into("<i", out, start, start - vtable)
    for place, value in later:
        at = _content(out, value)
        struct.pack_into("<I", out, start + place, at - start - place)
    return start


def _content(out: bytearray, value: Field) -> int:
    """Append a string, bytes, a vector or a table; return its start."""
    if isinstance(value, Table):
        return _emit(out, value)
    out += bytes(-len(out) % 4)
    start = len(out)
    if isinstance(value, str | bytes):
        data = value.encode() if isinstance(value, str) else value
        out += struct.pack("<I", len(data)) + data + b"\0"
        return start
    items: Sequence[int | Table] = value  # type: ignore[assignment] # the table itself holds numbers
    out += struct.pack("<I", len(items)) + bytes(4 * len(items))
    for at, item in enumerate(items):
        place = start + 4 + 4 * at
        number = _emit(out, item) - place if isinstance(item, Table) else item
        struct.pack_into("<i", out, place, number)
    return start

"""Tensors of an ONNX file: counted by their dims, and read only where they are small."""

import struct
from dataclasses import dataclass, field
from math import prod
from typing import Final

from fairlead.analyze import bounds, dtypes
from fairlead.analyze.graph import Constant, Number
from fairlead.analyze.names import printable
from fairlead.analyze.onnx.external import ExternalData, ExternalDataFolder
from fairlead.analyze.onnx.wire import LEN, VARINT, ProtobufReader, len_tag, signed, varint_tag

_CODES: Final = {
    "fp32": "f",
    "fp64": "d",
    "fp16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint64": "Q",
    "uint32": "I",
    "uint16": "H",
    "uint8": "B",
    "bool": "?",
}
_FLOAT_DATA, _DOUBLE_DATA = 4, 10
_EXTERNAL: Final = 1


@dataclass(slots=True)
class _Parts:
    dims: list[int] = field(default_factory=list)
    dtype: int = 0
    name: str = ""
    raw: tuple[int, int] | None = None
    typed: tuple[int, int, int] | None = None
    texts: int = 0
    external: dict[str, str] = field(default_factory=dict)
    location: int = 0


class TensorReader:
    """Reads tensors, whose data may be external."""

    __slots__ = ("_external", "_tensors_left", "_wire", "stripped")

    def __init__(self, wire: ProtobufReader, external: ExternalDataFolder) -> None:
        self._wire = wire
        self._external = external
        self._tensors_left = bounds.TENSORS
        self.stripped = False
        """Whether a tensor has no data; its size is still known."""

    def count_tensor(self) -> None:
        """Count a tensor or a described value against the bounds."""
        self._tensors_left -= 1
        if self._tensors_left < 0:
            raise self._wire.limit_error(f"more than {bounds.TENSORS:,} tensors")

    def read(self, start: int, end: int) -> tuple[str, Constant]:
        """Return a tensor and its name."""
        self.count_tensor()
        parts = self._parts(start, end)
        dtype = dtypes.ONNX.get(parts.dtype, dtypes.UNKNOWN)
        elements = self._elements(parts, start)
        size = dtypes.size(elements, dtype)
        values: tuple[Number, ...] | None = None
        needed = elements <= bounds.VALUES and dtype in _CODES
        if parts.location == _EXTERNAL or (parts.external and parts.raw is None):
            place = self._external.find(parts.external, size, parts.name)
            values = self._external_values(place, elements, dtype) if place and needed else None
        elif parts.raw is not None:
            values = self._raw(parts.raw, elements, dtype, needed=needed)
        elif parts.typed is not None:
            values = self._typed(parts.typed, elements, dtype, needed=needed)
        elif elements and parts.texts != elements:
            self.stripped = True
        elif not elements:
            values = ()
        return parts.name, Constant(dtype, tuple(parts.dims), elements, size, values)

    def read_sparse(self, start: int, end: int) -> tuple[str, Constant]:
        """Return a sparse tensor and its name: only its values and their indices are stored."""
        stored: list[Constant] = []
        name, dims = "", list[int]()
        for tag, first, last in self._wire.fields(start, end):
            if tag in (len_tag(1), len_tag(2)):
                tensor_name, tensor = self.read(first, last)
                stored.append(tensor)
                name = tensor_name if tag == len_tag(1) else name
            elif tag in (len_tag(3), varint_tag(3)):
                self._dims(dims, tag, first, last)
        if not stored:
            raise self._wire.source.damaged_error(start)
        self._elements(_Parts(dims=dims, name=name), start)
        size = sum(tensor.size for tensor in stored)
        return name, Constant(stored[0].dtype, tuple(dims), stored[0].count, size)

    def _parts(self, start: int, end: int) -> _Parts:
        parts, wire = _Parts(), self._wire
        for tag, first, last in wire.fields(start, end):
            wire_type = tag & 7
            match tag >> 3:
                case 1:
                    self._dims(parts.dims, tag, first, last)
                case 2 if wire_type == VARINT:
                    parts.dtype = first
                case 8 if wire_type == LEN:
                    parts.name = wire.text(first, last)
                case 9 if wire_type == LEN:
                    parts.raw = (first, last)
                case 6:
                    parts.texts += 1
                case 13 if wire_type == LEN:
                    self._entry(parts.external, first, last)
                case 14 if wire_type == VARINT:
                    parts.location = first
                case 4 | 5 | 7 | 10 | 11 as field_number if wire_type == LEN:
                    parts.typed = (field_number, first, last)
                case 4 | 5 | 7 | 10 | 11:
                    parts.typed = parts.typed or (0, 0, 0)  # not packed, which no exporter writes
        return parts

    def _dims(self, dims: list[int], tag: int, first: int, last: int) -> None:
        if tag & 7 == VARINT:
            dims.append(signed(first))
        elif tag & 7 == LEN:
            dims.extend(self._wire.numbers(first, last, bounds.RANK + 1))
        if len(dims) > bounds.RANK:
            raise self._wire.limit_error(f"a tensor of more than {bounds.RANK} dimensions")

    def _entry(self, entries: dict[str, str], start: int, end: int) -> None:
        key = value = ""
        for tag, first, last in self._wire.fields(start, end):
            if tag == len_tag(1):
                key = self._wire.text(first, last)
            elif tag == len_tag(2):
                value = self._wire.text(first, last)
        if len(entries) < 16:
            entries[key] = value

    def _elements(self, parts: _Parts, place: int) -> int:
        if any(dim < 0 for dim in parts.dims):
            raise self._wire.source.damaged_error(place)
        elements = prod(parts.dims)
        if elements > bounds.ELEMENTS or any(dim > bounds.ELEMENTS for dim in parts.dims):
            dims = "x".join(map(str, parts.dims))
            raise self._wire.limit_error(f"tensor {printable(parts.name)!r} of {dims} elements")
        return elements

    def _raw(
        self, span: tuple[int, int], elements: int, dtype: str, *, needed: bool
    ) -> tuple[Number, ...] | None:
        start, end = span
        if end == start and elements:
            self.stripped = True
            return None
        if dtype in dtypes.BITS and end - start != dtypes.size(elements, dtype):
            raise self._wire.source.damaged_error(start)
        return _unpack(self._wire.source.read(start, end), elements, dtype) if needed else None

    def _typed(
        self, span: tuple[int, int, int], elements: int, dtype: str, *, needed: bool
    ) -> tuple[Number, ...] | None:
        field_number, start, end = span
        if field_number in (_FLOAT_DATA, _DOUBLE_DATA):
            width = (4 if field_number == _FLOAT_DATA else 8) * (2 if dtype.startswith("complex") else 1)
            if end - start != width * elements:
                raise self._wire.source.damaged_error(start)
            return _unpack(self._wire.source.read(start, end), elements, dtype) if needed else None
        if field_number and end - start < min(elements, dtypes.size(elements, dtype)):
            raise self._wire.source.damaged_error(start)
        if not needed or dtype not in dtypes.INTEGERS | {"bool"}:
            return None
        values = self._wire.numbers(start, end, elements)
        return tuple(values) if len(values) == elements else None

    def _external_values(self, place: ExternalData, elements: int, dtype: str) -> tuple[Number, ...] | None:
        data = place.read(dtypes.size(elements, dtype))
        return _unpack(data, elements, dtype) if data is not None else None


def _unpack(data: bytes, elements: int, dtype: str) -> tuple[Number, ...] | None:
    try:
        return struct.unpack(f"<{elements}{_CODES[dtype]}", data)
    except (struct.error, KeyError):
        return None

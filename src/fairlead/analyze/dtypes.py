"""Element types: one name for each, as the catalog spells precisions, and its size."""

from typing import Final

from fairlead.workload import BITS

__all__ = ["BITS", "FLOATS", "INTEGERS", "NARROW", "ONNX", "TFLITE", "UNKNOWN", "precision", "size"]

UNKNOWN: Final = "unknown"
FLOATS: Final = frozenset(("fp64", "fp32", "fp16", "bf16", "fp8", "fp4"))
INTEGERS: Final = frozenset(name for name in BITS if name.startswith(("int", "uint")))
NARROW: Final = frozenset(("int8", "uint8", "int4", "uint4", "int2", "uint2", "fp8", "fp4"))
"""The types that store quantised values."""

ONNX: Final = {
    1: "fp32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "fp16",
    11: "fp64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bf16",
    17: "fp8",
    18: "fp8",
    19: "fp8",
    20: "fp8",
    21: "uint4",
    22: "int4",
    23: "fp4",
    24: "fp8",
    25: "uint2",
    26: "int2",
}
"""By the numbers of TensorProto.DataType."""

TFLITE: Final = (
    *("fp32", "fp16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8"),
    *("fp64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bf16", "int2"),
)
"""In the order of the schema's TensorType."""


def size(elements: int, dtype: str) -> int:
    """Return the bytes of a number of elements; elements below a byte are packed."""
    return (elements * BITS.get(dtype, 0) + 7) // 8


def precision(dtype: str) -> str:
    """Return the precision of an operator on such elements, as the catalog spells it."""
    return {"uint8": "int8", "uint4": "int4", "uint2": "int2"}.get(dtype, dtype)

"""The profile of a model: its operators, their work and bytes, and the runtimes that cannot run them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from fairlead.dataflow import Dataflow
from fairlead.units import Bytes

KINDS: Final = (
    "conv",
    "depthwise",
    "matmul",
    "attention",
    "recurrent",
    "embedding",
    "elementwise",
    "activation",
    "norm",
    "pool",
    "reduce",
    "resize",
    "move",
    "control",
    "other",
)
"""Every kind of operator; a device has an efficiency for each."""
COMPUTE: Final = ("conv", "depthwise", "matmul", "attention", "recurrent")
"""The kinds that have multiply-adds."""
BITS: Final = {
    "fp64": 64,
    "fp32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "fp4": 4,
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "int4": 4,
    "int2": 2,
    "uint64": 64,
    "uint32": 32,
    "uint16": 16,
    "uint8": 8,
    "uint4": 4,
    "uint2": 2,
    "bool": 8,
    "complex64": 64,
    "complex128": 128,
}
"""Bits of one element. A string or an opaque type has no size that the file knows."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model."""

    name: str
    dims: tuple[int | None, ...]
    """None where a size depends on the data."""
    dtype: str

    @property
    def size(self) -> Bytes:
        """Return its bytes; a size that depends on the data counts as one."""
        elements = prod(1 if dim is None else dim for dim in self.dims)
        return Bytes((elements * BITS.get(self.dtype, 0) + 7) // 8)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"name": self.name, "dims": list(self.dims), "dtype": self.dtype}


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator that runs, with the quantisation and constants around it folded in."""

    name: str
    op: str
    """As the file calls it: `Conv`, `com.microsoft.FusedMatMul`, `CONV_2D`."""
    kind: str
    macs: int
    """Multiply-adds of convolutions and matrix products; biases and pointwise work are not counted."""
    params: int
    """Weights that no earlier operator reads."""
    weight_bytes: Bytes
    """The same in bytes, with statistics, tables and scales, as they are stored."""
    read_bytes: Bytes
    """Activations and weights that it reads, each once."""
    written_bytes: Bytes
    precision: str
    """The precision it computes in; weights may be narrower."""
    group: int
    """Operators of one number likely run as one kernel."""
    exact: bool = True
    """False: a lower bound, because a shape or the operator is not known; a note says why."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "name": self.name,
            "op": self.op,
            "kind": self.kind,
            "macs": self.macs,
            "params": self.params,
            "weight_bytes": self.weight_bytes,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "precision": self.precision,
            "group": self.group,
            "exact": self.exact,
        }


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The file of a model, and how it is to run."""

    path: str
    shapes: tuple[str, ...] = ()
    precision: str = ""
    training: str = ""
    """How it is trained, in the words of the annotation; empty: it runs."""

    @classmethod
    def relative_to(
        cls,
        naming_file: str,
        path: str,
        shapes: tuple[str, ...] = (),
        precision: str = "",
        training: str = "",
    ) -> "ModelFile":
        """Return a file whose path is relative to the file that names it."""
        keeps = os.path.isabs(path) or naming_file == "-"
        place = path if keeps else os.path.join(os.path.dirname(naming_file), path)
        return cls(place, shapes, precision, training)


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything that is known about a model without running it."""

    name: str
    format: str
    """`onnx` or `tflite`."""
    digest: str
    """Identifies the work: structure, shapes and types, but no weights."""
    precision: str
    """The precision of most multiply-adds."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    macs: int
    params: int
    weight_bytes: Bytes
    activations: int
    """Elements written by convolutions and matrix products, as timm counts them."""
    peak_bytes: Bytes
    """The most memory that inputs, outputs and values between operators take at one time."""
    unsupported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By runtime, why it does not run this file as it is; each reason begins with its cause."""
    notes: tuple[str, ...] = ()
    scope: str = ""
    """What one run is, where that is less than it seems: of a language model's decoder. Else empty."""
    flow: Dataflow = field(default_factory=Dataflow, repr=False, compare=False)
    """How its operators hang together; empty where only their sums are known."""

    @property
    def batch(self) -> int | None:
        """The first dimension of every input, where they agree."""
        first = {tensor.dims[0] for tensor in self.inputs if tensor.dims}
        return first.pop() if len(first) == 1 else None

    @property
    def groups(self) -> int:
        """The likely number of kernels."""
        return len({operator.group for operator in self.operators})

    @property
    def exact(self) -> bool:
        """Whether every figure is exact; otherwise they are lower bounds."""
        return all(operator.exact for operator in self.operators)

    def to_json(self) -> dict[str, Any]:
        """Return the document of the contract."""
        return {
            "model": self.name,
            "format": self.format,
            "digest": self.digest,
            "precision": self.precision,
            "batch": self.batch,
            "macs": self.macs,
            "params": self.params,
            "weight_bytes": self.weight_bytes,
            "activations": self.activations,
            "peak_bytes": self.peak_bytes,
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "outputs": [tensor.to_json() for tensor in self.outputs],
            "operators": [operator.to_json() for operator in self.operators],
            "groups": self.groups,
            "unsupported": {runtime: list(reasons) for runtime, reasons in self.unsupported.items()},
            "notes": list(self.notes),
            "scope": self.scope,
        }

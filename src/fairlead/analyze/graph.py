"""A model as its file describes it: nodes connected by names, before any inference."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias

from fairlead.analyze.dtypes import UNKNOWN, size

Number: TypeAlias = int | float
Dims: TypeAlias = tuple[int | None, ...]
"""Sizes; None for one that depends on the data."""


FUSED_ACTIVATION: Final = "_activation"
"""The attribute with the activation that an operator applies itself. It is no part of a digest: digests of
stored measurements are older than it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """The type, shape and elements of a value, as far as they are known."""

    dtype: str = UNKNOWN
    dims: Dims | None = None
    """None: not even the number of dimensions is known."""
    values: tuple[Number, ...] | None = None
    """All elements in order, of small values that are known before the run."""

    @property
    def known(self) -> bool:
        """Whether every size is known."""
        return self.dims is not None and None not in self.dims

    @property
    def elements(self) -> int:
        """The least number of elements."""
        if self.dims is None:
            return 0
        try:
            return prod(self.dims)  # type: ignore[arg-type] # the next line handles None
        except TypeError:
            return prod(dim for dim in self.dims if dim is not None)

    @property
    def size(self) -> int:
        """The bytes of these elements."""
        return size(self.elements, self.dtype)


@dataclass(frozen=True, slots=True)
class Constant:
    """An initializer or constant tensor of the file; its data is read only where it is small."""

    dtype: str
    dims: tuple[int, ...]
    count: int
    """Stored elements: fewer than the product of the dims where the tensor is sparse."""
    size: int
    """Bytes of the stored elements."""
    values: tuple[Number, ...] | None = None

    @property
    def fact(self) -> Fact:
        """The fact of its value."""
        return Fact(self.dtype, self.dims, self.values)


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of a function's node that the caller fills in."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A described value: dims may be names, or open."""

    dtype: str
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operator of the file."""

    op: str
    """With its domain, unless that is ONNX's own."""
    name: str
    inputs: tuple[str, ...]
    """An empty string stands for an omitted input."""
    outputs: tuple[str, ...]
    attributes: "Mapping[str, Attribute]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph, or the body of a branch, a loop or a function."""

    name: str
    nodes: tuple[GraphNode, ...]
    inputs: Mapping[str, Value]
    outputs: tuple[str, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    """The file's declarations of inner values, where it has any."""


Attribute: TypeAlias = Number | str | tuple[Number, ...] | Constant | Graph | Reference


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the file, which is inlined where it is called."""

    body: Graph
    defaults: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Model:
    """A whole file."""

    format: str
    graph: Graph
    opset: int = 0
    """The version of ONNX's own operators."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    """By their qualified names."""
    bodies: tuple[Graph, ...] = ()
    """Graphs that nodes call by number (TFLite)."""
    notes: tuple[str, ...] = ()

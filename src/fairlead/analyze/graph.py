"""A model as its file tells it: nodes with names between them, before anything is worked out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from fairlead.analyze.dtypes import UNKNOWN, size

Number: TypeAlias = int | float
Dims: TypeAlias = tuple[int | None, ...]
"""Sizes; None for one that depends on the data."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a value."""

    dtype: str = UNKNOWN
    dims: Dims | None = None
    """None: not even the number of dimensions is known."""
    values: tuple[Number, ...] | None = None
    """All elements in order, of small values that are known beforehand."""

    @property
    def known(self) -> bool:
        """Whether every size is known."""
        return self.dims is not None and None not in self.dims

    @property
    def elements(self) -> int:
        """How many elements there are, at least."""
        if self.dims is None:
            return 0
        try:
            return prod(self.dims)  # type: ignore[arg-type] # None is what the next line is for
        except TypeError:
            return prod(dim for dim in self.dims if dim is not None)

    @property
    def size(self) -> int:
        """How many bytes that is."""
        return size(self.elements, self.dtype)


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor of the file; its data is read only where it is small."""

    dtype: str
    dims: tuple[int, ...]
    count: int
    """Elements that are stored: fewer than the dims say where it is sparse."""
    size: int
    """Bytes that they take."""
    values: tuple[Number, ...] | None = None

    @property
    def fact(self) -> Fact:
        """What it says of its value."""
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
    """Empty texts stand for inputs that were left out."""
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
    """What the file says of values inside, where it says anything."""


Attribute: TypeAlias = Number | str | tuple[Number, ...] | Constant | Graph | Reference


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the file, to be written out where it is called."""

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

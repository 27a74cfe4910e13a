"""A model as it is made: operators in order, with weights that are described rather than held."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

Dims: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NetValue:
    """What operators hand to one another."""

    name: str
    dims: tuple[int | str, ...]
    """A text is the name of a size that is left open."""
    dtype: str = "fp32"

    @property
    def shape(self) -> Dims:
        """The sizes, where none is left open."""
        return tuple(int(dim) for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant tensor: either its values, or the noise that it is filled with."""

    name: str
    dims: Dims
    dtype: str = "fp32"
    values: tuple[float, ...] | None = None
    """Every element; one alone fills the tensor."""
    deviation: float = 0.0
    """Of the noise around zero, where there are no values."""

    @property
    def count(self) -> int:
        """How many elements there are."""
        return prod(self.dims)


Attribute: TypeAlias = "int | float | str | tuple[int, ...] | tuple[float, ...] | Weight | NetGraph"


@dataclass(frozen=True, slots=True)
class NetNode:
    """One operator, as ONNX names it."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class NetGraph:
    """A whole model, or the body of a branch or a loop."""

    name: str
    inputs: tuple[NetValue, ...]
    outputs: tuple[NetValue, ...]
    nodes: tuple[NetNode, ...]
    weights: tuple[Weight, ...] = ()
    values: tuple[NetValue, ...] = ()
    """What is said of values inside; nothing need be."""

"""A model to write: operators in order, with weights that are described rather than stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

Dims: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NetValue:
    """A value between operators."""

    name: str
    dims: tuple[int | str, ...]
    """A string is the name of an open dimension."""
    dtype: str = "fp32"

    @property
    def shape(self) -> Dims:
        """The sizes, where none is open."""
        return tuple(int(dim) for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant tensor: either its values, or the deviation of the noise that fills it."""

    name: str
    dims: Dims
    dtype: str = "fp32"
    values: tuple[float, ...] | None = None
    """Every element; a single one fills the tensor."""
    deviation: float = 0.0
    """Standard deviation of the noise around zero, where there are no values."""

    @property
    def count(self) -> int:
        """The number of elements."""
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
    """Declarations of inner values; they are optional."""

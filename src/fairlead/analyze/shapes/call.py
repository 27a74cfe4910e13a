"""One operator and the facts of its inputs: the argument of a shape rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from fairlead.analyze.graph import Attribute, Constant, Dims, Fact, Number


class UnknownShapeError(Exception):
    """A rule lacks an input or a size; the outputs stay unknown."""


@dataclass(slots=True)
class OperatorCall:
    """One operator, its inputs and its attributes."""

    op: str
    args: Sequence[Fact | None]
    """None: an omitted input."""
    attributes: Mapping[str, Attribute]
    outputs: int
    """The number of named outputs."""
    opset: int = 0

    def has(self, place: int) -> bool:
        """Say whether an input is present."""
        return place < len(self.args) and self.args[place] is not None

    def arg(self, place: int) -> Fact:
        """Return an input, which must be present."""
        fact = self.args[place] if place < len(self.args) else None
        if fact is None:
            raise UnknownShapeError
        return fact

    def dims(self, place: int) -> Dims:
        """Return an input's sizes; its rank must be known."""
        dims = self.arg(place).dims
        if dims is None:
            raise UnknownShapeError
        return dims

    def values(self, place: int) -> tuple[int, ...]:
        """Return an input's elements as integers; they must be known."""
        values = self.arg(place).values
        if values is None:
            raise UnknownShapeError
        return tuple(int(value) for value in values)

    def numbers(self, place: int) -> tuple[Number, ...] | None:
        """Return an input's elements, where it is present and they are known."""
        fact = self.args[place] if place < len(self.args) else None
        return fact.values if fact is not None else None

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def ints(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of integers, or an empty one."""
        value = self.attributes.get(name, ())
        return tuple(int(item) for item in value) if isinstance(value, tuple) else ()

    def floats(self, name: str) -> tuple[float, ...]:
        """Return an attribute that is a list of numbers, or an empty one."""
        value = self.attributes.get(name, ())
        return tuple(float(item) for item in value) if isinstance(value, tuple) else ()

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is a string."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def tensor(self, name: str) -> Constant | None:
        """Return an attribute that is a tensor."""
        value = self.attributes.get(name)
        return value if isinstance(value, Constant) else None


Rule: TypeAlias = Callable[[OperatorCall], list[Fact]]
"""Returns the facts of an operator's outputs; raises where they cannot be known."""


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise UnknownShapeError
    return axis % rank if rank else 0


def product(dims: Dims) -> int | None:
    """Return the number of elements, where it is known."""
    return None if None in dims else prod(dim for dim in dims if dim is not None)


def broadcast(*shapes: Dims) -> Dims:
    """Return the sizes of several shapes broadcast together."""
    rank = max(map(len, shapes), default=0)
    result: list[int | None] = []
    for place in range(-rank, 0):
        sizes = {shape[place] for shape in shapes if len(shape) >= -place}
        large = {size for size in sizes if size is not None and size != 1}
        if len(large) > 1:
            raise UnknownShapeError
        result.append(large.pop() if large else None if None in sizes else 1)
    return tuple(result)

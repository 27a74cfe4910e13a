"""What a node offers to containers, what a container is given, and who holds what.

Three forms of one accelerator: the whole of it, some of its memory, or a claim (DRA) on either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.compat import StrEnum
from fairlead.keys import DOMAIN

DRIVER: Final = DOMAIN
"""The name of the DRA driver, of the device plugin's resources and of the CDI vendor."""


class Form(StrEnum):
    """How an accelerator is held."""

    WHOLE = "whole"
    MEMORY = "memory"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Block:
    """Units of one accelerator that are alike: a kubelet counts them, one id each.

    A share of memory is thousands of units, so ids are made when they are needed and never kept.
    """

    accelerator: str
    prefix: str
    """The accelerator's id, or for many units the short name that stands for it."""
    first: int = 0
    count: int = 1
    healthy: bool = True
    many: bool = False
    """Whether the units are numbered; a whole accelerator is one unit, called by its own id."""

    def ids(self) -> Iterator[str]:
        """Yield the ids, in order."""
        if not self.many:
            yield self.prefix
            return
        for number in range(self.first, self.first + self.count):
            yield f"{self.prefix}-{number}"


@dataclass(frozen=True, slots=True)
class Offer:
    """An extended resource of a node, as its device plugin lists it."""

    resource: str
    blocks: tuple[Block, ...] = ()

    @property
    def units(self) -> int:
        """How many units there are, healthy or not."""
        return sum(block.count for block in self.blocks)


@dataclass(frozen=True, slots=True, order=True)
class DeviceNode:
    """A device node for a container."""

    path: str
    """Where the container finds it."""
    host: str
    """Where the node has it."""
    major: int | None = None
    """With `minor`: given though the node does not exist yet, as after a USB device numbers itself anew."""
    minor: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container receives for the accelerators it was given."""

    env: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[DeviceNode, ...] = ()
    cdi: tuple[str, ...] = ()
    """Fully qualified CDI devices that bring the rest."""


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """The container, or the claim, that holds something."""

    namespace: str
    name: str
    """The pod's name, or the claim's."""
    container: str = ""
    """Empty for a claim."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of an accelerator that somebody holds."""

    accelerator: str
    form: Form
    holder: Holder
    mebibytes: int = 0
    """Of its memory; 0 for a whole one, or for a claim on all of it."""
    units: tuple[tuple[int, int], ...] = ()
    """The numbered units, as ranges of first and last, both included."""


def ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as ranges of first and last, both included."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)

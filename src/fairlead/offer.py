"""What a node offers to containers, what a container receives, and what it holds.

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
    """Equal units of one accelerator: a kubelet counts them, one id each.

    A share of memory is thousands of units, so ids are generated when they are needed and never stored.
    """

    accelerator: str
    prefix: str
    """The accelerator's id, or its short name where the units are numbered."""
    first: int = 0
    count: int = 1
    healthy: bool = True
    many: bool = False
    """Whether the units are numbered; a whole accelerator is one unit, named by its own id."""

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
        """The number of units, healthy or not."""
        return sum(block.count for block in self.blocks)


@dataclass(frozen=True, slots=True, order=True)
class DeviceNode:
    """A device node for a container."""

    path: str
    """Its path in the container."""
    host: str
    """Its path on the node."""
    major: int | None = None
    """With `minor`: granted before the node exists, for a USB device that reconnects under a new number."""
    minor: int | None = None


@dataclass(frozen=True, slots=True)
class FolderMount:
    """A folder of the node for a container, read-only."""

    path: str
    """Its path in the container."""
    host: str
    """Its path on the node."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container receives for its accelerators."""

    env: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[DeviceNode, ...] = ()
    cdi: tuple[str, ...] = ()
    """Fully qualified CDI devices, which add the rest."""
    mounts: tuple[FolderMount, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """The container or the claim of a holding."""

    namespace: str
    name: str
    """The pod's name, or the claim's."""
    container: str = ""
    """Empty for a claim."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of an accelerator that a container or a claim holds."""

    accelerator: str
    form: Form
    holder: Holder
    mebibytes: int = 0
    """The amount of its memory; 0 for a whole accelerator, or for a claim on all of it."""
    units: tuple[tuple[int, int], ...] = ()
    """The numbered units, as ranges of first and last, both included."""
    by_use: bool = field(default=False, compare=False)
    """A claim that was placed by measured use: its sum with others may exceed the accelerator's memory."""


def ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as ranges of first and last, both included."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return tuple(spans)

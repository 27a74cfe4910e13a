"""The parts in which an accelerator is allocated: how much it has, and what the ids of units mean."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from fairlead.inventory import Accelerator, Inventory
from fairlead.keys import GPU_MEM, GPU_MEM_GIB
from fairlead.offer import DRIVER, Form, Holder, Holding, ranges
from fairlead.publish.labels import model_name
from fairlead.publish.spans import Spans, count

_MOST: Final = 2**43 - 1
"""The most MiB that a Kubernetes quantity can express in bytes; no memory is as large."""
_SHORT: Final = 5
"""Characters of a short name: few, because a kubelet accepts at most 4 MiB of ids."""
_DIGITS: Final = 9


class MemoryUnit(IntEnum):
    """How a share of memory is counted; the value is in MiB."""

    MIB = 1
    GIB = 1024

    @property
    def resource(self) -> str:
        """The extended resource that is counted in this unit."""
        return GPU_MEM if self is MemoryUnit.MIB else GPU_MEM_GIB


MEMORY_RESOURCES: Final[Mapping[str, MemoryUnit]] = {unit.resource: unit for unit in MemoryUnit}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not allocated."""

    reason: str
    """For people: what was requested, what is free, and which holders have the rest."""


@dataclass(frozen=True, slots=True)
class AcceleratorPart:
    """What some unit ids mean: an accelerator, whole or some numbered units of it."""

    accelerator: str
    units: Spans = ()
    """Empty for a whole one."""

    def holding(self, holder: Holder, unit: MemoryUnit = MemoryUnit.MIB) -> Holding:
        """Return this part as a holding of `holder`."""
        if not self.units:
            return Holding(self.accelerator, Form.WHOLE, holder)
        return Holding(self.accelerator, Form.MEMORY, holder, count(self.units) * unit, self.units)


@dataclass(frozen=True, slots=True)
class ParsedUnits:
    """Unit ids, grouped by accelerator."""

    parts: tuple[AcceleratorPart, ...]
    strays: tuple[str, ...]
    """Ids that no accelerator of this node has; theirs may have been removed."""


def resource_name(acc: Accelerator) -> str:
    """Return the extended resource of which a whole accelerator is one unit."""
    return f"{DRIVER}/{model_name(acc)}"


def mebibytes(acc: Accelerator) -> int:
    """Return the memory of an accelerator in MiB, 0 where it has none or it is unknown."""
    return min((acc.memory or 0) >> 20, _MOST)


def divisible(acc: Accelerator) -> bool:
    """Say whether its memory may be allocated in shares."""
    return acc.shareable and acc.kind != "cpu" and mebibytes(acc) > 0


def exclusive(acc: Accelerator, holding: Holding) -> bool:
    """Say whether a holding leaves nothing of the accelerator to others."""
    if holding.form is Form.MEMORY:
        return False
    return holding.form is Form.WHOLE or not holding.mebibytes or not divisible(acc)


def free_mebibytes(acc: Accelerator, holdings: Iterable[Holding]) -> int:
    """Return the memory of an accelerator that these holdings leave free."""
    left = mebibytes(acc)
    for holding in holdings:
        left -= left if exclusive(acc, holding) else holding.mebibytes
    return max(left, 0)


def unit_of(holding: Holding) -> int:
    """Return the size of a holding's units in MiB; 0 where it has no units."""
    return holding.mebibytes // max(count(holding.units), 1) if holding.units else 0


def short_names(inventory: Inventory) -> dict[str, str]:
    """Return the short name of every accelerator: stable, and unique on a node.

    In one case of a million two names begin with the same characters; then both are longer than usual.
    """
    digests = {acc.id: _digest(acc.id) for acc in inventory.accelerators if acc.kind != "cpu"}
    names = {}
    for acc, digest in digests.items():
        others = [other for name, other in digests.items() if name != acc]
        length = _SHORT
        while any(other.startswith(digest[:length]) for other in others):
            length += 1
        names[acc] = digest[:length]
    return names


def parse_units(
    ids: Sequence[str], inventory: Inventory, unit: MemoryUnit = MemoryUnit.MIB
) -> tuple[AcceleratorPart, ...] | Refusal:
    """Return the parts that the unit ids of one container name, or why they are not valid together."""
    grouped = group_units(ids, inventory)
    if grouped.strays:
        return Refusal(f"unit {grouped.strays[0]!r} belongs to no accelerator of this node")
    if not grouped.parts:
        return Refusal("no units were named")
    shared = [part for part in grouped.parts if part.units]
    if shared and len(grouped.parts) > 1:
        where = " and ".join(f"{count(part.units) or 'all'} of {part.accelerator}" for part in grouped.parts)
        return Refusal(
            f"the {len(ids)} units are {where}: a share cannot span two accelerators, "
            "and no single one has enough units free"
        )
    for part in shared:
        acc = next(acc for acc in inventory.accelerators if acc.id == part.accelerator)
        if (part.units[-1][1] + 1) * unit > mebibytes(acc):
            return Refusal(f"{acc.id} has no unit {part.units[-1][1]}: it has {mebibytes(acc)} MiB of memory")
    return grouped.parts


def group_units(ids: Iterable[str], inventory: Inventory) -> ParsedUnits:
    """Group unit ids by the accelerator that they name; there may be a hundred thousand of them."""
    names = {acc.id for acc in inventory.accelerators if acc.kind != "cpu"}
    whole: dict[str, AcceleratorPart] = {}
    numbered: dict[str, list[str]] = {}
    for unit in ids:
        if unit in names:
            whole[unit] = AcceleratorPart(unit)
        else:
            prefix, _, number = unit.rpartition("-")
            numbered.setdefault(prefix, []).append(number)
    parts: list[AcceleratorPart] = []
    strays: list[str] = []
    for prefix, numbers in numbered.items():
        acc = _accelerator_named(prefix, names)
        malformed = [
            text for text in numbers if not (text.isdecimal() and text.isascii() and len(text) <= _DIGITS)
        ]
        if acc is None or malformed:
            strays += [
                f"{prefix}-{text}" if prefix else text for text in (numbers if acc is None else malformed)
            ]
        if acc is not None and len(malformed) < len(numbers):
            parts.append(AcceleratorPart(acc, ranges(map(int, set(numbers) - set(malformed)))))
    parts += whole.values()
    return ParsedUnits(tuple(sorted(parts, key=lambda part: part.accelerator)), tuple(strays))


def _accelerator_named(short: str, names: Iterable[str]) -> str | None:
    """Return the accelerator of a short name, also of one that is longer than necessary now."""
    matches = [name for name in names if len(short) >= _SHORT and _digest(name).startswith(short)]
    return matches[0] if len(matches) == 1 else None


def _digest(name: str) -> str:
    return base64.b32encode(hashlib.sha256(name.encode()).digest()).decode().lower().rstrip("=")

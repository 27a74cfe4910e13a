"""What a node's device plugins list: whole accelerators by model, and units of memory that may be shared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.inventory import Accelerator, Inventory
from fairlead.offer import Block, Form, Holding, Offer
from fairlead.publish.foreign import FOREIGN
from fairlead.publish.parts import (
    MemoryUnit,
    divisible,
    free_mebibytes,
    mebibytes,
    parse_units,
    resource_name,
    short_names,
    unit_of,
)
from fairlead.publish.prefer import prefer
from fairlead.publish.spans import Spans, count, highest, minus, union

__all__ = [
    "MemoryUnit",
    "OfferPlan",
    "forms_of",
    "offers",
    "parse_units",
    "prefer",
    "resource_name",
    "trim",
]
_ALONE: Final = (Form.MEMORY, Form.WHOLE, Form.CLAIM)
"""Where an accelerator can be offered in one form only: the first of these that is configured."""


@dataclass(frozen=True, slots=True)
class OfferPlan:
    """In which forms accelerators are offered."""

    unit: MemoryUnit = MemoryUnit.MIB
    forms: frozenset[Form] = frozenset(Form)
    combine_forms: bool = True
    """Whether one accelerator may be offered in several forms: only where its holdings are known."""


def forms_of(acc: Accelerator, plan: OfferPlan) -> frozenset[Form]:
    """Return the forms in which one accelerator is offered."""
    if acc.kind == "cpu" or acc.mig_instances:
        return frozenset()
    possible = plan.forms if divisible(acc) else plan.forms - {Form.MEMORY}
    return possible if plan.combine_forms else frozenset([form for form in _ALONE if form in possible][:1])


def offers(inventory: Inventory, holdings: Iterable[Holding], plan: OfferPlan) -> tuple[Offer, ...]:
    """Return the offers, by resource.

    An accelerator that is not allocatable is listed as unhealthy while it exists, so that the kubelet keeps
    its allocations; once it is gone, so are its units. What is held in one form is unhealthy in the others,
    and what a container holds stays healthy, or the container could not restart in place.
    """
    held: dict[str, list[Holding]] = {}
    for holding in holdings:
        held.setdefault(holding.accelerator, []).append(holding)
    short = short_names(inventory)
    blocks: dict[str, list[Block]] = {}
    for acc in inventory.accelerators:
        forms, mine = forms_of(acc, plan), held.get(acc.id, [])
        if Form.WHOLE in forms:
            blocks.setdefault(resource_name(acc), []).append(_whole(acc, mine))
        if Form.MEMORY in forms:
            blocks.setdefault(plan.unit.resource, []).extend(_shares(acc, short[acc.id], mine, plan.unit))
    return tuple(Offer(name, tuple(listed)) for name, listed in sorted(blocks.items()) if listed)


def trim(offer: Offer, limit: int) -> tuple[Offer, list[str]]:
    """Return an offer of at most `limit` units, and the accelerators that it leaves out, last first.

    A kubelet accepts a list of limited size. Half an accelerator is never offered: the rest of it would
    appear not to exist.
    """
    left_out: list[str] = []
    blocks = offer.blocks
    while blocks and sum(block.count for block in blocks) > limit:
        last = blocks[-1].accelerator
        left_out.append(last)
        blocks = tuple(block for block in blocks if block.accelerator != last)
    return Offer(offer.resource, blocks), left_out


def _whole(acc: Accelerator, mine: Sequence[Holding]) -> Block:
    free = all(holding.form is Form.WHOLE for holding in mine if holding.holder != FOREIGN)
    return Block(acc.id, acc.id, healthy=acc.state.allocatable and free)


def _shares(acc: Accelerator, short: str, mine: Sequence[Holding], unit: MemoryUnit) -> list[Block]:
    """Return the units of one accelerator's memory; of the free units, the highest are withdrawn."""
    total = mebibytes(acc) // unit
    if not total:
        return []
    everything = ((0, total - 1),)
    if not acc.state.allocatable:
        return _blocks(acc, short, (), everything)
    held = union(span for holding in mine if unit_of(holding) == unit for span in holding.units)
    free = minus(everything, held)
    withdrawn = highest(free, count(free) - free_mebibytes(acc, mine) // unit)
    return _blocks(acc, short, minus(everything, withdrawn), withdrawn)


def _blocks(acc: Accelerator, short: str, healthy_units: Spans, unhealthy_units: Spans) -> list[Block]:
    spans = sorted(
        [(first, last, True) for first, last in healthy_units] + [(*span, False) for span in unhealthy_units]
    )
    return [
        Block(acc.id, short, first, last - first + 1, healthy, many=True) for first, last, healthy in spans
    ]

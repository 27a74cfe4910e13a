"""Which units are offered, and which are withdrawn while others are held."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.inventory import Inventory, State
from fairlead.offer import Block, Form, Holder, Holding, Offer, ranges
from fairlead.publish.offers import MemoryUnit, OfferPlan, forms_of, offers, trim
from fairlead.publish.parts import free_mebibytes, mebibytes, parse_units, short_names, unit_of
from tests import strategies
from tests.accelerators import accelerator, node

GPU = accelerator("pci:0000:01:00.0", mebibytes=10, model="t4")
STICK = accelerator("usb:1-1", model="coral-usb")
CPU = accelerator("cpu:0", kind="cpu", mebibytes=64)
NAME = short_names(node(GPU))[GPU.id]
POD = Holder("default", "web", "main")
MEM, WHOLE = "fairlead.dev/gpu-mem", "fairlead.dev/t4"


def share(*numbers: int, unit: int = 1) -> Holding:
    return Holding(GPU.id, Form.MEMORY, POD, len(numbers) * unit, ranges(numbers))


def claim(amount: int) -> Holding:
    return Holding(GPU.id, Form.CLAIM, POD, amount)


def listed(
    *holdings: Holding, inventory: Inventory | None = None, plan: OfferPlan | None = None
) -> dict[str, str]:
    """Return each resource's units: `+` for a healthy one, `-` for one that is not."""
    found = offers(inventory or node(GPU, STICK, CPU), holdings, plan or OfferPlan())
    return {
        offer.resource.removeprefix("fairlead.dev/"): "".join(
            ("+" if block.healthy else "-") * block.count for block in offer.blocks
        )
        for offer in found
    }


@pytest.mark.parametrize(
    ("holdings", "whole", "memory"),
    [
        ((), "+", "++++++++++"),
        ((Holding(GPU.id, Form.WHOLE, POD),), "+", "----------"),
        ((share(0, 1),), "-", "++++++++++"),
        ((claim(3),), "-", "+++++++---"),
        ((claim(3), claim(4)), "-", "+++-------"),
        ((claim(0),), "-", "----------"),
        ((claim(10),), "-", "----------"),
        ((claim(99),), "-", "----------"),
        # What a container holds stays healthy, wherever it lies: or it could not restart in place.
        ((share(8, 9), claim(3)), "-", "+++++---++"),
        ((share(0, 5, 9), claim(4)), "-", "++++-+---+"),
        ((share(0, 5, 9), claim(7)), "-", "+----+---+"),
        # Units of another size count by their memory.
        ((share(0, unit=1024),), "-", "----------"),
        ((Holding("gone-1", Form.WHOLE, POD),), "+", "++++++++++"),
    ],
)
def test_one_form_withdraws_the_others(holdings: tuple[Holding, ...], whole: str, memory: str) -> None:
    assert listed(*holdings) == {"t4": whole, "gpu-mem": memory, "coral-usb": "+"}


def test_an_unhealthy_accelerator_is_listed_and_a_removed_one_is_not() -> None:
    sick = replace(GPU, state=State.DRIVER_BOUND)
    assert listed(share(0, 1), inventory=node(sick)) == {"t4": "-", "gpu-mem": "----------"}
    assert listed(share(0, 1), inventory=node(STICK)) == {"coral-usb": "+"}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (OfferPlan(combine_forms=False), {"gpu-mem": "++++++++++", "coral-usb": "+"}),
        (OfferPlan(combine_forms=False, forms=frozenset({Form.WHOLE})), {"t4": "+", "coral-usb": "+"}),
        (OfferPlan(forms=frozenset({Form.MEMORY, Form.CLAIM})), {"gpu-mem": "++++++++++"}),
        (OfferPlan(forms=frozenset({Form.CLAIM})), {}),
        (OfferPlan(unit=MemoryUnit.GIB), {"t4": "+", "coral-usb": "+"}),  # it has no whole GiB
    ],
)
def test_the_plan_decides_the_forms(plan: OfferPlan, expected: dict[str, str]) -> None:
    assert listed(plan=plan) == expected


def test_claims_alone_where_forms_may_not_be_combined() -> None:
    assert forms_of(GPU, OfferPlan(combine_forms=False, forms=frozenset({Form.CLAIM}))) == {Form.CLAIM}
    assert forms_of(GPU, OfferPlan(combine_forms=False)) == {Form.MEMORY}
    assert forms_of(CPU, OfferPlan()) == frozenset()


def test_gibibytes() -> None:
    big = accelerator("pci:0000:02:00.0", mebibytes=5 * 1024 + 512)
    half = Holding(big.id, Form.CLAIM, POD, 512)
    plan = OfferPlan(unit=MemoryUnit.GIB)
    assert listed(inventory=node(big), plan=plan)["gpu-mem-gib"] == "+++++"
    assert listed(half, inventory=node(big), plan=plan)["gpu-mem-gib"] == "+++++", "it fits into the rest"
    assert listed(half, half, inventory=node(big), plan=plan)["gpu-mem-gib"] == "++++-"


def test_an_offer_that_is_too_long_leaves_out_whole_accelerators() -> None:
    blocks = (
        Block("a", "a", 0, 5, True, True),
        Block("b", "b", 0, 2, True, True),
        Block("b", "b", 2, 3, False, True),
    )
    offer = Offer(MEM, (*blocks, Block("c", "c", 0, 5, True, True)))
    assert trim(offer, 15) == (offer, [])
    assert trim(offer, 14) == (Offer(MEM, blocks), ["c"])
    assert trim(offer, 9) == (Offer(MEM, blocks[:1]), ["c", "b"])
    assert trim(offer, 4) == (Offer(MEM), ["c", "b", "a"])


def _ids(blocks: Iterable[Block], limit: int = 60) -> list[str]:
    return [unit for block in blocks for unit, _ in zip(block.ids(), range(limit), strict=False)]


@given(strategies.held_nodes(), st.sampled_from(MemoryUnit), st.booleans())
def test_offers_for_any_holdings(
    found: tuple[Inventory, tuple[Holding, ...]], unit: MemoryUnit, combine_forms: bool
) -> None:
    inventory, holdings = found
    plan = OfferPlan(unit=unit, combine_forms=combine_forms)
    listed_by_form: dict[str, set[Form]] = {}
    for offer in offers(inventory, holdings, plan):
        assert offer.blocks
        names = _ids(offer.blocks)
        assert len(names) == len(set(names)), "a kubelet would take two for one"
        assert all(len(name) <= 63 for name in names)
        form = Form.MEMORY if offer.resource == unit.resource else Form.WHOLE
        for block in offer.blocks:
            listed_by_form.setdefault(block.accelerator, set()).add(form)
            parts = parse_units(_ids([block]), inventory, unit)
            assert isinstance(parts, tuple), parts
            assert [part.accelerator for part in parts] == [block.accelerator]
    assert combine_forms or all(len(forms) == 1 for forms in listed_by_form.values())
    for acc in inventory.accelerators:
        assert listed_by_form.get(acc.id, set()) <= forms_of(acc, plan)


@given(strategies.held_nodes(), st.sampled_from(MemoryUnit))
def test_units_listed_as_free_can_be_admitted(
    found: tuple[Inventory, tuple[Holding, ...]], unit: MemoryUnit
) -> None:
    inventory, holdings = found
    plan = OfferPlan(unit=unit, forms=frozenset({Form.MEMORY}))
    for acc in inventory.accelerators:
        mine = [holding for holding in holdings if holding.accelerator == acc.id]
        well = sum(
            block.count
            for offer in offers(inventory, holdings, plan)
            for block in offer.blocks
            if block.healthy and block.accelerator == acc.id
        )
        units = {
            number
            for holding in mine
            if unit_of(holding) == unit
            for first, last in holding.units
            for number in range(first, last + 1)
            if number < mebibytes(acc) // unit
        }
        assert well <= len(units) + free_mebibytes(acc, mine) // unit

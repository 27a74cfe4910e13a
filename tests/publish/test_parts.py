"""The names of units, and what they mean."""

import re

import pytest
from hypothesis import given

from fairlead.inventory import Inventory
from fairlead.offer import Form, Holder, Holding
from fairlead.publish.parts import (
    AcceleratorPart,
    MemoryUnit,
    Refusal,
    group_units,
    parse_units,
    resource_name,
    short_names,
)
from tests import strategies
from tests.accelerators import accelerator, node

BIG = accelerator("pci:0000:01:00.0", mebibytes=4096)
SMALL = accelerator("pci:0000:02:00.0", mebibytes=1024)
STICK = accelerator("usb:1-1")
NODE = node(BIG, SMALL, STICK)
BIG_NAME, SMALL_NAME = (short_names(NODE)[acc.id] for acc in (BIG, SMALL))


def alike() -> tuple[str, str]:
    """Return two accelerators whose names begin with the same five characters."""
    seen: dict[str, str] = {}
    for number in range(100_000):
        acc = accelerator(f"usb:{number}")
        name = short_names(node(acc))[acc.id]
        if name in seen:
            return seen[name], acc.bus
        seen[name] = acc.bus
    raise AssertionError("a digest that never collides is none")


@given(strategies.nodes())
def test_a_resource_has_a_valid_name(inventory: Inventory) -> None:
    for acc in inventory.accelerators:
        name = resource_name(acc)
        assert re.fullmatch(r"fairlead\.dev/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", name)


def test_short_names_do_not_depend_on_other_accelerators() -> None:
    assert short_names(NODE)[BIG.id] == short_names(node(BIG))[BIG.id]
    assert re.fullmatch("[a-z2-7]{5}", BIG_NAME)


def test_names_that_begin_alike_grow_until_they_differ() -> None:
    one, other = (accelerator(bus, mebibytes=64) for bus in alike())
    names = short_names(node(one, other))
    assert len(set(names.values())) == 2
    assert names[one.id][:5] == names[other.id][:5]
    # While both exist the old, short name is ambiguous; the long one keeps its meaning.
    assert isinstance(parse_units([f"{names[one.id][:5]}-1"], node(one, other)), Refusal)
    assert parse_units([f"{names[one.id]}-1"], node(one)) == (AcceleratorPart(one.id, ((1, 1),)),)


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ([BIG.id], (AcceleratorPart(BIG.id),)),
        ([STICK.id, BIG.id], (AcceleratorPart(BIG.id), AcceleratorPart(STICK.id))),
        (
            [f"{BIG_NAME}-7", f"{BIG_NAME}-5", f"{BIG_NAME}-6", f"{BIG_NAME}-0"],
            (AcceleratorPart(BIG.id, ((0, 0), (5, 7))),),
        ),
        ([f"{SMALL_NAME}-1023"], (AcceleratorPart(SMALL.id, ((1023, 1023),)),)),
    ],
)
def test_ids_mean_parts(ids: list[str], parts: tuple[AcceleratorPart, ...]) -> None:
    assert parse_units(ids, NODE) == parts


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([], "no units were named"),
        (["pci-0000-09-00-0"], "unit 'pci-0000-09-00-0' belongs to no accelerator of this node"),
        (["zzzzz-1"], "unit 'zzzzz-1' belongs to no accelerator"),
        (["7"], "unit '7' belongs to no accelerator"),
        ([f"{BIG_NAME}-"], "belongs to no accelerator"),
        ([f"{BIG_NAME}-x"], "belongs to no accelerator"),
        ([f"{BIG_NAME[:4]}-1"], "belongs to no accelerator"),
        ([f"{BIG_NAME}-{'9' * 5000}"], "belongs to no accelerator"),
        ([f"{BIG_NAME}-1", f"{SMALL_NAME}-1", f"{SMALL_NAME}-2"], f"1 of {BIG.id} and 2 of {SMALL.id}"),
        ([f"{BIG_NAME}-1", STICK.id], f"all of {STICK.id}: a share cannot span two accelerators"),
        ([f"{SMALL_NAME}-1024"], f"{SMALL.id} has no unit 1024: it has 1024 MiB of memory"),
    ],
)
def test_ids_that_are_not_valid_together(ids: list[str], says: str) -> None:
    answer = parse_units(ids, NODE)
    assert isinstance(answer, Refusal)
    assert says in answer.reason


def test_units_may_be_larger() -> None:
    (part,) = group_units([f"{BIG_NAME}-0", f"{BIG_NAME}-1"], NODE).parts
    holder = Holder("default", "web", "main")
    expected = Holding(BIG.id, Form.MEMORY, holder, 2048, ((0, 1),))
    assert part.holding(holder, MemoryUnit.GIB) == expected
    assert isinstance(parse_units([f"{BIG_NAME}-4"], NODE, MemoryUnit.GIB), Refusal)

"""The annotation that lists the holders of a node's accelerators."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.annotations import LIMIT, allocated_text, parse_allocated
from fairlead.inventory import Inventory
from fairlead.offer import Form, Holder, Holding
from tests import strategies


def test_it_names_every_holder() -> None:
    holdings = [
        Holding("pci-1", Form.MEMORY, Holder("default", "web", "main"), 2048, ((0, 2047),)),
        Holding("pci-1", Form.MEMORY, Holder("", ""), 3),
        Holding("pci-1", Form.MEMORY, Holder("", ""), 4),
        Holding("pci-1", Form.CLAIM, Holder("default", "big", "its uid"), 8192),
        Holding("usb-1", Form.WHOLE, Holder("default", "web", "main")),
    ]
    text = (
        '{"version":1,"accelerators":{"pci-1":{"claim":{"default/big":8192},"memory":{"?":7,"default/web/main":2048}},'
        '"usb-1":{"whole":{"default/web/main":0}}}}'
    )
    assert allocated_text(holdings) == text
    assert allocated_text(reversed(holdings)) == text
    assert allocated_text([]) == '{"version":1,"accelerators":{}}'


@pytest.mark.parametrize(
    ("holders", "accelerators", "expected"),
    [
        (3000, 1, {"acc-0": {"memory": {"*": 3000}}}),
        (3000, 3000, {"*": {"memory": {"*": 3000}}}),
    ],
)
def test_it_is_never_too_long(holders: int, accelerators: int, expected: dict[str, object]) -> None:
    holdings = [
        Holding(f"acc-{n % accelerators}", Form.MEMORY, Holder("namespace", f"pod-{n}", "main"), 1)
        for n in range(holders)
    ]
    assert json.loads(allocated_text(holdings)) == {"version": 1, "accelerators": expected}


@given(strategies.held_nodes())
def test_it_can_be_parsed(held_node: tuple[Inventory, tuple[Holding, ...]]) -> None:
    _, holdings = held_node
    text = allocated_text(holdings)
    amounts = parse_allocated(text)
    assert len(text) <= LIMIT
    assert amounts is not None
    assert sum(n for forms in amounts.values() for by in forms.values() for n in by.values()) == sum(
        holding.mebibytes for holding in holdings
    )
    assert {acc: set(forms) for acc, forms in amounts.items()} == {
        acc: {holding.form for holding in holdings if holding.accelerator == acc}
        for acc in {holding.accelerator for holding in holdings}
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "3",
        '{"version":1,"accelerators":{"a":{"whole":{"b":-1}}}}',
        '{"version":1,"accelerators":{"a":{"odd":{"b":1}}}}',
        '{"version":1,"accelerators":{"a":{"whole":{"b":true}}}}',
        '{"a":{"whole":{"b":1}}}',
        '{"version":2,"accelerators":{"a":{"whole":{"b":1}}}}',
        "[" * 10**5,
    ],
)
def test_a_text_that_no_agent_wrote_is_not_accepted(text: str) -> None:
    assert parse_allocated(text) is None


@given(st.text())
def test_any_text_is_harmless(text: str) -> None:
    parse_allocated(text)

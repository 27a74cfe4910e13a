"""Printing: JSON and YAML of one document are the same document, and tables line up."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.output.show import to_json, to_table, to_yaml

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
DOCUMENTS = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=4) | st.dictionaries(TEXT, part, max_size=4), max_leaves=12
)


@given(DOCUMENTS)
def test_every_document_round_trips(document: object) -> None:
    assert json.loads(to_json(document)) == document
    assert yaml.safe_load(to_yaml(document)) == document


@pytest.mark.parametrize(
    "document",
    [
        {"no": "yes", "on": "off", "null": None, "~": "null", "1": "0x10", "true": True},
        {
            "a": "1e3",
            "b": "2026-01-01",
            "c": "- x",
            "d": "x: y # z",
            "e": "\U0001f4a3\u2028\x85\x7f\ufeff",
            "f": "",
        },
        {"a": 1e16, "b": 1e-7, "c": -1.5e300, "d": 0.1, "e": 10**30},
        {"a": [[], {}, [[1]], [{"b": []}], [[{"c": {}}]]]},
        [],
        {},
        "text",
    ],
)
def test_strings_that_look_like_other_yaml_types(document: object) -> None:
    assert yaml.safe_load(to_yaml(document)) == document


def test_columns_are_aligned() -> None:
    assert (
        to_table(("A", "LONGER"), [("wide cell", 1), ("b", "x")])
        == "A          LONGER\nwide cell  1\nb          x"
    )
    assert to_table(("A", "B"), []) == "A  B"


def test_a_table_without_headers_keeps_its_columns() -> None:
    rows = [("b", 1, "c"), ("wide cell", "x", "d")]
    whole = to_table(("A", "LONGER", "B"), rows)
    assert to_table(("A", "LONGER", "B"), rows, headers=False).splitlines() == whole.splitlines()[1:]
    assert to_table(("A", "B"), [], headers=False) == ""

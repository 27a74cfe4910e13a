"""YAML: the values of texts, and the limits for hostile text."""

import math
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.yamltext import DEEPEST, BadYamlError, parse_documents

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{one}: &{one} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, one in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k0: 0}\n" + "".join(
    f"b{n}: &b{n} {{<<: [*{'a' if not n else f'b{n - 1}'}], k{n + 1}: 0}}\n" for n in range(9)
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("[1.5, -2, +3, 1e3, .5]", [1.5, -2, 3, 1000.0, 0.5]),
        ("[no, on, y, true, False]", ["no", "on", "y", True, False]),
        ("['1', \"2\", !!str 3]", ["1", "2", "3"]),
        ("[2024-01-01, 12:30:45, 0x1F]", ["2024-01-01", "12:30:45", "0x1F"]),
        ("{a: , b: ~, c: null}", {"a": None, "b": None, "c": None}),
        ("{1: a, true: b}", {"1": "a", "true": "b"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: &x {k: v}\nb: *x", {"a": {"k": "v"}, "b": {"k": "v"}}),
        ("a: &x {k: v, l: w}\nb: {<<: *x, k: own}", {"a": {"k": "v", "l": "w"}, "b": {"k": "own", "l": "w"}}),
    ],
)
def test_values_are_parsed(text: str, value: Any) -> None:
    assert list(parse_documents(text.encode())) == [value]


def test_several_documents() -> None:
    assert list(parse_documents(b"---\na: 1\n---\n---\nb: 2\n...\n")) == [{"a": 1}, None, {"b": 2}]


def test_not_a_number_is_read_and_left_to_the_field() -> None:
    (value,) = parse_documents(b"[.nan, .inf]")
    assert math.isnan(value[0])
    assert value[1] == math.inf


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, f"nested deeper than {DEEPEST}"),
        ("{a: " * 100_000, f"nested deeper than {DEEPEST}"),
        (LAUGHS, "values"),
        ("a: &a [*a]", "no anchor &a before line 1"),
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice, again by line 3"),
        ("? {x: 1}\n: 2", "a key that is not a text"),
        ("a: {<<: 3}", "not a mapping"),
        ("a: [1, 2", "in line 2"),
        ("a: 1\n b: 2", "in line 2"),
        ("\x00\x01", "control characters"),
        ("a: \t@", "in line 1"),
    ],
)
def test_invalid_yaml_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadYamlError, match=says):
        list(parse_documents(text.encode()))


def test_merges_do_not_multiply() -> None:
    (value,) = parse_documents(MERGES.encode())
    assert len(value["b8"]) == 10


@given(VALUES)
def test_a_dumped_value_is_parsed_back(value: Any) -> None:
    assert list(parse_documents(yaml.safe_dump(value).encode())) == [value]


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    with suppress(BadYamlError):
        list(parse_documents(data))

"""Patches and selectors as their standards define them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakecluster.ownership import apply, leaves
from tests.fakecluster.patches import OwnershipError, PatchError, merge, operations, show, strategic
from tests.fakecluster.selectors import by_fields, by_labels

words = st.text("abc", min_size=1, max_size=2)
documents = st.recursive(
    st.one_of(words, st.integers(0, 3), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
maps = st.dictionaries(words, documents, max_size=4)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [  # RFC 6902, appendix A
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        ({"foo": [1, 2]}, [{"op": "add", "path": "/foo/1", "value": 9}], {"foo": [1, 9, 2]}),
        ({"baz": 1, "foo": 2}, [{"op": "remove", "path": "/baz"}], {"foo": 2}),
        ({"foo": [1, 2, 3]}, [{"op": "remove", "path": "/foo/1"}], {"foo": [1, 3]}),
        ({"baz": 1}, [{"op": "replace", "path": "/baz", "value": 2}], {"baz": 2}),
        (
            {"a": {"b": 1}, "c": {}},
            [{"op": "move", "from": "/a/b", "path": "/c/b"}],
            {"a": {}, "c": {"b": 1}},
        ),
        ({"foo": [1, 2, 3]}, [{"op": "move", "from": "/foo/0", "path": "/foo/2"}], {"foo": [2, 3, 1]}),
        ({"foo": [1]}, [{"op": "add", "path": "/foo/-", "value": [2]}], {"foo": [1, [2]]}),
        ({"a": {"b": [1]}}, [{"op": "replace", "path": "/a/b/0", "value": 2}], {"a": {"b": [2]}}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)
def test_operations(document: Any, patch: Any, result: Any) -> None:
    assert operations(document, patch) == result


@pytest.mark.parametrize(
    "patch",
    [
        {"op": "add", "path": "/baz/bat", "value": "qux"},
        {"op": "add", "path": "/foo/9", "value": 1},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "remove", "path": "/foo/-"},
        {"op": "test", "path": "/foo", "value": []},
        {"op": "copy", "from": "/none", "path": "/a"},
        {"op": "add", "path": "foo", "value": 1},
        {"op": "dance", "path": "/foo"},
    ],
)
def test_operations_on_missing_fields_fail(patch: Any) -> None:
    with pytest.raises(PatchError):
        operations({"foo": [1]}, [patch])


@given(maps, maps)
def test_a_patch_does_not_modify_its_input(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = repr((document, patch))
    merge(document, patch)
    strategic(document, patch)
    apply(document, patch, "me", {}, force=True)
    assert repr((document, patch)) == before


@given(maps, maps)
def test_a_patch_is_idempotent(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge(document, patch)
    assert merge(once, patch) == once
    applied, owners = apply(document, patch, "me", {}, force=True)
    assert apply(applied, patch, "me", owners, force=False) == (applied, owners)


@given(maps, maps)
def test_a_manager_that_applies_nothing_owns_nothing(one: dict[str, Any], two: dict[str, Any]) -> None:
    first, owners = apply({}, one, "me", {}, force=False)
    both, owners = apply(first, two, "you", owners, force=True)
    left, owners = apply(both, {}, "you", owners, force=False)
    assert "you" not in owners
    assert set(leaves(left)) <= set(leaves(one)) | set(leaves(both))


def test_a_conflict_names_the_owner_and_the_field() -> None:
    live = {"spec": {"containers": [{"name": "web", "image": "a"}]}}
    _, owners = apply({}, live, "me", {}, force=False)
    config = {"spec": {"containers": [{"name": "web", "image": "b"}]}}
    with pytest.raises(OwnershipError, match=r"'me' owns .spec.containers\[name=web\].image"):
        apply(live, config, "you", owners, force=False)


def test_a_path_is_formatted_for_people() -> None:
    assert (
        show(("status", "conditions", ("type", "Ready"), "status")) == ".status.conditions[type=Ready].status"
    )


@pytest.mark.parametrize("selector", ["a b", "a=(", "a in b", "=b", "a>1"])
def test_an_invalid_label_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="app=web"):
        by_labels(selector)


def test_an_invalid_field_selector_is_refused() -> None:
    with pytest.raises(ValueError, match="nodeName"):
        by_fields("metadata.name")


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a,spec.on=true", True),
        ("spec.none=", True),
        ("spec.none!=", False),
        ("metadata.name!=a", False),
    ],
)
def test_fields(selector: str, fits: bool) -> None:
    assert by_fields(selector)({"metadata": {"name": "a"}, "spec": {"on": True}}) is fits

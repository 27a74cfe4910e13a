"""Shape arithmetic: the operators that exporters write around a dynamic shape are folded and cost nothing."""

from pathlib import Path

import pytest

from fairlead.zoo.graph import NetNode, Weight
from tests.analyze.models import graph, ints, node, ops, profile, value, weight

Case = tuple[list[NetNode], list[Weight], tuple[int, ...]]
CASES: dict[str, Case] = {
    "flatten by hand": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Unsqueeze", "n first", "n1"),
            node("Concat", "n1 rest", "to", axis=0),
            node("Reshape", "x to", "y"),
        ],
        [ints("zero", 0, dims=()), ints("first", 0), ints("rest", -1)],
        (3, 96),
    ),
    "split heads": (
        [
            node("Shape", "x", "s"),
            node("Slice", "s from until", "lead"),
            node("Div", "width heads", "each"),
            node("Concat", "lead heads each left", "to", axis=0),
            node("Reshape", "x to", "r"),
            node("Transpose", "r", "y", perm=(0, 2, 1, 3, 4)),
        ],
        [ints("from", 0), ints("until", 2), ints("width", 4), ints("heads", 2), ints("left", -1)],
        (3, 2, 4, 2, 6),
    ),
    "a size times a scale": (
        [
            node("Shape", "x", "s"),
            node("Slice", "s two four", "hw"),
            node("Cast", "hw", "f", to=1),
            node("Mul", "f scale", "g"),
            node("Floor", "g", "h"),
            node("Cast", "h", "i", to=7),
            node("Shape", "x", "t"),
            node("Slice", "t none two", "nc"),
            node("Concat", "nc i", "to", axis=0),
            node("Resize", "x _ _ to", "y"),
        ],
        [ints("two", 2), ints("four", 4), ints("none", 0), Weight("scale", (2,), "fp32", (1.5, 2.0))],
        (3, 4, 6, 12),
    ),
    "as wide as before": (
        [
            node("Shape", "x", "s"),
            node("ConstantOfShape", "count", "ones", value=ints("v", 1)),
            node("Mul", "ones minus", "same"),
            node("Equal", "wish same", "keep"),
            node("Where", "keep ones wish", "to"),
            node("Expand", "thin to", "e"),
            node("Add", "x e", "y"),
        ],
        [ints("count", 4), ints("minus", -1), ints("wish", -1, 4, 1, 1), weight("thin", 1, 1, 1, 1)],
        (3, 4, 4, 6),
    ),
    "places in a sequence": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s three", "n"),
            node("Range", "zero n one", "at"),
            node("Gather", "table at", "e"),
            node("Add", "x e", "y"),
        ],
        [
            ints("three", 3, dims=()),
            ints("zero", 0, dims=()),
            ints("one", 1, dims=()),
            weight("table", 512),
        ],
        (3, 4, 4, 6),
    ),
    "nonzero elements": (
        [
            node("NonZero", "mask", "n"),
            node("Squeeze", "n axis", "where"),
            node("Gather", "x where", "y", axis=1),
        ],
        [Weight("mask", (4,), "int64", (1, 0, 1, 1)), ints("axis", 0)],
        (3, 3, 4, 6),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_shape_arithmetic_is_folded(tmp_path: Path, name: str) -> None:
    nodes, weights, dims = CASES[name]
    result = profile(tmp_path, graph(nodes, [value("x", "batch", 4, 4, 6)], weights), batch=(3,))
    assert result.outputs[0].dims == dims
    assert result.exact
    assert set(ops(result)) <= {"Reshape", "Transpose", "Resize", "Add", "Gather"}


def test_folded_numbers_are_bounded(tmp_path: Path) -> None:
    squares = [node("Mul", f"n{at} n{at}", f"n{at + 1}") for at in range(300)]
    made = graph([*squares, node("Reshape", "x n300", "y")], [value("x", 2, 3)], [ints("n0", 10, 10)], ["y"])
    assert not profile(tmp_path, made).outputs[0].dims


def test_a_large_size_beside_zero_is_not_folded(tmp_path: Path) -> None:
    made = graph(
        [node("Reshape", "e to", "a", allowzero=1), node("Transpose", "a", "b"), node("Add", "x x", "y")],
        [value("x", 2)],
        [weight("e", 0), ints("to", 0, 2**31)],
        ["b", "y"],
    )
    assert profile(tmp_path, made).outputs[0].dims == (2**31, 0)

"""Shapes by operator, checked against the reference implementation of ONNX."""

from pathlib import Path

import pytest

from fairlead.workload import Tensor
from fairlead.zoo.graph import Attribute, Weight
from tests.analyze.models import Open, graph, ints, node, profile, value, weight

X: Open = (2, 4, 6, 8)
Case = tuple[str, list[Open], list[Weight], dict[str, Attribute], list[Open]]


def floats(name: str, *values: float) -> Weight:
    return Weight(name, (len(values),), "fp32", values)


CASES: list[Case] = [
    ("Relu", [X], [], {}, [X]),
    ("Add", [X, (4, 1, 8)], [], {}, [X]),
    ("Add", [(3, 1), (1, 5)], [], {}, [(3, 5)]),
    ("Where", [(2, 1), (1, 3), (1,)], [], {}, [(2, 3)]),
    ("MaxPool", [X], [], {"kernel_shape": (2, 2), "strides": (2, 2)}, [(2, 4, 3, 4)]),
    (
        "MaxPool",
        [(1, 1, 4, 4)],
        [],
        {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
        [(1, 1, 2, 2)],
    ),
    (
        "MaxPool",
        [(1, 1, 2, 2)],
        [],
        {"kernel_shape": (1, 1), "strides": (2, 2), "ceil_mode": 1},
        [(1, 1, 1, 1)],
    ),
    ("AveragePool", [X], [], {"kernel_shape": (3, 3), "auto_pad": "SAME_LOWER"}, [X]),
    ("GlobalMaxPool", [X], [], {}, [(2, 4, 1, 1)]),
    ("ConvTranspose", [X], [weight("w", 4, 3, 3, 3)], {"strides": (3, 2), "group": 2}, [(2, 6, 18, 17)]),
    ("Resize", [X], [ints("r"), floats("s", 1, 1, 2, 0.5)], {}, [(2, 4, 12, 4)]),
    ("Resize", [X], [ints("r"), floats("s"), ints("z", 2, 4, 9, 9)], {}, [(2, 4, 9, 9)]),
    ("DepthToSpace", [X], [], {"blocksize": 2}, [(2, 1, 12, 16)]),
    ("SpaceToDepth", [X], [], {"blocksize": 2}, [(2, 16, 3, 4)]),
    ("Reshape", [X], [ints("s", 0, -1, 8)], {}, [(2, 24, 8)]),
    ("Reshape", [X], [ints("s", -1)], {}, [(384,)]),
    ("Flatten", [X], [], {"axis": 2}, [(8, 48)]),
    ("Squeeze", [(1, 3, 1)], [ints("a", -1)], {}, [(1, 3)]),
    ("Squeeze", [(1, 3, 1)], [], {}, [(3,)]),
    ("Unsqueeze", [(3, 4)], [ints("a", 0, -1)], {}, [(1, 3, 4, 1)]),
    ("Transpose", [X], [], {"perm": (0, 2, 3, 1)}, [(2, 6, 8, 4)]),
    ("Transpose", [(2, 3)], [], {}, [(3, 2)]),
    ("Concat", [X, (2, 5, 6, 8)], [], {"axis": -3}, [(2, 9, 6, 8)]),
    ("Split", [X], [ints("s", 1, 3)], {"axis": 1}, [(2, 1, 6, 8), (2, 3, 6, 8)]),
    ("Slice", [X], [ints("s", 1), ints("e", 99), ints("a", 3), ints("t", 3)], {}, [(2, 4, 6, 3)]),
    ("Slice", [X], [ints("s", -1), ints("e", -(2**62)), ints("a", 2), ints("t", -2)], {}, [(2, 4, 3, 8)]),
    ("Pad", [X], [ints("p", 0, 0, 1, 1, 0, 0, 2, -1)], {}, [(2, 4, 9, 8)]),
    ("Tile", [(2, 3)], [ints("r", 2, 1)], {}, [(4, 3)]),
    ("Expand", [(3, 1)], [ints("s", 2, 1, 6)], {}, [(2, 3, 6)]),
    ("Gather", [X], [ints("i", 1, 2, 3)], {"axis": 1}, [(2, 3, 6, 8)]),
    ("Gather", [X], [ints("i", 1, dims=())], {"axis": 1}, [(2, 6, 8)]),
    ("GatherND", [X], [ints("i", 0, 1, dims=(1, 2))], {}, [(1, 6, 8)]),
    ("ReduceMean", [X], [], {"axes": (2, 3), "keepdims": 0}, [(2, 4)]),
    ("ReduceSum", [X], [ints("a", -1)], {}, [(2, 4, 6, 1)]),
    ("ReduceMax", [X], [], {}, [(1, 1, 1, 1)]),
    ("ArgMax", [X], [], {"axis": 1, "keepdims": 0}, [(2, 6, 8)]),
    ("TopK", [X], [ints("k", 3)], {"axis": -1}, [(2, 4, 6, 3), (2, 4, 6, 3)]),
    ("Softmax", [X], [], {}, [X]),
    ("LayerNormalization", [X], [weight("s", 8), weight("b", 8)], {}, [X]),
    ("OneHot", [(2, 3)], [ints("d", 5), floats("v", 0, 1)], {"axis": 1}, [(2, 5, 3)]),
    ("NonMaxSuppression", [(1, 9, 4), (1, 2, 9)], [], {}, [(None, 3)]),  # type: ignore[list-item] # by the data
    ("com.microsoft.SkipLayerNormalization", [(2, 5, 8), (2, 5, 8)], [weight("g", 8)], {}, [(2, 5, 8)]),
    ("com.microsoft.BiasGelu", [(2, 5, 8)], [weight("b", 8)], {}, [(2, 5, 8)]),
    ("com.microsoft.EmbedLayerNormalization", [(2, 5), (2, 5)], [weight("w", 99, 16)], {}, [(2, 5, 16)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_shapes(tmp_path: Path, case: Case) -> None:
    op, inputs, weights, attributes, shapes = case
    inputs_ = [value(f"x{place}", *dims) for place, dims in enumerate(inputs)]
    names = " ".join([*(each.name for each in inputs_), *(each.name for each in weights)])
    outputs = " ".join(f"y{place}" for place in range(len(shapes)))
    made = graph([node(op, names, outputs, **attributes)], inputs_, weights, outputs.split())
    result = profile(tmp_path, made)
    assert [tensor.dims for tensor in result.outputs] == shapes


def test_a_declared_shape_is_used_where_inference_has_none(tmp_path: Path) -> None:
    made = graph(
        [node("my.own.Thing", "x", "a"), node("Conv", "a w", "y")],
        [value("x", "n", 5)],
        [weight("w", 4, 3, 1, 1)],
        values=[value("a", "n", 3, 8, 8)],
    )
    result = profile(tmp_path, made, n=(2,))
    assert result.outputs == (Tensor("y", (2, 4, 8, 8), "fp32"),)
    assert [(record.op, record.exact) for record in result.operators] == [
        ("my.own.Thing", False),
        ("Conv", True),
    ]
    assert "my.own.Thing is an unknown operator: its own work is not counted" in result.notes


def test_unknown_sizes_are_lower_bounds(tmp_path: Path) -> None:
    made = graph(
        [node("NonZero", "x", "n"), node("Transpose", "n", "t"), node("MatMul", "f w", "y")],
        [value("x", 4, 4), value("f", 3, 5)],
        [weight("w", 5, 6)],
        outputs=["t", "y"],
    )
    result = profile(tmp_path, made)
    assert result.outputs[0].dims == (None, 2)
    assert [record.exact for record in result.operators] == [False, False, True]
    assert "2 of 3 operators are not exact: the figures are lower bounds" in result.notes


def test_an_impossible_shape_stays_unknown(tmp_path: Path) -> None:
    made = graph([node("Pad", "x p", "y")], [value("x", 2)], [ints("p", -9, 0)])
    assert profile(tmp_path, made).outputs[0].dims == ()

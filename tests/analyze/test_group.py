"""Which operators run as one kernel."""

from pathlib import Path

import pytest

from fairlead.zoo.graph import NetNode, Weight
from tests.analyze.models import by_op, graph, grouped, ints, node, ops, profile, value, weight

IMAGE = value("x", 1, 8, 6, 6)
WEIGHTS = [
    weight("w", 8, 8, 1, 1),
    weight("w2", 8, 8, 1, 1),
    *(weight(name, 8) for name in ("s", "b", "m", "v")),
    weight("half", 1),
]
CHAINS: dict[str, tuple[list[NetNode], list[list[str]]]] = {
    "norm and activation": (
        [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "n"), node("Relu", "n", "y")],
        [["Conv", "BatchNormalization", "Relu"]],
    ),
    "a sum joins the later convolution": (
        [
            node("Conv", "x w", "a"),
            node("Conv", "a w2", "c"),
            node("Add", "c a", "d"),
            node("Relu", "d", "y"),
        ],
        [["Conv"], ["Conv", "Add", "Relu"]],
    ),
    "silu": (
        [node("Conv", "x w", "c"), node("Sigmoid", "c", "g"), node("Mul", "c g", "y")],
        [["Conv", "Sigmoid", "Mul"]],
    ),
    "gelu by hand": (
        [
            node("MatMul", "x half", "c"),
            node("Div", "c half", "d"),
            node("Erf", "d", "e"),
            node("Add", "e half", "f"),
            node("Mul", "c f", "g"),
            node("Mul", "g half", "y"),
        ],
        [["MatMul", "Div", "Erf", "Add", "Mul", "Mul"]],
    ),
    "a norm by hand": (
        [
            node("ReduceMean", "x", "m1", axes=(-1,)),
            node("Sub", "x m1", "d"),
            node("Pow", "d half", "p"),
            node("ReduceMean", "p", "m2", axes=(-1,)),
            node("Add", "m2 half", "e"),
            node("Sqrt", "e", "r"),
            node("Div", "d r", "q"),
            node("Mul", "q half", "y"),
        ],
        [["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]],
    ),
    "two readers end a group": (
        [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("MaxPool", "c", "p", kernel_shape=(6, 6))],
        [["Conv"], ["Relu"], ["MaxPool"]],
    ),
    "a view costs nothing": (
        [node("Conv", "x w", "c"), node("Flatten", "c", "f"), node("Relu", "f", "y")],
        [["Conv", "Flatten", "Relu"]],
    ),
    "a move is a kernel": (
        [node("Conv", "x w", "c"), node("Transpose", "c", "t"), node("Relu", "t", "y")],
        [["Conv"], ["Transpose"], ["Relu"]],
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_kernels(tmp_path: Path, name: str) -> None:
    nodes, groups = CHAINS[name]
    outputs = ["r", "p"] if name == "two readers end a group" else ["y"]
    result = profile(tmp_path, graph(nodes, [IMAGE], WEIGHTS, outputs))
    assert grouped(result) == groups
    assert result.groups == len(groups)


def attended(*between: NetNode) -> list[NetNode]:
    """Make attention with nodes between its first product and its second."""
    last = between[-1].outputs[0]
    return [node("MatMul", "q k", "scores"), *between, node("MatMul", f"{last} v", "y")]


@pytest.mark.parametrize(
    "between",
    [
        [node("Softmax", "scores", "p")],
        [node("Mul", "scores half", "a"), node("Add", "a mask", "b"), node("Softmax", "b", "p")],
        [
            node("Where", "keep mask low", "m2"),
            node("Add", "scores m2", "b"),
            node("Softmax", "b", "c"),
            node("IsNaN", "c", "n"),
            node("Where", "n zero c", "p"),
        ],
    ],
    ids=["plain", "masked", "guarded"],
)
def test_attention_is_recognised(tmp_path: Path, between: list[NetNode]) -> None:
    heads = [
        value("q", 1, 2, 5, 4),
        value("k", 1, 2, 4, 5),
        value("v", 1, 2, 5, 4),
        value("mask", 1, 1, 5, 5),
    ]
    kept = [*heads, value("keep", 1, 1, 5, 5, dtype="bool")]
    scalars = [weight("half"), weight("low"), weight("zero")]
    result = profile(tmp_path, graph(attended(*between), kept, scalars))
    products = [record for record in result.operators if record.op == "MatMul"]
    assert [record.kind for record in products] == ["attention"] * 2
    assert len({record.group for record in products}) == 1
    assert by_op(result, "Softmax").group == products[0].group
    assert [record.macs for record in products] == [2 * 5 * 5 * 4] * 2


def test_a_product_with_weights_is_not_attention(tmp_path: Path) -> None:
    made = graph(
        [node("MatMul", "x k", "s"), node("Softmax", "s", "p"), node("MatMul", "p w", "y")],
        [value("x", 5, 4), value("k", 4, 5)],
        [weight("w", 5, 4)],
    )
    assert [record.kind for record in profile(tmp_path, made).operators] == ["matmul", "activation", "matmul"]


def test_long_chains_and_wide_sums_are_grouped_quickly(tmp_path: Path) -> None:
    chain = [node("Relu", f"v{at}", f"v{at + 1}") for at in range(1000)]
    wide = [node("Abs", "v0", f"a{at}") for at in range(1000)]
    total = node("Sum", " ".join(["v1000", *(f"a{at}" for at in range(1000))]), "y")
    result = profile(tmp_path, graph([*chain, *wide, total], [value("v0", 4)]))
    assert grouped(result)[0] == ["Relu"] * 1000
    assert len(ops(result)) == 2001


def test_shape_constants_do_not_split_a_group(tmp_path: Path) -> None:
    weights: list[Weight] = [weight("w", 8, 8), ints("to", 1, -1)]
    made = graph(
        [node("MatMul", "x w", "c"), node("Reshape", "c to", "r"), node("Gelu", "r", "y")],
        [value("x", 4, 8)],
        weights,
    )
    assert grouped(profile(tmp_path, made, opset=20)) == [["MatMul", "Reshape", "Gelu"]]

"""Multiply-adds and parameters of single operators, computed by hand."""

from pathlib import Path

import pytest

from fairlead.zoo.graph import Attribute, NetGraph, Weight
from tests.analyze.models import Open, graph, node, profile, value, weight

Row = tuple[str, Open, list[Weight], dict[str, Attribute], int, int]

IMAGE: Open = (2, 8, 10, 10)
ROWS: list[Row] = [
    ("Conv", IMAGE, [weight("w", 16, 8, 3, 3), weight("b", 16)], {}, 2 * 16 * 8 * 8 * 8 * 9, 16 * 8 * 9 + 16),
    (
        "Conv",
        IMAGE,
        [weight("w", 16, 8, 3, 3)],
        {"pads": (1, 1, 1, 1), "strides": (2, 2)},
        2 * 16 * 25 * 72,
        1152,
    ),
    ("Conv", IMAGE, [weight("w", 16, 2, 1, 1)], {"group": 4}, 2 * 16 * 100 * 2, 32),
    ("Conv", IMAGE, [weight("w", 8, 1, 3, 3)], {"group": 8, "auto_pad": "SAME_UPPER"}, 2 * 8 * 100 * 9, 72),
    ("Conv", (1, 4, 50), [weight("w", 4, 4, 5)], {"dilations": (2,)}, 4 * 42 * 20, 80),
    ("Conv", (1, 2, 4, 5, 6), [weight("w", 3, 2, 2, 2, 2)], {}, 3 * 3 * 4 * 5 * 16, 48),
    ("ConvTranspose", IMAGE, [weight("w", 8, 4, 2, 2)], {"strides": (2, 2)}, 2 * 8 * 100 * 16, 128),
    ("MatMul", (4, 7, 5), [weight("w", 5, 6)], {}, 4 * 7 * 5 * 6, 30),
    ("MatMul", (5,), [weight("w", 5, 6)], {}, 30, 30),
    ("Gemm", (7, 5), [weight("w", 6, 5), weight("b", 6)], {"transB": 1}, 7 * 5 * 6, 36),
    ("Gemm", (5, 7), [weight("w", 5, 6)], {"transA": 1}, 7 * 5 * 6, 30),
    ("Einsum", (2, 3, 4), [weight("w", 2, 4, 5)], {"equation": "bij, bjk -> bik"}, 2 * 3 * 4 * 5, 40),
    ("Einsum", (2, 3, 4), [weight("w", 4, 5)], {"equation": "...j,jk->...k"}, 2 * 3 * 4 * 5, 20),
    ("Einsum", (3, 4), [weight("w", 3, 4)], {"equation": "ij,ij"}, 12, 12),
    (
        "LSTM",
        (6, 2, 3),
        [weight("w", 1, 16, 3), weight("r", 1, 16, 4), weight("b", 1, 32)],
        {"hidden_size": 4},
        6 * 2 * (48 + 64),
        48 + 64 + 32,
    ),
    ("GRU", (6, 2, 3), [weight("w", 2, 12, 3), weight("r", 2, 12, 4)], {}, 6 * 2 * 2 * (36 + 48), 168),
    (
        "com.microsoft.FusedConv",
        IMAGE,
        [weight("w", 4, 8, 1, 1)],
        {"activation": "Relu"},
        2 * 4 * 100 * 8,
        32,
    ),
    ("com.microsoft.FusedMatMul", (5, 7), [weight("w", 6, 5)], {"transA": 1, "transB": 1}, 7 * 5 * 6, 30),
    (
        "com.microsoft.MatMulNBits",
        (1, 9, 64),
        [weight("w", 32, 2, 16, dtype="uint8"), weight("s", 64)],
        {"K": 64, "N": 32, "bits": 4, "block_size": 32},
        9 * 64 * 32,
        64 * 32,
    ),
    (
        "com.microsoft.Attention",
        (2, 9, 12),
        [weight("w", 12, 36), weight("b", 36)],
        {"num_heads": 3},
        2 * 9 * 12 * 36 + 2 * 2 * 9 * 9 * 12,
        12 * 36 + 36,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_work_and_parameters(tmp_path: Path, row: Row) -> None:
    op, dims, weights, attributes, macs, params = row
    names = " ".join(["x", *(each.name for each in weights)])
    made = graph([node(op, names, "y", **attributes)], [value("x", *dims)], weights)
    result = profile(tmp_path, made)
    assert (result.macs, result.params, result.exact) == (macs, params, True)


@pytest.mark.parametrize(
    ("weights", "group", "kind"), [((8, 1, 3, 3), 8, "depthwise"), ((16, 4, 3, 3), 2, "conv")]
)
def test_a_convolution_of_one_channel_per_group_is_depthwise(
    tmp_path: Path, weights: tuple[int, ...], group: int, kind: str
) -> None:
    made = graph([node("Conv", "x w", "y", group=group)], [value("x", 1, 8, 9, 9)], [weight("w", *weights)])
    assert [record.kind for record in profile(tmp_path, made).operators] == [kind]


def attention(op: str, heads: int, *dims: Open, **attributes: Attribute) -> NetGraph:
    """Make one attention operator whose inputs all change from run to run."""
    names = "qkvabcde"[: len(dims)]
    shapes = [value(name, *shape) for name, shape in zip(names, dims, strict=True)]
    return graph([node(op, " ".join(names), "y", **attributes)], shapes)


def test_attention_counts_both_products(tmp_path: Path) -> None:
    own = attention("Attention", 3, (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))
    assert profile(tmp_path, own, opset=23).macs == 2 * 3 * 5 * 7 * (4 + 6)
    flat = attention("Attention", 3, (2, 5, 12), (2, 7, 12), (2, 7, 12), q_num_heads=3, kv_num_heads=3)
    assert profile(tmp_path, flat, opset=23).macs == 2 * 5 * 7 * (12 + 12)
    runtime = attention(
        "com.microsoft.MultiHeadAttention", 3, (2, 5, 12), (2, 7, 12), (2, 7, 12), num_heads=3
    )
    assert profile(tmp_path, runtime).macs == 2 * 5 * 7 * (12 + 12)
    shared = attention(
        "com.microsoft.GroupQueryAttention",
        4,
        (2, 5, 16),
        (2, 5, 8),
        (2, 5, 8),
        (2, 2, 3, 4),
        (2, 2, 3, 4),
        num_heads=4,
        kv_num_heads=2,
    )
    assert profile(tmp_path, shared).macs == 2 * 5 * (3 + 5) * 2 * 16


def test_parameters_are_counted_once_and_statistics_not(tmp_path: Path) -> None:
    names = ["s", "b", "m", "v"]
    made = graph(
        [
            node("Conv", "x w", "a"),
            node("BatchNormalization", "a s b m v", "n"),
            node("Conv", "n w", "c"),
            node("Mul", "c half", "d"),
            node("Reshape", "d to", "y"),
        ],
        [value("x", 1, 4, 8, 8)],
        [
            weight("w", 4, 4, 1, 1),
            *(weight(name, 4) for name in names),
            weight("half"),
            Weight("to", (2,), "int64", (1, -1)),
        ],
    )
    result = profile(tmp_path, made)
    assert [record.params for record in result.operators] == [16, 8, 0, 0, 0]
    assert [record.weight_bytes for record in result.operators] == [64, 64, 0, 4, 0]
    assert (result.params, result.weight_bytes) == (24, 132)


def test_activations_are_the_outputs_of_products(tmp_path: Path) -> None:
    made = graph(
        [node("Conv", "x w", "a"), node("Relu", "a", "r"), node("GlobalAveragePool", "r", "y")],
        [value("x", 1, 3, 8, 8)],
        [weight("w", 5, 3, 3, 3)],
    )
    assert profile(tmp_path, made).activations == 5 * 6 * 6


def test_bytes_are_read_and_written_at_their_precision(tmp_path: Path) -> None:
    made = graph(
        [node("Gather", "table i", "e"), node("Cast", "e", "h", to=10), node("Reshape", "h to", "y")],
        [value("i", 2, 5, dtype="int64")],
        [weight("table", 1000, 16), Weight("to", (1,), "int64", (-1,))],
    )
    gather, cast, view = profile(tmp_path, made).operators
    assert (gather.kind, gather.read_bytes, gather.written_bytes) == ("embedding", 640 + 80, 640)
    assert (gather.params, gather.weight_bytes) == (16_000, 64_000)
    assert (cast.read_bytes, cast.written_bytes, cast.precision) == (640, 320, "fp16")
    assert (view.kind, view.read_bytes, view.written_bytes) == ("move", 0, 0)

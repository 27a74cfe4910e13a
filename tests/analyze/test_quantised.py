"""Quantised graphs: Quantize and Dequantize are no work, and weights weigh what they are stored in."""

from pathlib import Path

from fairlead.zoo.graph import NetNode, Weight
from tests.analyze.models import by_op, graph, grouped, node, ops, profile, value, weight

SCALE = [Weight("s", (), "fp32", (0.1,)), Weight("z", (), "int8", (0,))]


def quantise(source: str, target: str) -> NetNode:
    return node("QuantizeLinear", f"{source} s z", target)


def restore(source: str, target: str) -> NetNode:
    return node("DequantizeLinear", f"{source} s z", target)


def test_a_quantised_convolution_is_one_operator_in_int8(tmp_path: Path) -> None:
    made = graph(
        [
            quantise("x", "xq"),
            restore("xq", "xd"),
            restore("wq", "w"),
            restore("bq", "b"),
            node("Conv", "xd w b", "c"),
            node("Relu", "c", "r"),
            quantise("r", "rq"),
            restore("rq", "y"),
        ],
        [value("x", 1, 8, 6, 6)],
        [weight("wq", 4, 8, 1, 1, dtype="int8"), weight("bq", 4, dtype="int32"), *SCALE],
    )
    found = profile(tmp_path, made)
    assert ops(found) == ["QuantizeLinear", "Conv", "Relu", "DequantizeLinear"]
    conv = by_op(found, "Conv")
    assert (conv.macs, conv.params, conv.precision) == (36 * 32, 36, "int8")
    assert (conv.weight_bytes, conv.read_bytes) == (32 + 16, 288 + 32 + 16)
    assert by_op(found, "Relu").written_bytes == 144
    assert (found.precision, found.macs, found.exact) == ("int8", 36 * 32, True)


def test_two_operators_in_a_row_hand_over_int8(tmp_path: Path) -> None:
    made = graph(
        [
            quantise("x", "xq"),
            restore("xq", "xd"),
            restore("wq", "w"),
            node("MatMul", "xd w", "a"),
            quantise("a", "aq"),
            restore("aq", "ad"),
            restore("vq", "v"),
            node("MatMul", "ad v", "b"),
            node("Add", "b ad", "y"),
        ],
        [value("x", 5, 16)],
        [weight("wq", 16, 16, dtype="int8"), weight("vq", 16, 16, dtype="int8"), *SCALE],
    )
    found = profile(tmp_path, made)
    assert ops(found) == ["QuantizeLinear", "MatMul", "MatMul", "Add"]
    assert [record.precision for record in found.operators] == ["int8", "int8", "int8", "fp32"]
    assert [record.written_bytes for record in found.operators] == [80, 80, 320, 320]
    assert grouped(found) == [["QuantizeLinear"], ["MatMul"], ["MatMul", "Add"]]


def test_only_the_weights_may_be_narrow(tmp_path: Path) -> None:
    made = graph(
        [restore("wq", "w"), node("Transpose", "w", "t"), node("MatMul", "x t", "y")],
        [value("x", 5, 16)],
        [weight("wq", 8, 16, dtype="int8"), *SCALE],
    )
    (record,) = profile(tmp_path, made).operators
    assert (record.precision, record.params, record.weight_bytes) == ("fp32", 128, 128 + 4 + 1)
    assert record.read_bytes == 320 + 128


def test_what_someone_else_reads_stays_as_it_is(tmp_path: Path) -> None:
    made = graph(
        [node("Relu", "x", "r"), quantise("r", "q"), node("Abs", "r", "y")],
        [value("x", 4)],
        SCALE,
        ["q", "y"],
    )
    assert ops(profile(tmp_path, made)) == ["Relu", "QuantizeLinear", "Abs"]


def test_operators_on_quantised_values(tmp_path: Path) -> None:
    made = graph(
        [
            node("QLinearConv", "x s z w s z s z b", "c"),
            node("com.microsoft.QLinearAdd", "c s z c s z s z", "a"),
            node("ConvInteger", "a w", "y"),
        ],
        [value("x", 1, 8, 6, 6, dtype="int8")],
        [weight("w", 8, 8, 1, 1, dtype="int8"), weight("b", 8, dtype="int32"), *SCALE],
    )
    found = profile(tmp_path, made)
    assert [record.macs for record in found.operators] == [36 * 64, 0, 36 * 64]
    assert [record.params for record in found.operators] == [72, 0, 0]
    assert [record.precision for record in found.operators] == ["int8"] * 3
    assert found.outputs[0].dtype == "int32"

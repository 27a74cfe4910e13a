"""Quantised graphs: Quantize and Dequantize are not work, and weights count with their stored size."""

from pathlib import Path

from fairlead.zoo.graph import NetNode, Weight
from tests.analyze.models import by_op, graph, grouped, node, ops, profile, value, weight

SCALE = [Weight("s", (), "fp32", (0.1,)), Weight("z", (), "int8", (0,))]


def quantise(source: str, target: str) -> NetNode:
    return node("QuantizeLinear", f"{source} s z", target)


def dequantise(source: str, target: str) -> NetNode:
    return node("DequantizeLinear", f"{source} s z", target)


def test_a_quantised_convolution_is_one_operator_in_int8(tmp_path: Path) -> None:
    made = graph(
        [
            quantise("x", "xq"),
            dequantise("xq", "xd"),
            dequantise("wq", "w"),
            dequantise("bq", "b"),
            node("Conv", "xd w b", "c"),
            node("Relu", "c", "r"),
            quantise("r", "rq"),
            dequantise("rq", "y"),
        ],
        [value("x", 1, 8, 6, 6)],
        [weight("wq", 4, 8, 1, 1, dtype="int8"), weight("bq", 4, dtype="int32"), *SCALE],
    )
    result = profile(tmp_path, made)
    assert ops(result) == ["QuantizeLinear", "Conv", "Relu", "DequantizeLinear"]
    conv = by_op(result, "Conv")
    assert (conv.macs, conv.params, conv.precision) == (36 * 32, 36, "int8")
    assert (conv.weight_bytes, conv.read_bytes) == (32 + 16, 288 + 32 + 16)
    assert by_op(result, "Relu").written_bytes == 144
    assert (result.precision, result.macs, result.exact) == ("int8", 36 * 32, True)


def test_two_operators_in_a_row_hand_over_int8(tmp_path: Path) -> None:
    made = graph(
        [
            quantise("x", "xq"),
            dequantise("xq", "xd"),
            dequantise("wq", "w"),
            node("MatMul", "xd w", "a"),
            quantise("a", "aq"),
            dequantise("aq", "ad"),
            dequantise("vq", "v"),
            node("MatMul", "ad v", "b"),
            node("Add", "b ad", "y"),
        ],
        [value("x", 5, 16)],
        [weight("wq", 16, 16, dtype="int8"), weight("vq", 16, 16, dtype="int8"), *SCALE],
    )
    result = profile(tmp_path, made)
    assert ops(result) == ["QuantizeLinear", "MatMul", "MatMul", "Add"]
    assert [record.precision for record in result.operators] == ["int8", "int8", "int8", "fp32"]
    assert [record.written_bytes for record in result.operators] == [80, 80, 320, 320]
    assert grouped(result) == [["QuantizeLinear"], ["MatMul"], ["MatMul", "Add"]]


def test_only_the_weights_may_be_narrow(tmp_path: Path) -> None:
    made = graph(
        [dequantise("wq", "w"), node("Transpose", "w", "t"), node("MatMul", "x t", "y")],
        [value("x", 5, 16)],
        [weight("wq", 8, 16, dtype="int8"), *SCALE],
    )
    (record,) = profile(tmp_path, made).operators
    assert (record.precision, record.params, record.weight_bytes) == ("fp32", 128, 128 + 4 + 1)
    assert record.read_bytes == 320 + 128


def test_a_value_with_another_reader_stays_unquantised(tmp_path: Path) -> None:
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
    result = profile(tmp_path, made)
    assert [record.macs for record in result.operators] == [36 * 64, 0, 36 * 64]
    assert [record.params for record in result.operators] == [72, 0, 0]
    assert [record.precision for record in result.operators] == ["int8"] * 3
    assert result.outputs[0].dtype == "int32"

"""ONNX files of our writer: our own reader reads them, bytes are reproducible, and they are streamed."""

import io
import struct
from pathlib import Path

import pytest

from fairlead import varint
from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
from fairlead.zoo import PACK
from fairlead.zoo.graph import NetGraph, NetNode, NetValue, Weight
from fairlead.zoo.onnxfile import content, save, size, write

VARINTS = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ffffffffffffffffff01")]
CONTENTS = [
    (Weight("w", (3,), "fp32", (1.0, 2.0, 3.0)), struct.pack("<3f", 1, 2, 3)),
    (Weight("w", (2, 2), "fp16", (0.5,)), struct.pack("<4e", *[0.5] * 4)),
    (Weight("w", (), "int64", (7,)), struct.pack("<q", 7)),
    (Weight("w", (2,), "int8", (-1, 1)), b"\xff\x01"),
    (Weight("w", (0,)), b""),
]


class Sink(io.BytesIO):
    """A stream that records its largest block."""

    largest = 0

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # only bytes are written
        self.largest = max(self.largest, len(data))
        return len(data)


@pytest.mark.parametrize(("value", "written"), VARINTS)
def test_varints_are_encoded(value: int, written: str) -> None:
    assert varint.encode(value).hex() == written


@pytest.mark.parametrize(("weight", "data"), CONTENTS, ids=lambda item: getattr(item, "dtype", ""))
def test_the_content_of_a_weight(weight: Weight, data: bytes) -> None:
    assert b"".join(content(weight)) == data
    assert size(weight) == len(data)


def test_noise_has_its_deviation_and_no_equal_rows() -> None:
    data = b"".join(content(Weight("w", (256, 512), deviation=0.1)))
    values = struct.unpack(f"<{256 * 512}f", data)
    rows = {data[start : start + 2048] for start in range(0, len(data), 2048)}
    assert len(rows) == 256
    assert sum(values) / len(values) == pytest.approx(0, abs=0.002)
    assert sum(value * value for value in values) / len(values) == pytest.approx(0.01, rel=0.05)


def test_only_floating_point_is_filled_with_noise() -> None:
    with pytest.raises(ValueError, match="int8: only floating-point"):
        list(content(Weight("w", (4,), "int8", deviation=1.0)))


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(PACK["sentence"](1, "fp32"), str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_large_model_is_written_in_small_blocks() -> None:
    large = NetGraph("large", (), (), (), (Weight("w", (25_000_000,), deviation=1.0),))
    sink = Sink()
    save(large, sink, 17, {})
    assert sink.largest < 1_000_000


def test_open_dimensions_other_domains_and_bodies_are_written(tmp_path: Path) -> None:
    x, y = NetValue("x", ("N", 4)), NetValue("y", ("N", 4))
    body = NetGraph(
        "body",
        (),
        (NetValue("z", (1,)),),
        (NetNode("Identity", ("c",), ("z",)),),
        (Weight("c", (1,), values=(1.0,)),),
    )
    flag = Weight("flag", (), "bool", (1,))
    nodes = (
        NetNode("If", ("flag",), ("chosen",), {"then_branch": body, "else_branch": body}),
        NetNode("Gelu", ("x",), ("g",), domain="com.microsoft"),
        NetNode(
            "Add", ("g", "chosen"), ("y",), {"note": "text", "alpha": 0.5, "list": (1, 2), "more": (0.5, 1.5)}
        ),
    )
    file = str(tmp_path / "odd.onnx")
    write(NetGraph("odd", (x,), (y,), nodes, (flag,)), file, domains={"com.microsoft": 1})
    with pytest.raises(AnalysisError, match="N"):
        analyze(file)
    result = analyze(file, {"N": (3,)})
    assert result.inputs[0].dims == (3, 4)
    assert "com.microsoft.Gelu" in {operator.op for operator in result.operators}

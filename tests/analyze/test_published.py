"""Whole networks: their counts agree with published ones, and large files are analysed quickly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead import varint
from fairlead.analyze import analyze
from fairlead.workload import KINDS
from fairlead.zoo import attention, dense, mobile
from fairlead.zoo.graph import NetGraph
from fairlead.zoo.onnxfile import len_field, save, string_field, varint_field, write
from tests.analyze.models import graph, node, value
from tests.analyze.test_hostile import alone

PUBLISHED = [
    (mobile.mobilenet_v1, 0.569e9, 4.23e6, None),
    (mobile.mobilenet_v2, 0.3008e9, 3.505e6, 6.68e6),
    (dense.resnet18, 1.814e9, 11.69e6, 2.48e6),
    (dense.resnet50, 4.089e9, 25.557e6, 11.11e6),
    (dense.inception_v3, 5.713e9, 23.83e6, 8.97e6),
    (mobile.efficientnet_b0, 0.3855e9, 5.289e6, 6.75e6),
    (attention.vit_tiny, 1.258e9, 5.72e6, 5.97e6),
]
"""Multiply-adds and parameters as the papers, torchvision and timm give them; activations as timm counts."""


@pytest.mark.parametrize(("build", "macs", "params", "activations"), PUBLISHED)
def test_counts_agree_with_what_was_published(
    tmp_path: Path, build: Callable[[], NetGraph], macs: float, params: float, activations: float | None
) -> None:
    write(build(), str(tmp_path / "net.onnx"))
    result = analyze(str(tmp_path / "net.onnx"))
    assert result.macs == pytest.approx(macs, rel=0.01)
    assert result.params == pytest.approx(params, rel=0.01)
    assert activations is None or result.activations == pytest.approx(activations, rel=0.01)
    assert result.exact
    assert {record.kind for record in result.operators} <= set(KINDS)
    assert sum(record.params for record in result.operators) == result.params


def large(path: Path, count: int, side: int) -> None:
    """Write a chain of products whose weights are holes of a sparse file: large in size, small on disk."""
    nodes = [node("MatMul", f"v{at} w{at}", f"v{at + 1}") for at in range(count)]
    with open(path, "wb") as out:
        save(graph(nodes, [value("v0", 1, side)]), out, 17, {})
    data = path.read_bytes()
    start = data.index(b"\x3a")
    skip = start + 1
    while data[skip] >= 0x80:
        skip += 1
    body, size = data[skip + 1 :], side * side * 4
    heads = []
    for at in range(count):
        head = (
            varint_field(1, side) * 2
            + varint_field(2, 1)
            + string_field(8, f"w{at}")
            + varint.encode(9 << 3 | 2)
            + varint.encode(size)
        )
        heads.append(varint.encode(5 << 3 | 2) + varint.encode(len(head) + size) + head)
    total = len(body) + sum(len(head) + size for head in heads)
    with open(path, "wb") as out:
        out.write(data[:start] + b"\x3a" + varint.encode(total) + body)
        for head in heads:
            out.write(head)
            out.seek(size, 1)
        out.truncate()


def test_half_a_gigabyte_takes_under_a_second_and_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    large(path, 2000, 256)
    assert path.stat().st_size > 500e6
    messages, seconds, mebibytes = alone(path)
    assert messages == ""
    assert seconds < 1
    assert mebibytes < 100


def test_the_smallest_model_is_one_too(tmp_path: Path) -> None:
    path = tmp_path / "nothing.onnx"
    tensor = len_field(2, len_field(1, varint_field(1, 1) + len_field(2, len_field(1, varint_field(1, 4)))))
    path.write_bytes(
        varint_field(1, 8)
        + len_field(7, len_field(11, string_field(1, "x") + tensor) + len_field(12, string_field(1, "x")))
    )
    result = analyze(str(path))
    assert (result.operators, result.macs, result.groups, result.precision) == ((), 0, 0, "unknown")
    assert result.peak_bytes == 16

"""Which runtimes take a model as it is, and why others do not."""

from pathlib import Path

import pytest

from fairlead.analyze.operators import ONNX, TFLITE
from fairlead.analyze.support import runtimes
from fairlead.workload import Profile
from tests.analyze.models import graph, ints, node, profile, value, weight

CAUSES = ("format", "operator", "precision", "shape")


def convolution(folder: Path, *more: str) -> Profile:
    """Analyse a convolution followed by other operators of one input."""
    nodes = [node("Conv", "x w", "v0")]
    nodes += [node(op, f"v{at}", f"v{at + 1}") for at, op in enumerate(more)]
    return profile(folder, graph(nodes, [value("x", 1, 4, 6, 6)], [weight("w", 4, 4, 1, 1)]))


def test_every_runtime_names_its_source() -> None:
    assert set(runtimes()) == {"edgetpu", "tensorrt", "onnxruntime-cpu", "onnxruntime-cuda", "tflite"}
    for runtime in runtimes().values():
        assert runtime.source
        assert set(runtime.formats) <= {"onnx", "tflite"}


@pytest.mark.parametrize("name", ["edgetpu", "tensorrt", "onnxruntime-cuda"])
def test_names_in_the_table_are_operators(name: str) -> None:
    """A name that is not a known operator is more likely a typing mistake than an operator."""
    runtime = runtimes()[name]
    ours = {*ONNX, *TFLITE, *(f"com.microsoft.{op}" for op in ONNX), "custom.edgetpu-custom-op"}
    assert not (runtime.takes or set()) - ours
    assert set(runtime.converted) <= ours
    assert set(runtime.converted.values()) <= (runtime.takes or set())


def test_common_onnx_runs_on_runtimes_that_read_onnx(tmp_path: Path) -> None:
    result = convolution(tmp_path, "Relu")
    assert set(result.unsupported) == {"edgetpu", "tflite"}
    assert result.unsupported["edgetpu"] == (
        "format: the Edge TPU reads tflite, and this is onnx: convert it",
        "precision: the Edge TPU computes in int8, this model in fp32: quantise it",
    )
    assert result.unsupported["tflite"] == ("format: TFLite reads tflite, and this is onnx: convert it",)


def test_a_missing_operator_is_named_with_its_fallback(tmp_path: Path) -> None:
    result = convolution(tmp_path, "HardSwish", "Det", "com.microsoft.QuickGelu", "my.Own")
    edge = result.unsupported["edgetpu"]
    assert "operator: the Edge TPU does not run HardSwish: it and what follows run on the CPU" in edge
    assert "shape: the Edge TPU needs every size to be fixed" in edge
    assert result.unsupported["tensorrt"] == (
        "operator: TensorRT does not run Det",
        "operator: TensorRT does not run com.microsoft.QuickGelu",
        "operator: TensorRT does not run my.Own",
    )
    assert [
        text.partition(" does not run ")[2].partition(":")[0]
        for text in result.unsupported["onnxruntime-cuda"]
    ] == [
        "Det",
        "my.Own",
    ]
    assert result.unsupported["onnxruntime-cpu"] == ("operator: ONNX Runtime on a CPU does not run my.Own",)


def test_reasons_begin_with_their_cause_and_are_bounded(tmp_path: Path) -> None:
    result = convolution(tmp_path, *(f"my.Own{at}" for at in range(40)))
    for reasons in result.unsupported.values():
        assert all(reason.partition(":")[0] in CAUSES for reason in reasons)
        assert len(reasons) < 20
    assert result.unsupported["onnxruntime-cpu"][-1] == "operator: and 28 more kinds of operators"


def test_folded_operators_need_no_runtime(tmp_path: Path) -> None:
    made = graph(
        [node("Unique", "u", "n"), node("Shape", "x", "s"), node("Reshape", "x s", "y")],
        [value("x", 2, 3)],
        [ints("u", 1, 2)],
    )
    assert "tensorrt" not in profile(tmp_path, made).unsupported

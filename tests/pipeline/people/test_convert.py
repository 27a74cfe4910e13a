"""The converter from TensorFlow.js to ONNX: each operator is as NumPy computes it, others are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.pipeline.people.convert import OPERATORS, convert, main
from fairlead.errors import UserError
from tests.pipeline.people.tfjs import REFERENCE, GraphModel, every_operator

onnxruntime = pytest.importorskip("onnxruntime")


def test_a_model_with_every_operator_is_as_numpy_computes_it(tmp_path: Path) -> None:
    model = every_operator()
    used = {node["op"] for node in model.nodes}
    assert used - {"Const", "Placeholder"} == set(OPERATORS) == set(REFERENCE)
    source = model.write(tmp_path)
    assert main([str(source), str(tmp_path / "model.onnx")]) == 0
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    image = np.random.default_rng(3).normal(size=(1, 3, 11, 15)).astype(np.float32)
    outputs = session.run(None, {"image": image})
    expected = model.evaluate(image)
    assert [port.name for port in session.get_outputs()] == ["Identity", "Identity_1"]
    for port, output in zip(session.get_outputs(), outputs, strict=True):
        assert port.shape == list(expected[port.name].shape)
        np.testing.assert_allclose(output, expected[port.name], rtol=1e-5, atol=1e-5)


def test_transpositions_and_padding_become_part_of_what_follows(tmp_path: Path) -> None:
    source = every_operator().write(tmp_path)
    graph = convert(json.loads(source.read_bytes()), tmp_path)
    names = [node.op for node in graph.nodes]
    assert "Transpose" not in names, "every operator of the model takes channels first"
    assert "Pad" not in names
    (conv,) = (node for node in graph.nodes if node.op == "Conv")
    assert conv.attributes["pads"] == (1, 2, 2, 1)


def test_what_a_value_still_needs_becomes_an_operator(tmp_path: Path) -> None:
    model = GraphModel(1, 2, 3, 4)
    model.op("Pad", "padded", "image", model.const("pads", [[0, 0], [1, 0], [0, 2], [0, 0]]))
    model.op("Transpose", "turned", "padded", model.const("turn", [0, 2, 3, 1]))
    model.output("turned", 1, 5, 4, 3)
    assert main([str(model.write(tmp_path)), str(tmp_path / "model.onnx")]) == 0
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    image = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    np.testing.assert_array_equal(session.run(None, {"image": image})[0], model.evaluate(image)["turned"])


CONV: dict[str, Any] = {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "padding": "VALID"}


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("Softplus", {}, "operators are not known: Softplus"),
        ("Conv2D", {**CONV, "padding": "SAME"}, "out: Conv2D cannot be converted: only padding VALID"),
        ("Conv2D", {**CONV, "data_format": "NCHW"}, "out: Conv2D cannot be converted: only padding VALID"),
        ("ResizeBilinear", {"align_corners": True}, "ResizeBilinear cannot be converted: only half_pixel"),
        ("Reshape", {}, "Reshape cannot be converted: an input that must be constant"),
    ],
)
def test_what_is_not_known_is_refused_by_name(
    tmp_path: Path, op: str, attributes: dict[str, Any], message: str
) -> None:
    model = GraphModel(1, 4, 4, 1)
    model.const("kernel", np.ones((1, 1, 1, 1)), np.float32)
    model.op(op, "out", "image", "image" if op == "Reshape" else "kernel", **attributes)
    model.output("out", 1, 4, 4, 1)
    source = model.write(tmp_path)
    with pytest.raises(UserError, match=message):
        convert(json.loads(source.read_bytes()), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "uint8"}, "weight kernel is float32 stored as uint8"),
        ({"dtype": "float32"}, "model.bin has 18 bytes, its weights 36"),
    ],
)
def test_weights_that_are_stored_otherwise_are_refused(
    tmp_path: Path, change: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = GraphModel(1, 4, 4, 1)
    model.const("kernel", np.ones((9,)), np.float32)
    model.output("image", 1, 4, 4, 1)
    source = model.write(tmp_path)
    document = json.loads(source.read_bytes())
    document["weightsManifest"][0]["weights"][0]["quantization"] = change
    source.write_text(json.dumps(document))
    assert main([str(source), str(tmp_path / "model.onnx")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model.onnx").exists()

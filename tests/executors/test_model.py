"""ONNX models as the warm process of a worker: arrays and pictures in, arrays or JSON out."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.errors import JobError
from fairlead.executors.warm import ExecutionFailure, WarmProcess, WarmSpec
from fairlead.pipeline.endpoints.codec.encode import encode_image
from fairlead.pipeline.models.files import FileModel, picture_options
from fairlead.pipeline.models.ports import ModelError, ModelPort
from fairlead.pipeline.ports import tensor
from tests.pipeline.test_models import model, two

pytest.importorskip("onnxruntime")


def test_an_array_goes_through_a_warm_model(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "n", 2)
    values = np.array([[1, 2], [3, 4]], np.float32)
    np.save(tmp_path / "in.npy", values)
    (tmp_path / "in.txt").write_text("1 2")
    process = WarmProcess(WarmSpec("model", str(tmp_path / "m.onnx")), lambda line: None)
    with closing(process):
        process.start()
        assert process.run(str(tmp_path / "in.npy"), str(tmp_path / "out")) is None
        failure = process.run(str(tmp_path / "in.txt"), str(tmp_path / "out2"))
    assert np.array_equal(np.load(tmp_path / "out")["y"], -values)
    assert isinstance(failure, ExecutionFailure)
    assert failure.error.startswith("ValueError: a model takes files that end with .jpg, ")
    assert failure.error.endswith(".npz: this one ends with .txt")


@pytest.mark.parametrize(
    ("target", "options", "why"),
    [
        ("gone.onnx", {}, "does not exist"),
        ("m.onnx", {"output": "xml"}, "npz or json"),
        ("m.onnx", {"size": 1}, "unknown"),
    ],
    ids=["gone", "output", "unknown"],
)
def test_a_model_that_cannot_be_used_is_refused(
    tmp_path: Path, target: str, options: Mapping[str, Any], why: str
) -> None:
    model(tmp_path / "m.onnx", "n", 2)
    with pytest.raises(ModelError) as refused:
        FileModel(str(tmp_path / target), options)
    assert why in f"{refused.value} {refused.value.hint}"


def test_a_refused_model_is_said_before_the_first_input(tmp_path: Path) -> None:
    process = WarmProcess(WarmSpec("model", str(tmp_path / "gone.onnx")), lambda line: None)
    with pytest.raises(JobError, match="does not exist"):
        process.start()


def test_several_inputs_and_outputs_are_records_of_arrays(tmp_path: Path) -> None:
    two(tmp_path / "two.onnx")
    np.savez(tmp_path / "in.npz", a=np.array([[5, 7]], np.float32), b=np.array([[1, 2]], np.float32))
    FileModel(str(tmp_path / "two.onnx"), {"output": "json"}).run(
        str(tmp_path / "in.npz"), str(tmp_path / "out")
    )
    assert json.loads((tmp_path / "out").read_text()) == {"plus": [[6.0, 9.0]], "minus": [[4.0, 5.0]]}


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "n", 2)
    np.save(tmp_path / "in.npy", np.ones((3, 2), np.float32))
    loaded = FileModel(str(tmp_path / "m.onnx"), {})
    for name in ("one", "two"):
        loaded.run(str(tmp_path / "in.npy"), str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_picture_becomes_the_input_by_the_shape_of_the_model(tmp_path: Path) -> None:
    pytest.importorskip("av")
    model(tmp_path / "m.onnx", 1, 3, 4, 4)
    gray = np.full((8, 8, 3), 51, np.uint8)
    (tmp_path / "in.png").write_bytes(encode_image(gray, "png"))
    FileModel(str(tmp_path / "m.onnx"), {}).run(str(tmp_path / "in.png"), str(tmp_path / "out"))
    assert np.allclose(np.load(tmp_path / "out")["y"], np.full((1, 3, 4, 4), -0.2), atol=0.01)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 3, 224, 320), {"layout": "nchw", "scale": "1/255", "resize": [224, 320]}),
        ((1, 224, 320, 3), {"layout": "nhwc", "scale": "1/255", "resize": [224, 320]}),
        ((None, 3, None, None), {"layout": "nchw", "scale": "1/255"}),
        ((1, 10), {}),
    ],
    ids=["nchw", "nhwc", "any size", "no picture"],
)
def test_the_preparation_is_read_from_the_shape(shape: Any, options: Any) -> None:
    assert picture_options(ModelPort("x", tensor("float32", shape))) == options

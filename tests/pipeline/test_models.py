"""ONNX models as stages: their ports are checked before a run, and values, joins, batches and images fit."""

from pathlib import Path

import numpy as np
import pytest

from fairlead.errors import PipelineError
from fairlead.pipeline.frame import Array
from fairlead.pipeline.models.images import ImagePreparation, parse_scale, resize_image
from fairlead.pipeline.models.session import open_model
from fairlead.pipeline.ports import Record, tensor
from fairlead.pipeline.spec import BatchSpec, StageRole, StageSpec
from fairlead.units import Seconds
from fairlead.zoo.graph import NetGraph, NetNode, NetValue, Weight
from fairlead.zoo.onnxfile import write
from tests.pipeline.pipelines import lines, plan, run

pytest.importorskip("onnxruntime")
CAMERA = "{name: camera, source: numbers, options: {count: 9, shape: [4, 6, 3]}}"


def model(path: Path, *dims: int | str, dtype: str = "fp32") -> None:
    """Write a network of one operator, y = -x."""
    x, y = NetValue("x", dims, dtype), NetValue("y", dims, dtype)
    write(NetGraph("negative", (x,), (y,), (NetNode("Neg", ("x",), ("y",)),)), str(path))


def two(path: Path) -> None:
    """Write a network with two inputs and two outputs, a + b and a - b."""
    a, b, plus, minus = (NetValue(name, ("n", 2)) for name in ("a", "b", "plus", "minus"))
    nodes = (NetNode("Add", ("a", "b"), ("plus",)), NetNode("Sub", ("a", "b"), ("minus",)))
    write(NetGraph("two", (a, b), (plus, minus), nodes), str(path))


def chain(stage: str) -> str:
    """Return a pipeline with a stage between a camera and a sink."""
    return (
        f"pipeline: p\nstages:\n  - {CAMERA}\n  - {{name: net, {stage}}}\n  - {{name: log, sink: 'null'}}\n"
    )


def test_ports_come_from_the_model(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "n", 3, "h", 8)
    two(tmp_path / "two.onnx")
    text = chain("run: m.onnx").replace(
        CAMERA, "{name: camera, source: generator, options: {function: '$S:odd'}}"
    )
    stage = plan(text, tmp_path).spec.stage("net")
    assert stage.kind == "onnx"
    assert stage.inputs == stage.outputs == tensor("float32", (None, 3, None, 8))
    both = plan(text.replace("m.onnx", "two.onnx"), tmp_path).spec.stage("net")
    assert both.inputs == both.outputs == Record


@pytest.mark.parametrize(
    ("stage", "message", "hint"),
    [
        ("run: none.onnx", "the model {folder}/none.onnx does not exist", "correct the path"),
        ("run: text.onnx", "the model {folder}/text.onnx cannot be loaded", "export it again"),
        (
            "run: m.onnx",
            "edge camera->net: camera makes Tensor(uint8, 4x6x3), and net takes Tensor(float32, 1x3x8x12)",
            "add options: {resize: [8, 12], scale: 1/255, layout: nchw} to net",
        ),
        (
            "run: m.onnx, options: {scale: 1/255}",
            "camera makes Tensor(uint8, 4x6x3), and net takes Tensor(uint8, 8x12x3)",
            "change one",
        ),
        (
            "run: m.onnx, options: {resize: [8, 8]}",
            "resize [8, 8]: the model takes Tensor(float32, 1x3x8x12)",
            "write resize: [8, 12]",
        ),
        ("run: m.onnx, options: {layout: nhwc}", "12 channels then", "try layout: nchw"),
        ("run: m.onnx, options: {scale: 0}", "option scale: 0 is not a number above 0", "1/255"),
        ("run: m.onnx, options: {providers: [cuda]}", "ONNX Runtime has no provider cuda here", "cpu"),
        ("run: m.onnx, options: {size: 3}", "unknown option 'size'", "did you mean resize?"),
        (
            "run: m.onnx, options: {resize: [8, 12]}, batch: {most: 4}",
            "batch: x is Tensor(float32, 1x3x8x12), and its first dimension is not symbolic",
            "dynamic batch",
        ),
        ("run: flat.onnx, options: {scale: 1}", "x Tensor(float32, 5): no image is prepared", "remove"),
        ("run: m.onnx, out: Record", "the file says Record, and the stage itself Tensor(float32", "correct"),
    ],
)
def test_what_does_not_fit_is_said_before_the_run(
    tmp_path: Path, stage: str, message: str, hint: str
) -> None:
    model(tmp_path / "m.onnx", 1, 3, 8, 12)
    model(tmp_path / "flat.onnx", 5)
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(PipelineError) as caught:
        plan(chain(stage), tmp_path)
    assert message.format(folder=tmp_path) in str(caught.value)
    assert hint in caught.value.hint


def test_a_model_runs_in_a_pipeline(tmp_path: Path) -> None:
    model(tmp_path / "m.onnx", "n", 3, 8, 12)
    text = chain(
        "run: m.onnx, options: {resize: [8, 12], scale: 1/255, layout: nchw}, batch: {auto: true, most: 4}"
    )
    run(
        text.replace("sink: 'null'", "run: '$S:first'").rstrip()
        + "\n  - {name: out, sink: jsonl, options: {path: out.jsonl}}\n",
        tmp_path,
    )
    made = [line["value"] for line in lines(tmp_path)]
    assert [each["shape"] for each in made] == [[1, 3, 8, 12]] * 9
    assert [each["first"] for each in made] == pytest.approx([-n / 255 for n in range(9)])


def opened(folder: Path, name: str, batch: int = 0) -> StageSpec:
    """Return the stage of a model in a folder."""
    return StageSpec("net", StageRole.RUN, name, batch=BatchSpec(batch, Seconds(0)) if batch else None)


def test_several_inputs_are_a_join_or_a_record_and_several_outputs_a_record(tmp_path: Path) -> None:
    two(tmp_path / "two.onnx")
    net = open_model(opened(tmp_path, "two.onnx"), str(tmp_path))
    a: Array = np.ones((1, 2), np.float32)
    b: Array = np.full((1, 2), 3, np.float32)
    a.flags.writeable = False  # as in shared memory
    for made in (net(a, b), net({"b": b, "a": a})):
        assert list(made) == ["plus", "minus"]
        assert (made["plus"].tolist(), made["minus"].tolist()) == ([[4, 4]], [[-2, -2]])
    with pytest.raises(ValueError, match="the record has no array 'b'"):
        net({"a": a})
    with pytest.raises(
        ValueError, match=r"input b got an array of float64 .*: it takes Tensor\(float32, \?x2\)"
    ):
        net(a, b.astype(np.float64))
    batched = open_model(opened(tmp_path, "two.onnx", 3), str(tmp_path))
    wide: Array = np.arange(4, dtype=np.float32).reshape(2, 2)
    first, second = batched([{"a": a, "b": b}, {"a": wide, "b": wide}])
    assert first["minus"].tolist() == [[-2, -2]]
    assert second["plus"].tolist() == [[0, 2], [4, 6]]


def test_a_batch_needs_as_many_rows_out_as_in(tmp_path: Path) -> None:
    x, y = NetValue("x", ("n", 2)), NetValue("y", ("m", 1))
    node = NetNode("Shape", ("x",), ("s",))
    cast = NetNode("Cast", ("s",), ("c",), {"to": 1})
    flat = NetNode("Unsqueeze", ("c", "axis"), ("y",))
    axis = Weight("axis", (1,), "int64", (1,))
    write(NetGraph("rows", (x,), (y,), (node, cast, flat), (axis,)), str(tmp_path / "m.onnx"))
    net = open_model(opened(tmp_path, "m.onnx", 3), str(tmp_path))
    with pytest.raises(ValueError, match="y has 2 rows for a batch with 3: remove batch"):
        net([np.zeros((1, 2), np.float32)] * 3)


def test_images_are_prepared_as_the_page_says() -> None:
    image: Array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    options = {"scale": "1/255", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.1, 0.3], "layout": "nchw"}
    preparation = ImagePreparation.of(options, "float32")
    assert preparation is not None
    made = preparation.apply(image)
    assert (made.shape, made.dtype.name, made.flags.c_contiguous) == ((1, 3, 2, 4), "float32", True)
    wanted = (image / 255 - np.array([0.5, 0.4, 0.3])) / np.array([0.2, 0.1, 0.3])
    assert made[0].transpose(1, 2, 0) == pytest.approx(wanted, abs=1e-5)
    nhwc = ImagePreparation.of({"layout": "nhwc"}, "float16")
    assert nhwc is not None
    assert nhwc.apply(image).tolist() == image[np.newaxis].tolist()
    assert ImagePreparation.of({"providers": ["cpu"]}, "float32") is None
    assert [parse_scale(each) for each in ("1/4", 2, "1/0", "2/3", -1, True)] == [0.25, 2.0] + [None] * 4


def test_resized_images_keep_their_corners_and_their_mean() -> None:
    ramp: Array = np.arange(8, dtype=np.uint8).reshape(1, 8, 1).repeat(3, 0)
    assert resize_image(ramp, (3, 4), "bilinear")[0, :, 0].tolist() == [0.5, 2.5, 4.5, 6.5]
    assert resize_image(ramp, (1, 16), "bilinear")[0, :3, 0].tolist() == [0.0, 0.25, 0.75]
    assert resize_image(ramp, (3, 4), "nearest")[0, :, 0].tolist() == [1, 3, 5, 7]
    assert resize_image(ramp, (3, 8), "nearest") is ramp
    assert resize_image(ramp, (6, 16), "bilinear").mean() == pytest.approx(ramp.mean())

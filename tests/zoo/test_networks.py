"""The known networks are the published ones: their work and weights agree with published counts."""

from pathlib import Path

import pytest

from fairlead.analyze import analyze
from fairlead.workload import Profile
from fairlead.zoo import BUILDERS, KNOWN, PACK
from fairlead.zoo.onnxfile import write

PUBLISHED = {
    # model: giga multiply-adds, million parameters; their source
    "mobilenet_v1": (0.569, 4.24),  # TF-Slim's table of MobileNets
    "mobilenet_v2": (0.301, 3.504872),  # torchvision, `_ops` and `num_params` of its weights
    "resnet18": (1.814, 11.689512),  # torchvision
    "resnet50": (4.089, 25.557032),  # torchvision
    "inception_v3": (5.713, 23.83),  # torchvision; parameters without the auxiliary output: timm
    "ssd_mobilenet_v1": (2.494 / 2, 6.807),  # OpenVINO's Open Model Zoo, ssd_mobilenet_v1_coco
    "efficientnet_b0": (0.386, 5.288548),  # torchvision
    "vit_tiny": (1.26, 5.72),  # timm, deit_tiny_patch16_224
}


def profile(name: str, folder: Path, batch: int = 1) -> Profile:
    file = str(folder / f"{name}.onnx")
    write(BUILDERS[name](batch, "fp32"), file)
    return analyze(file)


@pytest.mark.parametrize("name", KNOWN)
def test_work_and_weights_are_the_published_ones(name: str, tmp_path: Path) -> None:
    result = profile(name, tmp_path)
    gmacs, mparams = PUBLISHED[name]
    assert result.macs / 1e9 == pytest.approx(gmacs, rel=0.01)
    assert result.params / 1e6 == pytest.approx(mparams, rel=0.01)
    assert result.exact
    assert "onnxruntime" not in result.unsupported


@pytest.mark.parametrize("name", ["mobilenet_v2", "vit_tiny", "branches"])
def test_work_is_proportional_to_the_batch(name: str, tmp_path: Path) -> None:
    assert profile(name, tmp_path, 4).macs == 4 * profile(name, tmp_path).macs


def test_the_pack_has_every_kind_of_work_and_is_small(tmp_path: Path) -> None:
    profiles = [profile(name, tmp_path) for name in PACK]
    kinds = {operator.kind for each in profiles for operator in each.operators}
    assert {"conv", "depthwise", "matmul", "attention", "elementwise", "activation", "norm"} <= kinds
    assert {"pool", "move", "resize"} <= kinds
    assert max(each.macs for each in profiles) < 1.5e9
    assert sum(each.weight_bytes for each in profiles) < 150e6


def test_the_pack_has_no_known_network_and_no_duplicate(tmp_path: Path) -> None:
    assert not set(KNOWN) & set(PACK)
    assert len({profile(name, tmp_path).digest for name in PACK}) == len(PACK)


@pytest.mark.parametrize("name", BUILDERS)
def test_values_stay_finite_and_have_the_declared_shapes(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    numpy = pytest.importorskip("numpy")
    graph = BUILDERS[name](1, "fp32")
    write(graph, str(tmp_path / "model.onnx"))
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    noise = numpy.random.default_rng(1)
    inputs = {value.name: noise.standard_normal(value.shape, numpy.float32) for value in graph.inputs}
    outputs = session.run([value.name for value in graph.outputs], inputs)
    assert [output.shape for output in outputs] == [value.shape for value in graph.outputs]
    assert all(numpy.isfinite(output).all() and output.std() > 0 for output in outputs)

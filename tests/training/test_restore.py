"""Norms that exporters fold away are put back, and only those."""

from pathlib import Path

import pytest

from fairlead.training.layers import training_layers
from fairlead.training.memory import peak_memory
from fairlead.training.setup import TrainingSetup
from fairlead.zoo.build import Net
from fairlead.zoo.graph import NetGraph
from tests.analyze.test_tflite import one
from tests.analyze.test_tflite import profile as tflite_profile
from tests.training.networks import layers_of


def residual(*, folded: bool) -> NetGraph:
    """Return a residual block, its norms folded into biases or not."""
    net = Net(f"residual{folded}")
    x = net.act(net.conv(net.input(1, 8, 16, 16), 8, 3, bias=True), "relu")
    if folded:
        y = net.conv(net.act(net.conv(x, 8, 3, bias=True), "relu"), 8, 3, bias=True)
    else:
        x = net.act(net.norm(net.conv(net.input(1, 8, 16, 16), 8, 3)), "relu")
        y = net.norm(net.conv(net.act(net.norm(net.conv(x, 8, 3)), "relu"), 8, 3))
    return net.graph(net.linear(net.mean(net.act(net.add(x, y), "relu")), 10))


def test_a_residual_network_without_norms_has_lost_them(tmp_path: Path) -> None:
    folded = layers_of(residual(folded=True), str(tmp_path))
    assert folded.norms_restored == 3
    assert sum(layer.kind == "norm" for layer in folded.layers) == 3


def test_a_plain_network_without_norms_never_had_them(tmp_path: Path) -> None:
    net = Net("plain")
    x = net.input(1, 8, 16, 16)
    for _ in range(3):
        x = net.act(net.conv(x, 8, 3, bias=True), "relu")
    assert layers_of(net.graph(net.linear(net.mean(x), 10)), str(tmp_path)).norms_restored == 0


def test_a_file_with_its_norms_gets_no_more(tmp_path: Path) -> None:
    net = Net("whole")
    x = net.unit(net.input(1, 8, 16, 16), 8, 3)
    y = net.add(x, net.norm(net.conv(x, 8, 3)))
    assert layers_of(net.graph(net.linear(net.mean(y), 10)), str(tmp_path)).norms_restored == 0


def test_a_restored_network_takes_the_memory_of_the_whole_one(tmp_path: Path) -> None:
    sizes = []
    for folded in (True, False):
        net = Net(f"chain{folded}")
        x = net.input(1, 8, 16, 16)
        for _ in range(3):
            y = net.conv(x, 8, 3, groups=8, bias=folded)
            x = net.act(y if folded else net.norm(y), "relu")
        layers = layers_of(net.graph(net.linear(net.mean(x), 10)), str(tmp_path))
        sizes.append(peak_memory(layers, TrainingSetup(32), 1))
    assert sizes[0].peak == pytest.approx(sizes[1].peak, rel=0.01)
    assert sizes[0].activations == sizes[1].activations


def test_an_activation_that_tflite_fuses_is_kept_on_its_own(tmp_path: Path) -> None:
    kept = []
    for number, name in ((0, ""), (1, "RELU"), (3, "RELU6")):
        inside = one("DEPTHWISE_CONV_2D", [(1, 8, 8, 6), (1, 3, 3, 6)], (1, 8, 8, 6), f4=number)
        layers = training_layers(tflite_profile(tmp_path, inside).flow)
        assert [layer.op for layer in layers.layers][1:] == ([name] if name else [])
        kept.append(peak_memory(layers, TrainingSetup(1), 1).activations)
    value = 4 * 8 * 8 * 6
    assert kept[1] - kept[0] == kept[2] - kept[0] == value


def test_a_quantised_model_is_trained_as_the_one_it_was_made_from(tmp_path: Path) -> None:
    wide, narrow = (
        training_layers(
            tflite_profile(
                tmp_path, one("CONV_2D", [(1, 8, 8, 3), (5, 3, 3, 3), (5,)], (1, 6, 6, 5), dtype)
            ).flow
        )
        for dtype in ("fp32", "int8")
    )
    assert peak_memory(wide, TrainingSetup(4), 1) == peak_memory(narrow, TrainingSetup(4), 1)

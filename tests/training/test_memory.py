"""What training keeps, held against the count of PyTorch's allocator (an H200, PyTorch 2.11) and by hand."""

from pathlib import Path

import pytest

from fairlead.training.layers import training_layers
from fairlead.training.memory import peak_memory
from fairlead.training.setup import TrainingSetup
from fairlead.zoo import KNOWN
from fairlead.zoo.build import Net
from tests.estimate.networks import network
from tests.training.networks import layers_of, units

HELD = 66 << 20
"""Workspaces of cuBLAS on that machine, which its allocator counts."""
MEASURED = (
    ("resnet18", 64, "fp32", "sgd", 1387.3e6, 1637.7e6),
    ("resnet18", 64, "amp", "adam", 790.7e6, 1060.7e6),
    ("resnet50", 64, "fp32", "sgd", 5483.2e6, 5853.7e6),
    ("resnet50", 64, "amp", "sgd", 2871.2e6, 3214.4e6),
    ("resnet50", 64, "amp", "adam", 2872.3e6, 3318.2e6),
    ("mobilenet_v2", 64, "fp32", "sgd", 4988.9e6, 5160.9e6),
    ("mobilenet_v2", 64, "amp", "adam", 2538.9e6, 2789.4e6),
)
"""Network, batch, precision, optimiser; bytes kept after the forward pass, and the peak of a step."""


@pytest.mark.parametrize(("name", "batch", "precision", "optimizer", "kept", "peak"), MEASURED)
def test_memory_is_what_the_allocator_counts(
    name: str, batch: int, precision: str, optimizer: str, kept: float, peak: float
) -> None:
    layers = training_layers(network(name).flow)
    memory = peak_memory(layers, TrainingSetup(batch, optimizer, precision), 1)
    inputs = batch * 3 * 224 * 224 * 4
    assert memory.activations - inputs == pytest.approx(kept, rel=0.02)
    assert memory.peak + HELD == pytest.approx(peak, rel=0.05)


def test_relu_keeps_one_value_and_silu_two(tmp_path: Path) -> None:
    kept = {}
    for act in ("relu", "silu", "gelu"):
        net = Net(act)
        x = units(net, net.input(1, 3, 32, 32), norm=False, act=act)
        layers = layers_of(net.graph(net.linear(net.mean(x), 10)), str(tmp_path))
        kept[act] = peak_memory(layers, TrainingSetup(1), 1).activations
    value = 4 * 64 * 32 * 32
    inputs, small = 4 * 3 * 32 * 32, 4 * (64 + 10)
    assert kept["relu"] == pytest.approx(2 * value + inputs, abs=2 * small) or kept["relu"] < 3 * value
    assert kept["silu"] - kept["relu"] in range(value, 2 * value + 1)
    assert kept["gelu"] == kept["silu"], "a written-out GELU keeps its input alone"


def test_a_norm_keeps_its_input(tmp_path: Path) -> None:
    sizes = []
    for norm in (False, True):
        net = Net(f"norm{norm}")
        x = units(net, net.input(1, 3, 32, 32), norm=norm)
        layers = layers_of(net.graph(net.linear(net.mean(x), 10)), str(tmp_path))
        sizes.append(peak_memory(layers, TrainingSetup(1), 1).activations)
    assert sizes[1] - sizes[0] == 2 * 4 * 64 * 32 * 32


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 1), ("sgd-plain", 0), ("adam", 2), ("adamw", 2)])
def test_an_optimizer_holds_its_states(optimizer: str, states: int) -> None:
    layers = training_layers(network("resnet18").flow)
    memory = peak_memory(layers, TrainingSetup(1, optimizer), 1)
    assert memory.optimizer == states * memory.weights == states * 4 * layers.weights


def test_half_of_everything_in_bf16() -> None:
    layers = training_layers(network("resnet18").flow)
    wide, narrow = (peak_memory(layers, TrainingSetup(8, "adam", kind), 1) for kind in ("fp32", "bf16"))
    assert narrow.weights * 2 == wide.weights
    assert narrow.peak == pytest.approx(wide.peak / 2, rel=0.1)


def test_checkpointing_keeps_less_and_weights_stay() -> None:
    layers = training_layers(network("resnet50").flow)
    plain, less = (peak_memory(layers, TrainingSetup(64, checkpointing=again), 1) for again in (False, True))
    assert less.weights == plain.weights
    assert less.activations < 0.5 * plain.activations
    assert less.peak < 0.6 * plain.peak


def test_activations_grow_with_the_batch_and_weights_do_not() -> None:
    layers = training_layers(network("vit_tiny").flow)
    small, large = (peak_memory(layers, TrainingSetup(batch), 1) for batch in (8, 16))
    assert large.weights == small.weights
    assert large.activations == pytest.approx(2 * small.activations, rel=1e-3)


def test_every_known_network_has_weights_to_train() -> None:
    for name in KNOWN:
        profile = network(name)
        assert training_layers(profile.flow).weights == pytest.approx(profile.params, rel=0.01), name

"""Building models: shapes follow from the arguments."""

import pytest

from fairlead.zoo import BUILDERS
from fairlead.zoo.build import ACTIVATIONS, Net
from fairlead.zoo.fold import fold

WINDOWS = [  # height and width, kernel, stride, pad: height and width of the output
    ((224, 224), 3, 2, None, (112, 112)),
    ((224, 224), 7, 2, None, (112, 112)),
    ((299, 299), 3, 2, 0, (149, 149)),
    ((17, 17), (1, 7), 1, None, (17, 17)),
    ((17, 17), (7, 1), 1, None, (17, 17)),
    ((224, 224), 16, 16, 0, (14, 14)),
    ((75, 75), 3, 1, None, (75, 75)),
]


@pytest.mark.parametrize(("before", "kernel", "stride", "pad", "after"), WINDOWS)
def test_windows(
    before: tuple[int, int],
    kernel: int | tuple[int, int],
    stride: int,
    pad: int | None,
    after: tuple[int, int],
) -> None:
    net = Net("test")
    out = net.conv(net.input(2, 8, *before), 16, kernel, stride, pad=pad)
    assert out.shape == (2, 16, *after)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_keep_the_shape(name: str) -> None:
    net = Net("test")
    assert net.act(net.input(1, 4, 3), name).shape == (1, 4, 3)


def test_rows_and_sequences_are_multiplied_as_exporters_write_it() -> None:
    net = Net("test")
    rows = net.linear(net.input(2, 8), 4)
    sequence = net.linear(net.input(2, 5, 8), 4)
    graph = net.graph(rows, sequence)
    assert (rows.shape, sequence.shape) == ((2, 4), (2, 5, 4))
    assert [node.op for node in graph.nodes] == ["Gemm", "MatMul", "Add"]


def test_a_graph_declares_every_inner_shape_once() -> None:
    net = Net("test")
    inner = net.unit(net.input(1, 3, 8, 8), 4, 3)
    graph = net.graph(net.mean(inner))
    names = [value.name for value in (*graph.inputs, *graph.values, *graph.outputs)]
    assert len(names) == len(set(names)) == 1 + len(graph.nodes)


@pytest.mark.parametrize("name", BUILDERS)
def test_folding_removes_norms_after_convolutions_and_unused_weights(name: str) -> None:
    whole = BUILDERS[name](1, "fp32")
    folded = fold(whole)
    assert not [node for node in folded.nodes if node.op == "BatchNormalization"]
    outputs = {node.outputs[0] for node in folded.nodes}
    weights = {weight.name for weight in folded.weights}
    inputs = {value.name for value in folded.inputs}
    read = {input_ for node in folded.nodes for input_ in node.inputs if input_}
    assert read <= outputs | weights | inputs
    assert weights <= read
    assert {value.name for value in folded.outputs} <= outputs

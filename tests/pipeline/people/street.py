"""A street without a camera: a white person walks down, a red vehicle drives up; a network finds both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.pipeline import Image, stage
from fairlead.zoo.graph import NetGraph, NetNode, NetValue, Weight
from fairlead.zoo.onnxfile import write

WIDTH, HEIGHT, FRAMES = 768, 576, 32
SCENE = {
    "image": [WIDTH, HEIGHT],
    "lines": {"street": [[0, 300], [768, 300]]},
    "zones": {"south": [[0, 400], [768, 400], [768, 580], [0, 580]]},
}
EXPECTED = {"street person right": 1, "street vehicle left": 1}
_SIDE = 92
"""Pixels of what moves: it covers more than half of one or two cells of the coarse grid."""


@stage(outputs=Image)
def images(start: int = 0) -> Iterator[Any]:
    """Yield the images, from the one with this number on."""
    for number in range(start, FRAMES):
        image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        down = 11 * number
        image[down : down + _SIDE, 338 : 338 + _SIDE] = 255
        image[400 - down : 400 - down + _SIDE, 102 : 102 + _SIDE, 0] = 255
        yield image


def write_detector(path: Path) -> None:
    """Write a network with the ports of NanoDet: bright cells of 32 pixels are people, red ones vehicles."""
    image = NetValue("input_1", (1, 3, 416, 416))
    nodes: list[NetNode] = []
    weights: list[Weight] = []
    outputs: list[NetValue] = []
    for kind, depth in (("scores", 80), ("sides", 44)):
        for stride in (8, 16, 32):
            name, side = f"{kind}{stride}", 416 // stride
            factors, bias = _head(kind, stride)
            window = {"kernel_shape": (stride, stride), "strides": (stride, stride)}
            weights += [
                Weight(f"{name}_w", (depth, 3, 1, 1), values=factors),
                Weight(f"{name}_b", (depth,), values=bias),
                Weight(f"{name}_d", (3,), "int64", (1, depth, side * side)),
            ]
            nodes += [
                NetNode("AveragePool", ("input_1",), (f"{name}_p",), window),
                NetNode("Conv", (f"{name}_p", f"{name}_w", f"{name}_b"), (f"{name}_c",)),
                NetNode("Sigmoid" if kind == "scores" else "Identity", (f"{name}_c",), (f"{name}_s",)),
                NetNode("Reshape", (f"{name}_s", f"{name}_d"), (f"{name}_r",)),
                NetNode("Transpose", (f"{name}_r",), (name,), {"perm": (0, 2, 1)}),
            ]
            outputs.append(NetValue(name, (1, side * side, depth)))
    path.parent.mkdir(exist_ok=True)
    write(NetGraph("tiny", (image,), tuple(outputs), tuple(nodes), tuple(weights)), str(path))


def _head(kind: str, stride: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return factors of blue, green and red and the bias of each channel; a side is 3 strides away."""
    if kind == "sides":
        return (0.0,) * 132, tuple(20.0 if channel % 11 == 3 else 0.0 for channel in range(44))
    factors = np.zeros((80, 3))
    bias = np.full(80, -20.0)
    if stride == 32:
        factors[0], bias[0] = (6, 0, 0), -2.5
        factors[2], bias[2] = (-6, 0, 6), -11.2
    return tuple(factors.ravel().tolist()), tuple(bias.tolist())

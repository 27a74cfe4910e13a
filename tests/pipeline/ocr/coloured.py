"""Pages whose letters are colours, and two networks with the ports of PP-OCR that find and read them."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.zoo.graph import NetGraph, NetNode, NetValue, Weight
from fairlead.zoo.onnxfile import write

COLOURS: Final = {"a": (255, 0, 0), "b": (0, 255, 0), "c": (0, 0, 255), "-": (128, 128, 128)}
"""The letters, and what is between two of them that are equal."""
CHARACTERS: Final = "a\nb\nc\n"
LETTER: Final = 24
"""Pixels that a letter is wide and tall."""
Array = np.ndarray[Any, Any]


def page(*lines: tuple[int, int, str], height: int = 240, width: int = 320) -> Array:
    """Return a black page with lines, each at a left and top pixel."""
    made = np.zeros((height, width, 3), np.uint8)
    for left, top, letters in lines:
        for number, letter in enumerate(letters):
            x = left + number * LETTER
            made[top : top + LETTER, x : x + LETTER] = COLOURS[letter]
    return made


def write_networks(folder: Path) -> None:
    """Write a detector, a recogniser and its characters under the names of the example."""
    folder.mkdir(exist_ok=True)
    write(_detector(), str(folder / "detect.onnx"))
    write(_recogniser(), str(folder / "recognise.onnx"))
    (folder / "characters.txt").write_text(CHARACTERS)


def _detector() -> NetGraph:
    """Return a network that finds every pixel that is not black, from values between -1 and 1."""
    return NetGraph(
        "detector",
        (NetValue("x", ("n", 3, "h", "w")),),
        (NetValue("probability", ("n", 1, "h", "w")),),
        (NetNode("Conv", ("x", "w", "b"), ("sum",)), NetNode("Sigmoid", ("sum",), ("probability",))),
        (Weight("w", (1, 3, 1, 1), values=(8.0,)), Weight("b", (1,), values=(16.0,))),
    )


def _recogniser() -> NetGraph:
    """Return a network that reads 8 columns at a time: nothing, red, green, blue or, never, a space."""
    factors = np.full((5, 3), 0.0)
    factors[1:4] = -10 + 20 * np.eye(3)[::-1]  # blue comes first
    bias = (0.0, -20.0, -20.0, -20.0, -99.0)
    window = {"kernel_shape": (1, 8), "strides": (1, 8)}
    return NetGraph(
        "recogniser",
        (NetValue("x", ("n", 3, 48, "w")),),
        (NetValue("probabilities", ("n", "steps", 5)),),
        (
            NetNode("MaxPool", ("x",), ("row",), {"kernel_shape": (48, 1)}),
            NetNode("AveragePool", ("row",), ("cells",), window),
            NetNode("Conv", ("cells", "w", "b"), ("tall",)),
            NetNode("Squeeze", ("tall", "axis"), ("flat",)),
            NetNode("Transpose", ("flat",), ("steps",), {"perm": (0, 2, 1)}),
            NetNode("Softmax", ("steps",), ("probabilities",), {"axis": 2}),
        ),
        (
            Weight("w", (5, 3, 1, 1), values=tuple(factors.ravel().tolist())),
            Weight("b", (5,), values=bias),
            Weight("axis", (1,), "int64", (2,)),
        ),
    )

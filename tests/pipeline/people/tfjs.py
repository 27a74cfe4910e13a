"""Graph models of TensorFlow.js that tests write, and what each operator makes, in NumPy."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


class GraphModel:
    """A model under construction; half of what a real one stores is in half precision."""

    def __init__(self, *dims: int) -> None:
        self.nodes: list[dict[str, Any]] = [{"name": "image", "op": "Placeholder"}]
        self.weights: dict[str, Array] = {}
        self.inputs = {"image:0": _port(dims)}
        self.outputs: dict[str, Any] = {}

    def const(self, name: str, value: Any, dtype: type = np.int32) -> str:
        """Add a weight."""
        self.weights[name] = np.asarray(value, dtype)
        self.nodes.append({"name": name, "op": "Const"})
        return name

    def op(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator."""
        self.nodes.append(
            {
                "name": name,
                "op": op,
                "input": list(inputs),
                "attr": {k: _attr(v) for k, v in attributes.items()},
            }
        )
        return name

    def output(self, name: str, *dims: int) -> None:
        """Add an output."""
        self.outputs[f"{name}:0"] = _port(dims)

    def write(self, folder: Path) -> Path:
        """Write model.json and model.bin; return the path of the first."""
        entries, content = [], b""
        for name, array in self.weights.items():
            kind = "float32" if array.dtype.kind == "f" else "int32"
            entry: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": kind}
            if kind == "float32":
                entry["quantization"] = {"dtype": "float16", "original_dtype": "float32"}
            entries.append(entry)
            content += array.astype("<f2" if kind == "float32" else "<i4").tobytes()
        document = {
            "signature": {"inputs": self.inputs, "outputs": self.outputs},
            "modelTopology": {"node": self.nodes[::-1]},  # files need not be in the order of the graph
            "weightsManifest": [{"paths": ["model.bin"], "weights": entries}],
        }
        (folder / "model.bin").write_bytes(content)
        (folder / "model.json").write_text(json.dumps(document))
        return folder / "model.json"

    def evaluate(self, image: Array) -> dict[str, Array]:
        """Return what TensorFlow makes of an image, by output."""
        values: dict[str, Array] = {**self.weights, "image": image}
        for node in self.nodes:
            if node["op"] not in ("Const", "Placeholder"):
                operands = [values[name] for name in node["input"]]
                results = REFERENCE[node["op"]](node["attr"], *operands)
                for index, result in enumerate(results if isinstance(results, list) else [results]):
                    values[f"{node['name']}:{index}" if index else node["name"]] = result
        return {name.partition(":")[0]: values[name.partition(":")[0]] for name in self.outputs}


def every_operator() -> GraphModel:
    """Return a model that has every operator that the converter knows, with axes that differ in size."""
    draw = np.random.default_rng(7)
    model = GraphModel(1, 3, 11, 15)
    to_last, to_first = model.const("last", [0, 2, 3, 1]), model.const("first", [0, 3, 1, 2])
    pads = model.const("pads", [[0, 0], [0, 0], [1, 2], [2, 1]])
    model.op("Pad", "padded", "image", pads)
    model.op("Transpose", "nhwc", "padded", to_last)
    model.const("kernel", draw.integers(-8, 8, (3, 2, 3, 5)) / 8, np.float32)
    model.op(
        "Conv2D", "conv", "nhwc", "kernel", strides=(1, 2, 1, 1), dilations=(1, 1, 1, 1), padding="VALID"
    )
    model.const("bias", np.arange(5) / 4 - 1, np.float32)
    model.op("Add", "biased", "conv", "bias")
    model.op("Transpose", "nchw", "biased", to_first)
    model.op("LeakyRelu", "leaky", "nchw", alpha=0.125)
    model.const("lowest", -np.inf, np.float32)
    model.op("PadV2", "low", "leaky", model.const("one", [[0, 0], [0, 0], [1, 1], [0, 1]]), "lowest")
    model.op("Transpose", "pool_in", "low", to_last)
    model.op("MaxPool", "pool", "pool_in", ksize=(1, 3, 2, 1), strides=(1, 2, 3, 1), padding="VALID")
    size = model.const("size", [6, 17])
    model.op("ResizeBilinear", "sized", "pool", size, half_pixel_centers=True, align_corners=False)
    model.op("Transpose", "back", "sized", to_first)
    model.op("AddV2", "sum", "back", "leaky")
    model.op("ConcatV2", "both", "sum", "leaky", model.const("axis", 1))
    model.op("SplitV", "parts", "both", model.const("sizes", [3, 7]), "axis")
    model.op("Sigmoid", "scores", "parts")
    where, shape = model.const("where", [[1]]), model.const("shape", [2])
    model.op("SparseToDense", "dense", where, shape, model.const("ones", [-3]), model.const("zero", 2))
    model.op("AddV2", "rows", "dense", model.const("some", [5, 2]))
    model.op("Reshape", "flat", "parts:1", "rows")
    model.op("Identity", "Identity", "scores")
    model.op("Identity", "Identity_1", "flat")
    model.output("Identity", 1, 3, 6, 17)
    model.output("Identity_1", 7, 102)
    return model


def _conv(attributes: Mapping[str, Any], image: Array, kernel: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape[:2], (1, 2))
    down, across = _numbers(attributes["strides"])[1:3]
    made: Array = np.einsum("nhwcij,ijco->nhwo", windows[:, ::down, ::across], kernel)
    return made


def _pool(attributes: Mapping[str, Any], image: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(image, _numbers(attributes["ksize"])[1:3], (1, 2))
    down, across = _numbers(attributes["strides"])[1:3]
    made: Array = windows[:, ::down, ::across].max((-1, -2))
    return made


def _resize(attributes: Mapping[str, Any], image: Array, size: Array) -> Array:
    for axis, after in zip((1, 2), size.tolist(), strict=True):
        before = image.shape[axis]
        places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
        low = np.floor(places).astype(int)
        share = (places - low).reshape([-1 if each == axis else 1 for each in range(4)])
        high = np.minimum(low + 1, before - 1)
        image = np.take(image, low, axis) * (1 - share) + np.take(image, high, axis) * share
    return image


def _dense(attributes: Mapping[str, Any], where: Array, shape: Array, values: Array, zero: Array) -> Array:
    dense = np.full(shape, zero)
    for place, value in zip(where.tolist(), values.tolist(), strict=True):
        dense[tuple(place)] = value
    return dense


REFERENCE: Final[dict[str, Callable[..., Array | list[Array]]]] = {
    "Add": lambda attributes, one, two: one + two,
    "AddV2": lambda attributes, one, two: one + two,
    "ConcatV2": lambda attributes, *values: np.concatenate(values[:-1], int(values[-1])),
    "Conv2D": _conv,
    "Identity": lambda attributes, value: value,
    "LeakyRelu": lambda attributes, value: np.where(value < 0, attributes["alpha"]["f"] * value, value),
    "MaxPool": _pool,
    "Pad": lambda attributes, value, pads: np.pad(value, pads.tolist()),
    "PadV2": lambda attributes, value, pads, fill: np.pad(value, pads.tolist(), constant_values=float(fill)),
    "Reshape": lambda attributes, value, shape: value.reshape(shape),
    "ResizeBilinear": _resize,
    "Sigmoid": lambda attributes, value: 1 / (1 + np.exp(-value)),
    "SparseToDense": _dense,
    "SplitV": lambda attributes, value, sizes, axis: np.split(value, np.cumsum(sizes)[:-1], int(axis)),
    "Transpose": lambda attributes, value, turn: value.transpose(turn),
}
"""Every operator as TensorFlow defines it."""


def _attr(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"b": value}
        case float():
            return {"f": value}
        case str():
            return {"s": base64.b64encode(value.encode()).decode()}
        case _:
            return {"list": {"i": [str(each) for each in value]}}


def _numbers(attribute: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(each) for each in attribute["list"]["i"])


def _port(dims: Sequence[int]) -> dict[str, Any]:
    return {"dtype": "DT_FLOAT", "tensorShape": {"dim": [{"size": str(dim)} for dim in dims]}}

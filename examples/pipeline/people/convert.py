"""Turn a graph model of TensorFlow.js into an ONNX file: python convert.py model.json model.onnx.

It knows the operators that NanoDet uses, and refuses others by name. TensorFlow convolves images with their
channels last, ONNX with their channels first, and exported graphs are full of transpositions between the two:
here a value remembers the order of its axes, so that a transposition becomes an operator only where the
order matters. Padding waits in the same way for the convolution that takes it.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.errors import UserError
from fairlead.zoo.graph import NetGraph, NetNode, NetValue, Weight
from fairlead.zoo.onnxfile import write

OPSET: Final = 18
"""The first one whose Resize takes the axes that it resizes."""
CHANNELS_LAST: Final = (0, 2, 3, 1)
"""The order of axes with which a value of TensorFlow's NHWC is NCHW in ONNX."""
_LOWEST: Final = -1e30
"""Padding below it never wins in a max-pool."""
_DTYPES: Final = {"float32": "<f4", "int32": "<i4"}
_HALF: Final = "float16"
_WHOLE: Final = "get all files of the model again"


@dataclass(frozen=True, slots=True)
class TfNode:
    """One operator of TensorFlow."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers."""
        return tuple(int(each) for each in self.attributes[name]["list"].get("i", ()))

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        attribute = self.attributes.get(name)
        return base64.b64decode(attribute["s"]).decode() if attribute else default

    def truth(self, name: str) -> bool:
        """Return a flag."""
        return bool(self.attributes.get(name, {}).get("b", False))


@dataclass(frozen=True, slots=True)
class Traced:
    """A value of TensorFlow that an ONNX value holds."""

    name: str
    order: tuple[int, ...]
    """Axis i of TensorFlow is axis order[i] of ONNX."""
    pads: tuple[tuple[int, int], ...] = ()
    """Padding that is not applied yet, for each axis of ONNX."""
    fill: float = 0.0

    @property
    def plain(self) -> tuple[int, ...]:
        """The order of a value that has the same axes in both."""
        return tuple(range(len(self.order)))


Operand = Traced | np.ndarray[Any, Any]


class Conversion:
    """An ONNX graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[NetNode] = []
        self.weights: list[Weight] = []

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output; return the name of the output."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(NetNode(op, inputs, (name,), attributes, name))
        return name

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        """Add a weight; return its name."""
        dtype = "fp32" if array.dtype.kind == "f" else "int64"
        name = f"w{len(self.weights)}"
        self.weights.append(Weight(name, array.shape, dtype, tuple(array.ravel().tolist())))
        return name

    def in_order(self, value: Traced, order: Sequence[int]) -> str:
        """Return the name of an ONNX value with this order of axes, and with all its padding."""
        return self.turned(self.padded(value), order).name

    def turned(self, value: Traced, order: Sequence[int]) -> Traced:
        """Return a value in another order of axes; its padding still waits."""
        turn = [0] * len(order)
        for before, after in zip(value.order, order, strict=True):
            turn[after] = before
        if tuple(turn) == value.plain:
            return value
        pads = tuple(value.pads[axis] for axis in turn) if value.pads else ()
        return Traced(self.op("Transpose", value.name, perm=tuple(turn)), tuple(order), pads, value.fill)

    def padded(self, value: Traced) -> Traced:
        """Return a value whose padding is applied."""
        if not value.pads:
            return value
        sizes = [pair[0] for pair in value.pads] + [pair[1] for pair in value.pads]
        fill = self.constant(np.asarray(value.fill, np.float32))
        name = self.op("Pad", value.name, self.constant(np.asarray(sizes, np.int64)), fill)
        return Traced(name, value.order)

    def window(self, value: Traced, node: TfNode) -> tuple[str, dict[str, Any]]:
        """Return an image with channels first for a convolution or a pool, and its strides and pads."""
        if node.text("data_format", "NHWC") != "NHWC" or node.text("padding") != "VALID":
            raise _refused(node, "only padding VALID and data_format NHWC are known")
        image = self.turned(value, CHANNELS_LAST)
        lowest = node.op == "MaxPool"
        if any(map(any, image.pads[:2])) or (image.pads and lowest != (image.fill < _LOWEST)):
            image = self.padded(image)
        (top, bottom), (left, right) = image.pads[2:] or ((0, 0), (0, 0))
        strides = node.integers("strides")[1:3]
        return image.name, {"strides": strides, "pads": (top, left, bottom, right)}


def _refused(node: TfNode, why: str) -> UserError:
    return UserError(
        f"{node.name}: {node.op} cannot be converted: {why}", "use a model as NanoDet is published"
    )


def _array(node: TfNode, value: Operand) -> np.ndarray[Any, Any]:
    if isinstance(value, Traced):
        raise _refused(node, "an input that must be constant depends on the image")
    return value


def _traced(node: TfNode, value: Operand) -> Traced:
    if isinstance(value, Traced):
        return value
    raise _refused(node, "its input is constant")


def _add(made: Conversion, node: TfNode, left: Operand, right: Operand) -> Operand:
    if not isinstance(left, Traced):
        left, right = right, left
    if not isinstance(left, Traced):
        return left + right
    first = made.padded(left)
    if isinstance(right, Traced):
        if len(right.order) != len(left.order):
            raise _refused(node, "its inputs have different ranks")
        return replace(first, name=made.op("Add", first.name, made.in_order(right, first.order)))
    wide = right.reshape((1,) * (len(first.order) - right.ndim) + right.shape)
    return replace(
        first, name=made.op("Add", first.name, made.constant(wide.transpose(np.argsort(first.order))))
    )


def _concat(made: Conversion, node: TfNode, *operands: Operand) -> Operand:
    first, *others = (_traced(node, value) for value in operands[:-1])
    axis = int(_array(node, operands[-1]))
    first = made.padded(first)
    names = [first.name, *(made.in_order(other, first.order) for other in others)]
    return replace(first, name=made.op("Concat", *names, axis=first.order[axis]))


def _conv(made: Conversion, node: TfNode, image: Operand, kernel: Operand) -> Operand:
    name, attributes = made.window(_traced(node, image), node)
    weights = _array(node, kernel).transpose(3, 2, 0, 1)
    dilations = node.integers("dilations")[1:3]
    name = made.op("Conv", name, made.constant(weights), dilations=dilations, **attributes)
    return Traced(name, CHANNELS_LAST)


def _identity(made: Conversion, node: TfNode, value: Operand) -> Operand:
    return value


def _leaky_relu(made: Conversion, node: TfNode, value: Operand) -> Operand:
    first = made.padded(_traced(node, value))
    slope = float(node.attributes["alpha"]["f"])
    return replace(first, name=made.op("LeakyRelu", first.name, alpha=slope))


def _max_pool(made: Conversion, node: TfNode, value: Operand) -> Operand:
    name, attributes = made.window(_traced(node, value), node)
    kernel = node.integers("ksize")[1:3]
    return Traced(made.op("MaxPool", name, kernel_shape=kernel, **attributes), CHANNELS_LAST)


def _pad(made: Conversion, node: TfNode, value: Operand, pads: Operand, *fill: Operand) -> Operand:
    first = made.padded(_traced(node, value))
    by_axis: list[tuple[int, int]] = [(0, 0)] * len(first.order)
    for axis, (before, after) in zip(first.order, _array(node, pads).tolist(), strict=True):
        by_axis[axis] = (int(before), int(after))
    return replace(first, pads=tuple(by_axis), fill=float(_array(node, fill[0])) if fill else 0.0)


def _reshape(made: Conversion, node: TfNode, value: Operand, shape: Operand) -> Operand:
    first = _traced(node, value)
    sizes = _array(node, shape).astype(np.int64)
    name = made.op("Reshape", made.in_order(first, first.plain), made.constant(sizes))
    return Traced(name, tuple(range(len(sizes))))


def _resize(made: Conversion, node: TfNode, value: Operand, size: Operand) -> Operand:
    if node.truth("align_corners") or not node.truth("half_pixel_centers"):
        raise _refused(node, "only half_pixel_centers without align_corners is known")
    name = made.in_order(_traced(node, value), CHANNELS_LAST)
    sizes = made.constant(_array(node, size).astype(np.int64))
    made_name = made.op(
        "Resize", name, "", "", sizes,
        mode="linear", coordinate_transformation_mode="half_pixel", axes=(2, 3),
    )  # fmt: skip
    return Traced(made_name, CHANNELS_LAST)


def _sigmoid(made: Conversion, node: TfNode, value: Operand) -> Operand:
    first = made.padded(_traced(node, value))
    return replace(first, name=made.op("Sigmoid", first.name))


def _sparse_to_dense(
    made: Conversion, node: TfNode, where: Operand, shape: Operand, values: Operand, default: Operand
) -> Operand:
    dense = np.full(_array(node, shape), _array(node, default))
    dense[tuple(_array(node, where).T)] = _array(node, values)
    return dense


def _split(made: Conversion, node: TfNode, value: Operand, sizes: Operand, axis: Operand) -> list[Operand]:
    first = made.padded(_traced(node, value))
    lengths = _array(node, sizes).astype(np.int64)
    names = tuple(f"split_{len(made.nodes)}_{index}" for index in range(len(lengths)))
    attributes = {"axis": first.order[int(_array(node, axis))]}
    made.nodes.append(NetNode("Split", (first.name, made.constant(lengths)), names, attributes, names[0]))
    return [replace(first, name=name) for name in names]


def _transpose(made: Conversion, node: TfNode, value: Operand, turn: Operand) -> Operand:
    first = _traced(node, value)
    return replace(first, order=tuple(first.order[int(axis)] for axis in _array(node, turn)))


OPERATORS: Final[dict[str, Callable[..., Operand | list[Operand]]]] = {
    "Add": _add,
    "AddV2": _add,
    "ConcatV2": _concat,
    "Conv2D": _conv,
    "Identity": _identity,
    "LeakyRelu": _leaky_relu,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "PadV2": _pad,
    "Reshape": _reshape,
    "ResizeBilinear": _resize,
    "Sigmoid": _sigmoid,
    "SparseToDense": _sparse_to_dense,
    "SplitV": _split,
    "Transpose": _transpose,
}
"""By TensorFlow's name; Placeholder and Const are inputs and weights."""


def read_weights(document: Mapping[str, Any], folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights of a model by name; half precision becomes single precision."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for group in document["weightsManifest"]:
        content = b"".join((folder / path).read_bytes() for path in group["paths"])
        kinds = [_stored_kind(entry) for entry in group["weights"]]
        counts = [int(np.prod(entry["shape"], dtype=np.int64)) for entry in group["weights"]]
        total = sum(kind.itemsize * count for kind, count in zip(kinds, counts, strict=True))
        if total != len(content):
            raise UserError(f"{group['paths'][0]} has {len(content)} bytes, its weights {total}", _WHOLE)
        place = 0
        for entry, kind, count in zip(group["weights"], kinds, counts, strict=True):
            array = np.frombuffer(content, kind, count, place).reshape(entry["shape"])
            arrays[entry["name"]] = array.astype(_DTYPES[entry["dtype"]])
            place += count * kind.itemsize
    return arrays


def _stored_kind(entry: Mapping[str, Any]) -> np.dtype[Any]:
    stored = entry.get("quantization", {}).get("dtype", entry["dtype"])
    if entry["dtype"] not in _DTYPES or stored not in (entry["dtype"], _HALF):
        raise UserError(
            f"weight {entry['name']} is {entry['dtype']} stored as {stored}",
            f"known: {', '.join(_DTYPES)}, and {_HALF} for float32",
        )
    return np.dtype("<f2" if stored == _HALF else _DTYPES[entry["dtype"]])


def convert(document: Mapping[str, Any], folder: Path) -> NetGraph:
    """Return a model of TensorFlow.js as an ONNX graph; UserError names what it does not know."""
    nodes = {
        node["name"]: TfNode(node["name"], node["op"], tuple(node.get("input", ())), node.get("attr", {}))
        for node in document["modelTopology"]["node"]
    }
    unknown = sorted({node.op for node in nodes.values()} - {*OPERATORS, "Const", "Placeholder"})
    if unknown:
        raise UserError(f"operators are not known: {', '.join(unknown)}", f"known: {', '.join(OPERATORS)}")
    made = Conversion()
    values: dict[str, Operand] = {**read_weights(document, folder)}
    inputs = []
    for name, port in document["signature"]["inputs"].items():
        dims = _dims(port)
        inputs.append(NetValue(name.partition(":")[0], dims))
        values[inputs[-1].name] = Traced(inputs[-1].name, tuple(range(len(dims))))
    sorter = TopologicalSorter(
        {name: [_node_of(each) for each in node.inputs] for name, node in nodes.items()}
    )
    for name in sorter.static_order():
        node = nodes[name]
        if name not in values:
            operands = [values[each.removesuffix(":0")] for each in node.inputs]
            results = OPERATORS[node.op](made, node, *operands)
            for index, result in enumerate(results if isinstance(results, list) else [results]):
                values[f"{name}:{index}" if index else name] = result
    outputs = []
    for name, port in sorted(document["signature"]["outputs"].items()):
        outputs.append(NetValue(name.partition(":")[0], _dims(port)))
        end = _traced(nodes[outputs[-1].name], values[name.removesuffix(":0")])
        made.nodes.append(NetNode("Identity", (made.in_order(end, end.plain),), (outputs[-1].name,)))
    return NetGraph("converted", tuple(inputs), tuple(outputs), tuple(made.nodes), tuple(made.weights))


def _node_of(reference: str) -> str:
    return reference.partition(":")[0]


def _dims(port: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(dim["size"]) for dim in port["tensorShape"]["dim"])


def main(words: Sequence[str]) -> int:
    """Convert a file; return the exit code."""
    if len(words) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    source, target = map(Path, words)
    try:
        graph = convert(json.loads(source.read_bytes()), source.parent)
    except UserError as error:
        sys.stderr.write(f"convert.py: {source}: {error}\n")
        return 2
    write(graph, str(target), opset=OPSET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

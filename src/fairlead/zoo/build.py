"""Build a model operator by operator: every value has its shape from the start."""

from collections.abc import Sequence
from math import prod, sqrt
from typing import TypeAlias

from fairlead.zoo.graph import Attribute, NetGraph, NetNode, NetValue, Weight

Pair: TypeAlias = int | tuple[int, int]


class Net:
    """A model under construction; the result of a method is an argument of the next."""

    def __init__(self, name: str, dtype: str = "fp32") -> None:
        self.name = name
        self.dtype = dtype
        self._inputs: list[NetValue] = []
        self._nodes: list[NetNode] = []
        self._weights: list[Weight] = []
        self._values: list[NetValue] = []

    def input(self, *dims: int, dtype: str = "") -> NetValue:
        """Add an input."""
        value = NetValue(f"input{len(self._inputs) or ''}", dims, dtype or self.dtype)
        self._inputs.append(value)
        return value

    def graph(self, *outputs: NetValue) -> NetGraph:
        """Return the finished model."""
        ends = {value.name for value in outputs}
        inside = tuple(value for value in self._values if value.name not in ends)
        return NetGraph(
            self.name, tuple(self._inputs), outputs, tuple(self._nodes), tuple(self._weights), inside
        )

    def op(
        self, op: str, dims: Sequence[int], *inputs: NetValue | Weight, **attributes: Attribute
    ) -> NetValue:
        """Add an operator with one output."""
        name = f"{op.lower()}_{len(self._nodes)}"
        value = NetValue(name, tuple(dims), self.dtype)
        self._nodes.append(NetNode(op, tuple(item.name for item in inputs), (name,), attributes, name))
        self._values.append(value)
        return value

    def noise(self, *dims: int, deviation: float) -> Weight:
        """Add a weight filled with noise."""
        return self._add(Weight(self._next(), dims, self.dtype, deviation=deviation))

    def constant(self, *dims: int, value: float) -> Weight:
        """Add a weight filled with one value."""
        return self._add(Weight(self._next(), dims, self.dtype, (value,)))

    def integers(self, *values: int) -> Weight:
        """Add a list of integers: a shape, axes, indices."""
        return self._add(Weight(self._next(), (len(values),), "int64", values))

    def index(self, value: int) -> Weight:
        """Add one integer, such as an index to gather."""
        return self._add(Weight(self._next(), (), "int64", (value,)))

    def conv(
        self,
        x: NetValue,
        out: int,
        kernel: Pair = 1,
        stride: int = 1,
        *,
        pad: Pair | None = None,
        groups: int = 1,
        bias: bool = False,
    ) -> NetValue:
        """Convolve; without `pad` the padding keeps the size."""
        batch, channels, height, width = x.shape
        tall, wide = _pair(kernel)
        top, left = (tall // 2, wide // 2) if pad is None else _pair(pad)
        deviation = sqrt(2 * groups / (channels * tall * wide))
        weights = [self.noise(out, channels // groups, tall, wide, deviation=deviation)]
        weights += [self.constant(out, value=0.0)] if bias else []
        return self.op(
            "Conv",
            (batch, out, _steps(height, top, tall, stride), _steps(width, left, wide, stride)),
            x,
            *weights,
            kernel_shape=(tall, wide),
            strides=(stride, stride),
            pads=(top, left, top, left),
            group=groups,
        )

    def norm(self, x: NetValue) -> NetValue:
        """Normalise by the statistics of training, which runtimes fold into the preceding convolution."""
        weights = [self.constant(x.shape[1], value=value) for value in (1.0, 0.0, 0.0, 1.0)]
        return self.op("BatchNormalization", x.shape, x, *weights, epsilon=1e-5)

    def layer_norm(self, x: NetValue) -> NetValue:
        """Normalise the last axis."""
        weights = [self.constant(x.shape[-1], value=value) for value in (1.0, 0.0)]
        return self.op("LayerNormalization", x.shape, x, *weights, axis=-1, epsilon=1e-6)

    def act(self, x: NetValue, name: str) -> NetValue:
        """Activate: `relu`, `relu6`, `silu`, `sigmoid` or `gelu`, each as exporters write it."""
        return ACTIVATIONS[name](self, x)

    def add(self, left: NetValue, right: NetValue | Weight) -> NetValue:
        """Add two values."""
        return self.op("Add", left.shape, left, right)

    def mul(self, left: NetValue, right: NetValue | Weight) -> NetValue:
        """Multiply two values; the second may be broadcast."""
        return self.op("Mul", left.shape, left, right)

    def concat(self, *parts: NetValue, axis: int = 1) -> NetValue:
        """Concatenate values along an axis."""
        dims = list(parts[0].shape)
        dims[axis] = sum(part.shape[axis] for part in parts)
        return self.op("Concat", dims, *parts, axis=axis)

    def pool(self, x: NetValue, kernel: int, stride: int, pad: int = 0, *, kind: str = "Max") -> NetValue:
        """Take the largest, or with `Average` the mean, of each window."""
        batch, channels, height, width = x.shape
        dims = (batch, channels, _steps(height, pad, kernel, stride), _steps(width, pad, kernel, stride))
        return self.op(
            f"{kind}Pool", dims, x, kernel_shape=(kernel, kernel), strides=(stride, stride), pads=(pad,) * 4
        )

    def mean(self, x: NetValue) -> NetValue:
        """Return a row with the mean of each channel."""
        return self.flat(self.op("GlobalAveragePool", (*x.shape[:2], 1, 1), x))

    def flat(self, x: NetValue) -> NetValue:
        """Flatten all axes but the first."""
        return self.op("Flatten", (x.shape[0], prod(x.shape[1:])), x, axis=1)

    def linear(self, x: NetValue, out: int) -> NetValue:
        """Multiply rows by a matrix and add a bias, as exporters write it for rows and for sequences."""
        wide = x.shape[-1]
        deviation = sqrt(1 / wide)
        if len(x.shape) == 2:
            weights = self.noise(out, wide, deviation=deviation), self.constant(out, value=0.0)
            return self.op("Gemm", (x.shape[0], out), x, *weights, transB=1)
        product = self.op("MatMul", (*x.shape[:-1], out), x, self.noise(wide, out, deviation=deviation))
        return self.add(product, self.constant(out, value=0.0))

    def matmul(self, left: NetValue, right: NetValue) -> NetValue:
        """Multiply matrices of activations."""
        return self.op("MatMul", (*left.shape[:-1], right.shape[-1]), left, right)

    def softmax(self, x: NetValue, axis: int = -1) -> NetValue:
        """Turn scores into probabilities."""
        return self.op("Softmax", x.shape, x, axis=axis)

    def reshape(self, x: NetValue, *dims: int) -> NetValue:
        """Give a value other dimensions."""
        return self.op("Reshape", dims, x, self.integers(*dims))

    def transpose(self, x: NetValue, *order: int) -> NetValue:
        """Reorder the axes."""
        return self.op("Transpose", [x.shape[axis] for axis in order], x, perm=order)

    def upsample(self, x: NetValue, factor: int) -> NetValue:
        """Repeat every point of an image."""
        batch, channels, height, width = x.shape
        scales = self._add(Weight(self._next(), (4,), "fp32", (1, 1, factor, factor)))
        return self.op(
            "Resize",
            (batch, channels, height * factor, width * factor),
            *(x, NetValue("", ()), scales),
            coordinate_transformation_mode="asymmetric",
            mode="nearest",
            nearest_mode="floor",
        )

    def unit(
        self, x: NetValue, out: int, kernel: Pair = 1, stride: int = 1, *, groups: int = 1, act: str = "relu"
    ) -> NetValue:
        """Convolve, normalise and activate: the usual unit of a convolutional network."""
        return self.act(self.norm(self.conv(x, out, kernel, stride, groups=groups)), act)

    def _next(self) -> str:
        return f"w{len(self._weights)}"

    def _add(self, weight: Weight) -> Weight:
        self._weights.append(weight)
        return weight


def _identity(_: Net, x: NetValue) -> NetValue:
    return x


def _relu(net: Net, x: NetValue) -> NetValue:
    return net.op("Relu", x.shape, x)


def _relu6(net: Net, x: NetValue) -> NetValue:
    return net.op("Clip", x.shape, x, net.constant(value=0.0), net.constant(value=6.0))


def _sigmoid(net: Net, x: NetValue) -> NetValue:
    return net.op("Sigmoid", x.shape, x)


def _silu(net: Net, x: NetValue) -> NetValue:
    return net.mul(x, _sigmoid(net, x))


def _gelu(net: Net, x: NetValue) -> NetValue:
    inner = net.op("Erf", x.shape, net.op("Div", x.shape, x, net.constant(value=sqrt(2))))
    return net.mul(net.mul(x, net.add(inner, net.constant(value=1.0))), net.constant(value=0.5))


ACTIVATIONS = {
    "": _identity,
    "relu": _relu,
    "relu6": _relu6,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
}


def _pair(size: Pair) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _steps(size: int, pad: int, kernel: int, stride: int) -> int:
    return (size + 2 * pad - kernel) // stride + 1

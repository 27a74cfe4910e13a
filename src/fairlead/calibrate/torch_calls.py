"""Compile a graph of the zoo into a list of PyTorch calls, for all operators of the zoo."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from fairlead.zoo.graph import NetGraph, NetNode

Function: TypeAlias = Callable[..., Any]
Constants: TypeAlias = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One call of a PyTorch function."""

    function: Function
    inputs: tuple[str, ...]
    output: str
    last: tuple[str, ...]
    """Values that no later call reads."""


def compile_calls(torch: Any, graph: NetGraph) -> list[TorchCall]:
    """Return the calls that run a graph."""
    known = {weight.name: weight.values or () for weight in graph.weights}
    unread = {node.outputs[0] for node in graph.nodes} - {value.name for value in graph.outputs}
    calls: list[TorchCall] = []
    for node in reversed(graph.nodes):
        last = tuple(name for name in dict.fromkeys(node.inputs) if name in unread)
        unread.difference_update(last)
        calls.append(TorchCall(OPERATORS[node.op](torch, node, known), node.inputs, node.outputs[0], last))
    return calls[::-1]


def _list(node: NetNode, name: str) -> list[int]:
    items = node.attributes[name]
    assert isinstance(items, tuple)
    return [int(item) for item in items]


def _conv(torch: Any, node: NetNode, _: Constants) -> Function:
    convolve, pads = torch.nn.functional.conv2d, _list(node, "pads")
    settings = {"stride": _list(node, "strides"), "padding": pads[:2], "groups": node.attributes["group"]}
    return lambda x, weight, bias=None: convolve(x, weight, bias, **settings)


def _pool(name: str, torch: Any, node: NetNode, _: Constants) -> Function:
    pool = getattr(torch.nn.functional, name)
    window, strides, pads = _list(node, "kernel_shape"), _list(node, "strides"), _list(node, "pads")[:2]
    more = {"count_include_pad": False} if name == "avg_pool2d" else {}
    return lambda x: pool(x, window, strides, pads, **more)


def _batch_norm(torch: Any, node: NetNode, _: Constants) -> Function:
    norm, epsilon = torch.nn.functional.batch_norm, node.attributes["epsilon"]
    return lambda x, scale, shift, mean, spread: norm(x, mean, spread, scale, shift, eps=epsilon)


def _layer_norm(torch: Any, node: NetNode, _: Constants) -> Function:
    norm, epsilon = torch.nn.functional.layer_norm, node.attributes["epsilon"]
    return lambda x, scale, shift: norm(x, scale.shape, scale, shift, epsilon)


def _clip(_: Any, node: NetNode, known: Constants) -> Function:
    low, high = (known[name][0] for name in node.inputs[1:])
    return lambda x, *_: x.clamp(low, high)


def _resize(torch: Any, node: NetNode, known: Constants) -> Function:
    factor = known[node.inputs[2]][2]
    return lambda x, *_: torch.nn.functional.interpolate(x, scale_factor=factor)


def _gather(_: Any, node: NetNode, known: Constants) -> Function:
    axis, place = node.attributes["axis"], int(known[node.inputs[1]][0])
    return lambda x, *_: x.select(axis, place)


def _shaped(method: str, _: Any, node: NetNode, known: Constants) -> Function:
    dims = [int(dim) for dim in known[node.inputs[1]]]
    return lambda x, *_: getattr(x, method)(dims)


def _concat(torch: Any, node: NetNode, _: Constants) -> Function:
    axis = node.attributes["axis"]
    return lambda *parts: torch.cat(parts, axis)


def _transpose(_: Any, node: NetNode, __: Constants) -> Function:
    order = _list(node, "perm")
    return lambda x: x.permute(order)


def _softmax(torch: Any, node: NetNode, _: Constants) -> Function:
    return partial(torch.softmax, dim=node.attributes["axis"])


def _plain(name: str, torch: Any, *_: object) -> Function:
    function: Function = getattr(torch, name)
    return function


OPERATORS: Final[dict[str, Callable[[Any, NetNode, Constants], Function]]] = {
    "Add": partial(_plain, "add"),
    "AveragePool": partial(_pool, "avg_pool2d"),
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Div": partial(_plain, "div"),
    "Erf": partial(_plain, "erf"),
    "Expand": partial(_shaped, "expand"),
    "Flatten": lambda *_: lambda x: x.flatten(1),
    "Gather": _gather,
    "Gemm": lambda torch, *_: torch.nn.functional.linear,
    "GlobalAveragePool": lambda *_: lambda x: x.mean((2, 3), keepdim=True),
    "LayerNormalization": _layer_norm,
    "MatMul": partial(_plain, "matmul"),
    "MaxPool": partial(_pool, "max_pool2d"),
    "Mul": partial(_plain, "mul"),
    "Relu": partial(_plain, "relu"),
    "Reshape": partial(_shaped, "reshape"),
    "Resize": _resize,
    "Sigmoid": partial(_plain, "sigmoid"),
    "Softmax": _softmax,
    "Transpose": _transpose,
}

"""Tiny models for the analyser: a few nodes, written as real files with the zoo's writer."""

from collections.abc import Sequence
from pathlib import Path

from fairlead.analyze import analyze
from fairlead.workload import Operator, Profile
from fairlead.zoo.graph import Attribute, Dims, NetGraph, NetNode, NetValue, Weight
from fairlead.zoo.onnxfile import write

Open = tuple[int | str, ...]


def node(op: str, inputs: str, outputs: str, **attributes: Attribute) -> NetNode:
    """Make a node from names separated by spaces; `_` is an omitted input."""
    domain, _, name = op.rpartition(".")
    names = tuple("" if name == "_" else name for name in inputs.split())
    return NetNode(name, names, tuple(outputs.split()), attributes, domain=domain)


def weight(name: str, *dims: int, dtype: str = "fp32") -> Weight:
    """Make a weight of zeros."""
    return Weight(name, dims, dtype, (0,))


def ints(name: str, *values: int, dims: Dims | None = None) -> Weight:
    """Make a list of integers, or one integer where the dims say so."""
    return Weight(name, (len(values),) if dims is None else dims, "int64", values)


def value(name: str, *dims: int | str, dtype: str = "fp32") -> NetValue:
    """Describe an input, an output or an inner value."""
    return NetValue(name, dims, dtype)


def graph(
    nodes: Sequence[NetNode],
    inputs: Sequence[NetValue],
    weights: Sequence[Weight] = (),
    outputs: Sequence[str] = (),
    values: Sequence[NetValue] = (),
) -> NetGraph:
    """Make a graph whose output, unless named, is that of the last node; outputs are not described."""
    names = outputs or nodes[-1].outputs[:1]
    ends = tuple(NetValue(name, ()) for name in names)
    return NetGraph("tiny", tuple(inputs), ends, tuple(nodes), tuple(weights), tuple(values))


def saved(folder: Path, graph_: NetGraph, opset: int = 17, name: str = "tiny.onnx") -> str:
    """Write a graph to a file and return its path."""
    path = str(folder / name)
    domains = {node.domain: 1 for node in graph_.nodes if node.domain}
    write(graph_, path, opset=opset, domains=domains)
    return path


def profile(folder: Path, graph_: NetGraph, opset: int = 17, **shapes: tuple[int, ...]) -> Profile:
    """Write a graph and analyse it."""
    return analyze(saved(folder, graph_, opset), shapes)


def by_op(profile_: Profile, op: str) -> Operator:
    """Return the one operator of that name."""
    (record,) = [record for record in profile_.operators if record.op == op]
    return record


def ops(profile_: Profile) -> list[str]:
    """Return the operators that run, in order."""
    return [record.op for record in profile_.operators]


def grouped(profile_: Profile) -> list[list[str]]:
    """Return the operators of each group, in order of the groups."""
    groups: dict[int, list[str]] = {}
    for record in profile_.operators:
        groups.setdefault(record.group, []).append(record.op)
    return [groups[number] for number in sorted(groups)]

"""Identify the work of a model: the same structure and sizes have the same digest, whatever the weights.

Retraining does not change how long a model runs, so its measurements stay valid; and a file of many gigabytes
need not be read.
"""

import hashlib
from collections.abc import Iterable, Mapping

from fairlead.analyze.bind import BoundDimensions
from fairlead.analyze.graph import FUSED_ACTIVATION, Attribute, Constant, Graph, GraphNode, Model, Reference

_SIZE = 20


def digest(model: Model, bound: BoundDimensions) -> str:
    """Return 40 hexadecimal digits."""
    hasher = hashlib.blake2b(digest_size=_SIZE)
    for line in _model(model, bound):
        hasher.update(line.encode("utf-8", "replace"))
        hasher.update(b"\n")
    return hasher.hexdigest()


def _model(model: Model, bound: BoundDimensions) -> Iterable[str]:
    yield f"{model.format} {model.opset}"
    for name, dims in sorted(bound.inputs.items()):
        yield f"bound {name!r} {dims}"
    for name, function in sorted(model.functions.items()):
        yield f"function {name!r} {sorted((key, _value(value)) for key, value in function.defaults.items())}"
        yield from _graph(function.body)
    for body in model.bodies[1:]:
        yield from _graph(body)
    yield from _graph(model.graph)


def _graph(graph: Graph) -> Iterable[str]:
    yield f"graph {sorted(graph.inputs)} {graph.outputs}"
    for name, constant in sorted(graph.constants.items()):
        yield f"constant {name!r} {_value(constant)}"
    for node in graph.nodes:
        yield from _node(node)


def _node(node: GraphNode) -> Iterable[str]:
    yield f"node {node.op!r} {node.inputs} {node.outputs}"
    yield from _attributes(node.attributes)


def _attributes(attributes: Mapping[str, Attribute]) -> Iterable[str]:
    for name, value in sorted(attributes.items()):
        if name == FUSED_ACTIVATION:
            continue
        if isinstance(value, Graph):
            yield f"body {name!r}"
            yield from _graph(value)
        else:
            yield f"attribute {name!r} {_value(value)}"


def _value(value: Attribute) -> str:
    if isinstance(value, Constant):
        whole = value.values if value.dtype.startswith(("int", "uint", "bool")) else None
        return f"{value.dtype} {value.dims} {whole}"
    return repr(value.name) if isinstance(value, Reference) else repr(value)

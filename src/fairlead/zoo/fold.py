"""Fold norms into the preceding convolutions, as every runtime does when it loads a model."""

from collections import Counter
from dataclasses import replace

from fairlead.zoo.graph import NetGraph, NetNode, Weight


def fold(graph: NetGraph) -> NetGraph:
    """Return the graph without norms that follow a convolution: the zoo's norms are untrained."""
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    nodes: dict[str, NetNode] = {}
    weights = {weight.name: weight for weight in graph.weights}
    for node in graph.nodes:
        before = nodes.get(node.inputs[0]) if node.op == "BatchNormalization" else None
        if before is None or before.op != "Conv" or readers[node.inputs[0]] > 1:
            nodes[node.outputs[0]] = node
            continue
        bias = node.inputs[2]  # the shift: a convolution before a norm has no bias of its own
        del nodes[before.outputs[0]]
        nodes[node.outputs[0]] = replace(before, inputs=(*before.inputs[:2], bias), outputs=node.outputs)
    used = {name for node in nodes.values() for name in node.inputs}
    kept: tuple[Weight, ...] = tuple(weight for name, weight in weights.items() if name in used)
    return replace(graph, nodes=tuple(nodes.values()), weights=kept)

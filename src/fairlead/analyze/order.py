"""Put nodes into an order in which they can run; say so where there is none."""

from collections import deque
from collections.abc import Iterable, Sequence

from fairlead.analyze.graph import Graph, GraphNode
from fairlead.analyze.names import printable
from fairlead.errors import AnalysisError


def sort_nodes(nodes: Sequence[GraphNode]) -> Sequence[GraphNode]:
    """Return the nodes as they stand, where each follows what it needs, or else sorted."""
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in node.outputs:
            if name and makers.setdefault(name, place) != place:
                raise AnalysisError(f"value {printable(name)!r} is made twice", "export the model again")
    if all(makers.get(name, -1) < place for place, node in enumerate(nodes) for name in names_read(node)):
        return nodes
    return _sorted(nodes, makers)


def names_read(node: GraphNode) -> Iterable[str]:
    """Yield the names that a node reads, also inside its bodies."""
    yield from node.inputs
    for attribute in node.attributes.values():
        if isinstance(attribute, Graph):
            yield from outer_names(attribute)


def outer_names(graph: Graph) -> set[str]:
    """Return the names that a body reads from around it."""
    own = {*graph.inputs, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}
    read = {name for node in graph.nodes for name in names_read(node)}
    return {name for name in (*read, *graph.outputs) if name not in own}


def _sorted(nodes: Sequence[GraphNode], makers: dict[str, int]) -> list[GraphNode]:
    waits = [{makers[name] for name in names_read(node) if name in makers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, before in enumerate(waits):
        for maker in before:
            readers[maker].append(place)
    left = [len(before) for before in waits]
    ready = deque(place for place, count in enumerate(left) if not count)
    found: list[GraphNode] = []
    while ready:
        place = ready.popleft()
        found.append(nodes[place])
        for reader in readers[place]:
            left[reader] -= 1
            if not left[reader]:
                ready.append(reader)
    if len(found) < len(nodes):
        stuck = next(node for node, count in zip(nodes, left, strict=True) if count)
        name = printable(stuck.name or stuck.op)
        raise AnalysisError(f"the graph runs in a circle at {name!r}", "export the model again")
    return found

"""Sort nodes topologically; a cycle is an error."""

from collections import deque
from collections.abc import Iterable, Sequence

from fairlead.analyze.graph import Graph, GraphNode
from fairlead.analyze.names import printable
from fairlead.errors import AnalysisError


def sort_nodes(nodes: Sequence[GraphNode]) -> Sequence[GraphNode]:
    """Return the nodes in file order where each follows its producers, otherwise sorted."""
    producers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in node.outputs:
            if name and producers.setdefault(name, place) != place:
                raise AnalysisError(f"value {printable(name)!r} is produced twice", "export the model again")
    if all(producers.get(name, -1) < place for place, node in enumerate(nodes) for name in names_read(node)):
        return nodes
    return _sorted(nodes, producers)


def names_read(node: GraphNode) -> Iterable[str]:
    """Yield the names that a node reads, inside its bodies too."""
    yield from node.inputs
    for attribute in node.attributes.values():
        if isinstance(attribute, Graph):
            yield from outer_names(attribute)


def outer_names(graph: Graph) -> set[str]:
    """Return the names that a body reads from the outer scope."""
    own = {*graph.inputs, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}
    read = {name for node in graph.nodes for name in names_read(node)}
    return {name for name in (*read, *graph.outputs) if name not in own}


def _sorted(nodes: Sequence[GraphNode], producers: dict[str, int]) -> list[GraphNode]:
    dependencies = [{producers[name] for name in names_read(node) if name in producers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, before in enumerate(dependencies):
        for producer in before:
            readers[producer].append(place)
    pending = [len(before) for before in dependencies]
    ready = deque(place for place, count in enumerate(pending) if not count)
    ordered: list[GraphNode] = []
    while ready:
        place = ready.popleft()
        ordered.append(nodes[place])
        for reader in readers[place]:
            pending[reader] -= 1
            if not pending[reader]:
                ready.append(reader)
    if len(ordered) < len(nodes):
        blocked = next(node for node, count in zip(nodes, pending, strict=True) if count)
        name = printable(blocked.name or blocked.op)
        raise AnalysisError(f"the graph has a cycle at {name!r}", "export the model again")
    return ordered

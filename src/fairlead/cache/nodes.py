"""Nodes and the slices of their accelerators as last seen, and each node as the engine reads it. Pure."""

from collections.abc import Iterator

from fairlead.cache.origin import LIVE, ObjectOrigin
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.errors import ManifestError
from fairlead.keys import PLACEMENT
from fairlead.manifest.node.state import read_node as node_state
from fairlead.manifest.types.dra import Slice, newest_slices
from fairlead.manifest.types.kubernetes import Node
from fairlead.manifest.types.live import LivePod
from fairlead.placement import PLACEMENTS, NodeState


class NodeCache:
    """Nodes and slices, and the names of nodes that changed."""

    def __init__(self, catalog: Catalog, origin: ObjectOrigin = LIVE) -> None:
        self.unreadable: dict[str, ManifestError] = {}
        """Nodes that cannot be read, and why."""
        self._catalog = catalog
        self._origin = origin
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, dict[Key, Slice]] = {}
        self._newer: dict[str, dict[str, ManifestError]] = {}
        """By node and uid: pods with a placement that this program cannot read, and why."""
        self._changed: set[str] = set()

    def node(self, name: str) -> Node | None:
        """Return a node as last seen."""
        return self._nodes.get(name)

    def knows(self, name: str) -> bool:
        """Say whether a node of this name exists."""
        return name in self._nodes

    def on_node(self, change: ObjectChange[Node]) -> None:
        """Store a change of a node."""
        name = change.object.metadata.name
        if change.new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = change.new
        self._changed.add(name)

    def on_slice(self, change: ObjectChange[Slice]) -> None:
        """Store a change of a slice."""
        for version in (change.old, change.new):
            if version is not None:
                self._changed.add(version.node)
                self._slices.setdefault(version.node, {}).pop(version.key, None)
        if change.new is not None:
            self._slices[change.new.node][change.new.key] = change.new

    def on_pod(self, uid: str, was: str, node: str, pod: LivePod | None) -> None:
        """Store a pod that was on a node and is on another: an unreadable placement closes its node."""
        if self._newer.get(was, {}).pop(uid, None) is not None:
            self._changed.add(was)
        annotation = pod.metadata.annotations.get(PLACEMENT, "") if pod is not None and node else ""
        newer = PLACEMENTS.newer(annotation) if annotation else None
        if pod is not None and newer is not None:
            error = ManifestError(f"pod {'/'.join(pod.key)}: {newer}", newer.hint)
            self._newer.setdefault(node, {})[uid] = error
            self._changed.add(node)

    def changed(self) -> Iterator[tuple[str, NodeState | None]]:
        """Return and clear the nodes that may have changed, by name; None: deleted, or unreadable."""
        names, self._changed = sorted(self._changed), set()
        for name in names:
            yield name, self._state(name)

    def _state(self, name: str) -> NodeState | None:
        node = self._nodes.get(name)
        self.unreadable.pop(name, None)
        if node is None:
            return None
        if newer := self._newer.get(name):
            self.unreadable[name] = next(iter(newer.values()))
            return None
        slices = newest_slices(self._slices.get(name, {}).values())
        try:
            return node_state(self._origin.place("Node", node), node, slices, self._catalog)
        except ManifestError as error:
            self.unreadable[name] = error
            return None

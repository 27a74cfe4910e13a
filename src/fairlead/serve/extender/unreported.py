"""Pods bound to a node whose agent has not reported their accelerator yet.

The accelerator of one such pod is known all the same: the agent takes the one with the least memory that
suffices, and so does the cache. With several pods it depends on the kubelet's order of admission, and where a
pod ends meanwhile, on whether the kubelet admits before or after that; so these pods stay unconfirmed. The
others may be pods whose binding is not visible yet: the kubelet may admit those first, too.
"""

from dataclasses import dataclass, replace

from fairlead.schedule.state.unconfirmed import EXPIRES_AFTER, UnconfirmedPod, UnconfirmedPods


@dataclass(frozen=True, slots=True)
class UnreportedPod:
    """A bound pod that the agent has not reported yet."""

    name: str
    """`namespace/name`."""
    unconfirmed: UnconfirmedPod


class UnreportedPods:
    """Keeps unreported pods that share a node unconfirmed."""

    def __init__(self, unconfirmed: UnconfirmedPods) -> None:
        self._unconfirmed = unconfirmed
        self._by_node: dict[str, dict[str, UnreportedPod]] = {}
        self._node_of: dict[str, str] = {}
        self._changed_nodes: set[str] = set()
        """Nodes with a pod that ended since their unreported pods were bound."""

    def add(self, node: str, uid: str, name: str, unconfirmed: UnconfirmedPod) -> None:
        """Add a pod bound to a node; `unconfirmed` covers that node alone."""
        self.drop(uid)
        self._by_node.setdefault(node, {})[uid] = UnreportedPod(name, unconfirmed)
        self._node_of[uid] = node
        self._update(node)

    def drop(self, uid: str) -> None:
        """Drop a pod: the agent reported it, or it is gone."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        del self._by_node[node][uid]
        self._unconfirmed.drop(uid)
        self._update(node)

    def on_pod_left(self, node: str) -> None:
        """Record that a pod on a node ended."""
        if node in self._by_node:
            self._changed_nodes.add(node)
            self._update(node)

    def on_report(self, node: str, text: str) -> None:
        """Drop the pods that a node's annotation of holders mentions."""
        pods = self._by_node.get(node, {})
        for uid in [uid for uid, each in pods.items() if mentions(text, each.name)]:
            self.drop(uid)

    def expire(self, now: float) -> None:
        """Drop pods that no agent has reported for long."""
        late = (
            uid
            for pods in self._by_node.values()
            for uid, each in pods.items()
            if now - each.unconfirmed.since > EXPIRES_AFTER
        )
        for uid in list(late):
            self.drop(uid)

    def _update(self, node: str) -> None:
        pods = self._by_node[node]
        is_alone = len(pods) == 1 and node not in self._changed_nodes
        for uid, each in pods.items():
            self._unconfirmed.put(uid, replace(each.unconfirmed, is_alone=is_alone))
        if not pods:
            del self._by_node[node]
            self._changed_nodes.discard(node)


def mentions(text: str, name: str) -> bool:
    """Say whether an agent's annotation names a pod, or `*` for all holders."""
    return f'"{name}/' in text or '"*"' in text

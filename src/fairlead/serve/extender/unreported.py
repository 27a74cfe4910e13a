"""Pods seen on a node whose agent has not told yet which accelerator they got.

Of one such pod it is known all the same: the agent takes the accelerator with the least room that suffices,
and so does the cache. Of several it depends on whom the kubelet comes to first, and where somebody leaves
meanwhile, on whether the kubelet came before or after; so they are in doubt.
"""

from dataclasses import dataclass

from fairlead.schedule.state.unconfirmed import EXPIRES_AFTER, UnconfirmedPod, UnconfirmedPods


@dataclass(frozen=True, slots=True)
class UnreportedPod:
    """A pod that the agent has yet to tell of."""

    name: str
    """With its namespace."""
    doubt: UnconfirmedPod


class UnreportedPods:
    """Keeps those in doubt that are on a node together."""

    def __init__(self, doubts: UnconfirmedPods) -> None:
        self._doubts = doubts
        self._on: dict[str, dict[str, UnreportedPod]] = {}
        self._where: dict[str, str] = {}
        self._stirred: set[str] = set()
        """Nodes that somebody left since those came who are on them."""

    def add(self, node: str, uid: str, name: str, doubt: UnconfirmedPod) -> None:
        """Note that a pod is on a node; `doubt` is of that node alone."""
        self.drop(uid)
        self._on.setdefault(node, {})[uid] = UnreportedPod(name, doubt)
        self._where[uid] = node
        self._recount(node)

    def drop(self, uid: str) -> None:
        """Forget a pod: it was told of, or is gone."""
        node = self._where.pop(uid, None)
        if node is None:
            return
        del self._on[node][uid]
        self._doubts.drop(uid)
        self._recount(node)

    def on_pod_left(self, node: str) -> None:
        """Note that somebody left a node."""
        if node in self._on:
            self._stirred.add(node)
            self._recount(node)

    def hear(self, node: str, text: str) -> None:
        """Take in what a node's agent says of who holds what."""
        found = self._on.get(node, {})
        for uid in [uid for uid, each in found.items() if mentions(text, each.name)]:
            self.drop(uid)

    def expire(self, now: float) -> None:
        """Forget pods of which no agent told for long."""
        late = (
            uid
            for found in self._on.values()
            for uid, each in found.items()
            if now - each.doubt.since > EXPIRES_AFTER
        )
        for uid in list(late):
            self.drop(uid)

    def _recount(self, node: str) -> None:
        found = self._on[node]
        for uid, each in found.items():
            if len(found) > 1 or node in self._stirred:
                self._doubts.put(uid, each.doubt)
            else:
                self._doubts.drop(uid)
        if not found:
            del self._on[node]
            self._stirred.discard(node)


def mentions(text: str, name: str) -> bool:
    """Say whether an agent's annotation speaks of a pod, or of all holders at once for want of room."""
    return f'"{name}/' in text or '"*"' in text

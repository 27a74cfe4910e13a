"""What preemption depends on beside free resources: leaving pods, and disruption budgets. Pure."""

from typing import Final

from fairlead.cache.pod_changes import node_of
from fairlead.cache.types import LivePod
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.manifest.types.policy import PodDisruptionBudget
from fairlead.placement import DisruptionBudget

_SOON: Final = 60
"""Seconds of grace within which a pod that another client deletes counts as leaving."""


class DisruptionCache:
    """Pods that are being deleted, and budgets, as last seen."""

    def __init__(self) -> None:
        self.revision = 0
        """The number of changes so far: the engine's cluster does not show them."""
        self.leaving: set[str] = set()
        """Bound pods that are being deleted with a short grace period."""
        self._budgets: dict[Key, PodDisruptionBudget] = {}

    def on_pod(self, uid: str, pod: LivePod | None) -> None:
        """Store a pod as it is now; None where it is deleted."""
        leaves = pod is not None and bool(node_of(pod) and pod.metadata.deletion_timestamp)
        soon = pod is not None and pod.metadata.deletion_grace_period_seconds <= _SOON
        if (leaves and soon) != (uid in self.leaving):
            (self.leaving.add if leaves and soon else self.leaving.discard)(uid)
            self.revision += 1

    def on_budget(self, change: ObjectChange[PodDisruptionBudget]) -> None:
        """Store a change of a budget."""
        self._budgets.pop(change.key, None)
        if change.new is not None:
            self._budgets[change.key] = change.new
        self.revision += 1

    @property
    def budgets(self) -> list[DisruptionBudget]:
        """Every budget, with the number of evictions that it allows."""
        return [budget.budget() for budget in self._budgets.values()]

"""PodDisruptionBudgets, with the fields that preemption needs."""

from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.errors import ManifestError
from fairlead.manifest.pod.rules import label_selector
from fairlead.manifest.types.kubernetes import LabelSelector
from fairlead.placement import DisruptionBudget


class BudgetSpec(ObjectPart, frozen=True):
    """The selector of the pods that a budget covers."""

    selector: LabelSelector | None = None


class BudgetStatus(ObjectPart, frozen=True):
    """The number of pods that may be evicted now, as the disruption controller computed it."""

    observed_generation: int = 0
    disruptions_allowed: int = 0


class PodDisruptionBudget(Object, frozen=True):
    """A limit on the voluntary evictions of some pods."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def budget(self) -> DisruptionBudget:
        """Return the budget for preemption; until its controller has observed it, it allows nothing."""
        current = self.status.observed_generation >= self.metadata.generation
        allowed = max(0, self.status.disruptions_allowed) if current else 0
        try:
            covered = label_selector("spec.selector", self.spec.selector)
        except ManifestError:
            return DisruptionBudget(*self.key, label_selector("", LabelSelector()), 0)
        return DisruptionBudget(*self.key, covered, allowed)


BUDGETS: Final = Kind(
    "policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget, "PodDisruptionBudget"
)

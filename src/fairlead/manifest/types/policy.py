"""PodDisruptionBudgets as far as preemption needs them."""

from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.errors import ManifestError
from fairlead.manifest.pod.rules import label_selector
from fairlead.manifest.types.kubernetes import LabelSelector
from fairlead.placement import DisruptionBudget


class BudgetSpec(ObjectPart, frozen=True):
    """Which pods a budget is about."""

    selector: LabelSelector | None = None


class BudgetStatus(ObjectPart, frozen=True):
    """How many of them may be evicted now, as the disruption controller worked it out."""

    observed_generation: int = 0
    disruptions_allowed: int = 0


class PodDisruptionBudget(Object, frozen=True):
    """How many pods of a kind must stay."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def budget(self) -> DisruptionBudget:
        """Return it as preemption takes it; one that its controller has not read yet allows nothing."""
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

"""Disruption budgets in preemption: which victims a budget still allows. Pure."""

from collections.abc import Iterable, Sequence

from fairlead.placement import DisruptionBudget, Placement, Reason, Rejection


def victims_over_budget(budgets: Iterable[DisruptionBudget], victims: Sequence[Placement]) -> set[str]:
    """Return the ids of the victims, in their order, that exceed some budget."""
    over: set[str] = set()
    for budget in budgets:
        covered = [victim.request.id for victim in victims if budget.covers(victim.request)]
        over |= set(covered[budget.allowed :])
    return over


def budgets_after(
    budgets: Iterable[DisruptionBudget], evicted: Sequence[Placement]
) -> tuple[DisruptionBudget, ...]:
    """Return the budgets that remain after these evictions."""
    return tuple(
        budget.after(sum(budget.covers(placement.request) for placement in evicted)) for budget in budgets
    )


def budget_rejection(
    budgets: Iterable[DisruptionBudget], victims: Sequence[Placement], namespace: str
) -> Rejection | None:
    """Return the rejection by budgets of these victims; budgets of other namespaces are not named."""
    exceeded = [budget for budget in budgets if victims_over_budget((budget,), victims)]
    own = sorted(
        f"{budget.name} ({budget.allowed} allowed)" for budget in exceeded if budget.namespace == namespace
    )
    others = len(exceeded) - len(own)
    names = [*own, *([f"{others} of other namespaces"] if others else [])]
    if not names:
        return None
    text = f"evicting pods of lower priority is forbidden by PodDisruptionBudget {', '.join(names)}"
    return Rejection(Reason.BUDGET, text)

"""Disruption budgets in preemption: which victims a budget still allows. Pure."""

from collections.abc import Iterable, Sequence

from fairlead.placement import DisruptionBudget, Placement, Reason, Rejection


def victims_over_budget(budgets: Iterable[DisruptionBudget], victims: Sequence[Placement]) -> set[str]:
    """Return the ids of the victims, in their order, that are more than some budget allows."""
    over: set[str] = set()
    for budget in budgets:
        covered = [victim.request.id for victim in victims if budget.covers(victim.request)]
        over |= set(covered[budget.allowed :])
    return over


def budgets_after(
    budgets: Iterable[DisruptionBudget], gone: Sequence[Placement]
) -> tuple[DisruptionBudget, ...]:
    """Return the budgets after these were evicted."""
    return tuple(budget.after(sum(budget.covers(each.request) for each in gone)) for budget in budgets)


def budget_rejection(
    budgets: Iterable[DisruptionBudget], victims: Sequence[Placement], namespace: str
) -> Rejection | None:
    """Return the reason that budgets forbid these victims; budgets of other namespaces are not named."""
    against = [budget for budget in budgets if victims_over_budget((budget,), victims)]
    near = sorted(f"{each.name} ({each.allowed} allowed)" for each in against if each.namespace == namespace)
    far = len(against) - len(near)
    names = [*near, *([f"{far} of other namespaces"] if far else [])]
    if not names:
        return None
    text = f"evicting pods of lower priority is forbidden by PodDisruptionBudget {', '.join(names)}"
    return Rejection(Reason.BUDGET, text)

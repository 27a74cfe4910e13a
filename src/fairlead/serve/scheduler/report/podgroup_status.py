"""What a PodGroup and its pods report beside why pods wait: placed, or bound without a device. Pure."""

from collections.abc import Iterable
from typing import Any, Final

from fairlead.cache.types import RULES
from fairlead.cluster.kinds import Kind
from fairlead.keys import GPU_MEM
from fairlead.manifest.types.kubernetes import PodGroup
from fairlead.serve.scheduler.bind.writes import BindingPlan, request_mappings
from fairlead.serve.scheduler.effects import STRATEGIC, Report
from fairlead.serve.scheduler.report import conditions

PLACED_ONCE: Final = "PodGroupInitiallyScheduled"
"""The condition by which Kubernetes' own scheduler tells a group how it fares, until it was placed once."""
_GROUPS: Final[Kind[Any]] = next(kind for kind in RULES if kind.name == "PodGroup")


def report_bound(plans: Iterable[BindingPlan], group: PodGroup | None, now: str) -> list[Report]:
    """Return what is to be said of pods that were bound together."""
    found = [] if group is None else _condition(group, "True", "Scheduled", "placed together", now)
    return [*found, *(_nothing_handed_over(plan, now) for plan in plans if _has_no_handover(plan))]


def report_unschedulable(group: PodGroup, text: str, now: str) -> list[Report]:
    """Return what tells a group why it waits."""
    return _condition(group, "False", "Unschedulable", text, now)


def _has_no_handover(plan: BindingPlan) -> bool:
    return bool(plan.placement.shares) and not (
        plan.own_claim or plan.named_claims or request_mappings(plan.pod)
    )


def _nothing_handed_over(plan: BindingPlan, now: str) -> Report:
    devices = ", ".join(share.device for share in plan.placement.shares)
    text = (
        f"{devices} of {plan.placement.node} is set aside for it, but no container names a resource by "
        "which it could be handed over: install the chart's policy fairlead-fractions, or ask by "
        f"{GPU_MEM}"
    )
    return conditions.event(plan.pod, "Warning", "NothingHandedOver", text, now)


def _condition(group: PodGroup, status: str, reason: str, text: str, now: str) -> list[Report]:
    """Return a condition; nothing where it says so already, or was placed once and now waits for more."""
    said = next((condition for condition in group.status.conditions if condition.type == PLACED_ONCE), None)
    if said is not None and (said.status == "True" or (said.status, said.message) == (status, text)):
        return []
    body = {
        "type": PLACED_ONCE,
        "status": status,
        "reason": reason,
        "message": text,
        "observedGeneration": group.metadata.generation,
        "lastTransitionTime": said.last_transition_time if said and said.status == status else now,
    }
    patch = {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [body]}}
    path = _GROUPS.path(group.metadata.namespace, group.metadata.name, "status")
    return [Report("PATCH", path, patch, STRATEGIC)]

"""Report the status of a PodGroup, and pods that are bound but get no device. Pure."""

from collections.abc import Iterable
from typing import Any, Final

from fairlead.cache.types import RULES
from fairlead.cluster.kinds import Kind
from fairlead.keys import GPU_MEM
from fairlead.manifest.types.kubernetes import PodGroup
from fairlead.serve.machine.requests import STRATEGIC
from fairlead.serve.scheduler.bind.writes import BindingPlan, request_mappings
from fairlead.serve.scheduler.effects import Report
from fairlead.serve.scheduler.report import conditions

PLACED_ONCE: Final = "PodGroupInitiallyScheduled"
"""The condition by which kube-scheduler reports the status of a group, until the group was placed once."""
_GROUPS: Final[Kind[Any]] = next(kind for kind in RULES if kind.name == "PodGroup")


def report_bound(plans: Iterable[BindingPlan], group: PodGroup | None, now: str) -> list[Report]:
    """Return the reports on pods that were bound together."""
    scheduled = [] if group is None else _condition(group, "True", "Scheduled", "placed together", now)
    return [*scheduled, *(_nothing_handed_over(plan, now) for plan in plans if _has_no_handover(plan))]


def report_unschedulable(group: PodGroup, text: str, now: str) -> list[Report]:
    """Return the condition that reports why a group is unschedulable."""
    return _condition(group, "False", "Unschedulable", text, now)


def _has_no_handover(plan: BindingPlan) -> bool:
    return bool(plan.placement.shares) and not (
        plan.own_claim or plan.named_claims or request_mappings(plan.pod)
    )


def _nothing_handed_over(plan: BindingPlan, now: str) -> Report:
    devices = ", ".join(share.device for share in plan.placement.shares)
    text = (
        f"{devices} of {plan.placement.node} is reserved for it, but no container requests a resource by "
        "which the device can be handed over: install the chart's policy fairlead-fractions, or request "
        f"{GPU_MEM}"
    )
    return conditions.event(plan.pod, "Warning", "NothingHandedOver", text, now)


def _condition(group: PodGroup, status: str, reason: str, text: str, now: str) -> list[Report]:
    """Return the write of a condition; nothing where the group has it already, or was placed once."""
    before = next((one for one in group.status.conditions if one.type == PLACED_ONCE), None)
    if before is not None and (before.status == "True" or (before.status, before.message) == (status, text)):
        return []
    body = {
        "type": PLACED_ONCE,
        "status": status,
        "reason": reason,
        "message": text,
        "observedGeneration": group.metadata.generation,
        "lastTransitionTime": before.last_transition_time if before and before.status == status else now,
    }
    patch = {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [body]}}
    path = _GROUPS.path(group.metadata.namespace, group.metadata.name, "status")
    return [Report("PATCH", path, patch, STRATEGIC)]

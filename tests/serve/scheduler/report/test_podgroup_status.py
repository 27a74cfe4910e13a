"""The status of PodGroups, and events on pods without a handover."""

from typing import Any

import msgspec
import pytest

from fairlead.manifest.types.kubernetes import PodGroup
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.serve.scheduler.bind.writes import BindingPlan
from fairlead.serve.scheduler.report import podgroup_status
from fairlead.serve.scheduler.report.podgroup_status import PLACED_ONCE
from fairlead.share import DeviceShare
from tests.serve.scheduler.objects import pod

NOW = "2026-11-16T04:00:00Z"
BEFORE = "2026-11-16T03:00:00Z"


def group(status: str = "", message: str = "") -> PodGroup:
    condition = {"type": PLACED_ONCE, "status": status, "message": message, "lastTransitionTime": BEFORE}
    document = {
        "metadata": {"name": "ring", "namespace": "default", "uid": "g", "generation": 3},
        "status": {"conditions": [condition] if status else []},
    }
    return msgspec.convert(document, PodGroup)


def plan(mib: int = 0, *, own_claim: bool = False) -> BindingPlan:
    share = DeviceShare("gpu-0")
    return BindingPlan(pod("a", mib=mib), Placement(Request("a"), "n", (share,)), own_claim=own_claim)


@pytest.mark.parametrize(
    ("planned", "events"), [(plan(), 1), (plan(mib=1024), 0), (plan(mib=1024, own_claim=True), 0)]
)
def test_a_bound_pod_without_a_handover_gets_an_event(planned: BindingPlan, events: int) -> None:
    writes = podgroup_status.report_bound([planned], None, NOW)
    assert [each.body["reason"] for each in writes] == ["NothingHandedOver"] * events
    assert all("gpu-0 of n" in each.body["message"] for each in writes)


def condition_of(writes: list[Any]) -> dict[str, Any]:
    (write,) = writes
    assert write.path.endswith("/namespaces/default/podgroups/ring/status")
    condition: dict[str, Any] = write.body["status"]["conditions"][0]
    return condition


def test_a_group_gets_its_status() -> None:
    first = condition_of(podgroup_status.report_unschedulable(group(), "too few", NOW))
    assert (first["status"], first["message"], first["observedGeneration"]) == ("False", "too few", 3)
    assert first["lastTransitionTime"] == NOW
    again = condition_of(podgroup_status.report_unschedulable(group("False", "too few"), "no room", NOW))
    assert again["lastTransitionTime"] == BEFORE, "it was so before"
    placed = condition_of(podgroup_status.report_bound([], group("False", "no room"), NOW))
    assert (placed["status"], placed["lastTransitionTime"]) == ("True", NOW)


def test_no_status_is_written_twice_or_reverted() -> None:
    assert podgroup_status.report_unschedulable(group("False", "too few"), "too few", NOW) == []
    assert podgroup_status.report_unschedulable(group("True"), "one more does not fit", NOW) == []
    assert podgroup_status.report_bound([], group("True"), NOW) == []

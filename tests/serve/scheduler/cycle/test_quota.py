"""Quotas: a request by annotation counts against them like a request by resource."""

from typing import Any

import msgspec
import pytest

from fairlead import keys
from fairlead.cache.quota import MEMORY, SHARES, UncountedUse, charge
from fairlead.cache.types import QUOTAS, ResourceQuota
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.placement import PLACEMENTS
from fairlead.serve.scheduler.cycle.scheduling import SchedulingCycle
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.scheduler.cycle.test_cycle import cycle_of, run_all
from tests.serve.scheduler.objects import device_slice, node, pod, read

MIB = 1 << 20
HALF = {keys.KAI_FRACTION: "0.5"}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, version: int = 1) -> ResourceQuota:
    made: ResourceQuota = read(
        QUOTAS,
        {
            "metadata": {"name": "gpus", "namespace": "default", "resourceVersion": str(version)},
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": used or {}},
        },
    )
    return made


def asking(limits: dict[str, str], notes: dict[str, str] | None = None, **spec: Any) -> Any:
    container = {"name": "main", "resources": {"limits": limits}}
    return pod("a", notes=notes, **{"containers": [container], **spec})


def taken(*mib: int, compute: int = 0, whole: bool = False) -> list[DeviceShare]:
    return [DeviceShare(f"gpu-{at}", Bytes(size * MIB), compute, whole) for at, size in enumerate(mib)]


CHARGES: dict[str, tuple[Any, list[DeviceShare], UncountedUse]] = {
    "gpu-mem": (asking({keys.GPU_MEM: "1024"}), taken(1024), UncountedUse()),
    "gpu-mem-gib": (asking({keys.GPU_MEM_GIB: "1"}), taken(1024), UncountedUse()),
    "model": (asking({"fairlead.dev/t4": "2"}), taken(4096, 4096, whole=True), UncountedUse()),
    "whole": (asking({"nvidia.com/gpu": "2"}), taken(4096, 4096, whole=True), UncountedUse()),
    "gpushare": (asking({keys.ALIYUN_MEM: "1"}), taken(1024), UncountedUse()),
    "hami": (
        asking({"nvidia.com/gpu": "2", keys.HAMI_MEM: "1024", keys.HAMI_CORES: "30"}),
        taken(1024, 1024, compute=300),
        UncountedUse(),
    ),
    "hami-percent": (asking({keys.HAMI_PERCENT: "25"}), taken(1024), UncountedUse()),
    "claim": (
        asking({}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
        taken(1024, compute=500),
        UncountedUse(),
    ),
    "fraction": (asking({}, HALF), taken(2048), UncountedUse(2048, 1)),
    "fraction-with-share": (asking({keys.SHARE: "1"}, HALF), taken(2048), UncountedUse(2048)),
    "share-of-zero": (asking({keys.SHARE: "0"}, HALF), taken(2048), UncountedUse(2048, 1)),
    "zero-by-resource": (asking({keys.GPU_MEM: "0"}, HALF), taken(2048), UncountedUse(2048, 1)),
    "kai-memory": (asking({}, {keys.KAI_MEMORY: "1000"}), taken(1000), UncountedUse(1000, 1)),
    "kai-devices": (
        asking({keys.SHARE: "1"}, {**HALF, keys.KAI_DEVICES: "2"}),
        taken(2048, 2048),
        UncountedUse(4096),
    ),
    "model-by-name": (asking({}, {keys.MODEL: "m"}), taken(300), UncountedUse(300, 1)),
    "compute": (asking({}, {keys.COMPUTE: "50%"}), taken(0, compute=500), UncountedUse(0, 1)),
    "compute-beside": (
        asking({keys.GPU_MEM: "1"}, {keys.COMPUTE: "100%"}),
        taken(1, compute=1000),
        UncountedUse(0, 1),
    ),
    "count": (asking({}, {keys.COUNT: "2"}), taken(4096, 4096, whole=True), UncountedUse(8192, 1)),
    "count-beside": (
        asking({keys.GPU_MEM: "1024"}, {keys.COUNT: "3"}),
        taken(1024, 1024, 1024),
        UncountedUse(2048, 1),
    ),
    "edited": (asking({}, {}), taken(2048), UncountedUse(2048, 1)),
}


@pytest.mark.parametrize("case", CHARGES.values(), ids=CHARGES)
def test_what_the_api_server_has_not_counted_is_charged(
    case: tuple[Any, list[DeviceShare], UncountedUse],
) -> None:
    asked, shares, expected = case
    assert charge(asked, shares) == expected


def scoped(operator: str, *values: str) -> dict[str, Any]:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    return {"scopeSelector": {"matchExpressions": [expression]}}


def decide_all(cycle: SchedulingCycle, now: float = 0.0) -> list[str]:
    """Decide for every active pod; return the names of those that are placed."""
    return sorted(plan.pod.metadata.name for plan in run_all(cycle, now).plans)


def halves(*names: str, **more: str) -> list[Any]:
    return [pod(name, notes={**HALF, **more}) for name in names]


def test_pods_that_request_by_annotation_are_placed_up_to_the_quota_and_the_refusal_names_it(
    catalog: Catalog,
) -> None:
    cycle = cycle_of(
        catalog, node("n"), device_slice("n"), quota({MEMORY: "5000"}, {MEMORY: "500"}), *halves(*"abc")
    )
    assert decide_all(cycle) == ["a", "b"]
    assert cycle.reporter.take(0.0, 9)["uid-c"] == (
        "c cannot be placed: exceeded quota: gpus, requested: requests.fairlead.dev/gpu-mem=2048, "
        "used: requests.fairlead.dev/gpu-mem=4596, limited: requests.fairlead.dev/gpu-mem=5000 "
        "(requested by annotation)"
    )
    assert [device.memory for device in cycle.cache.cluster.free("n").devices] == [0, 4096 * MIB]
    assert cycle.metrics.decisions["refused", "quota"] == 1


def test_a_pod_over_quota_becomes_active_when_the_quota_grows_or_a_pod_is_deleted(catalog: Catalog) -> None:
    before, running = quota({SHARES: "1"}), halves("b", "c")
    cycle = cycle_of(catalog, node("n"), device_slice("n"), before, pod("a", notes=HALF))
    (first,) = cycle.run(0.0).plans
    for each in running:
        cycle.cache.on_event(ObjectChange(None, each))
    cycle.refresh(1.0)
    assert decide_all(cycle, 1.0) == []
    cycle.cache.on_event(ObjectChange(None, pod("plain", on="n")))
    cycle.refresh(2.0)
    assert not cycle.queue.has_active, "a new pod does not change a quota"
    cycle.record_failure(first.uid, 2.0)
    cycle.refresh(2.0)
    assert decide_all(cycle, 2.0) == ["b"]
    grown = quota({SHARES: "2"}, version=2)
    cycle.cache.on_event(ObjectChange(before, grown))
    cycle.refresh(3.0)
    assert decide_all(cycle, 3.0) == ["c"]


def test_a_running_pod_counts_by_its_placement_after_its_annotations_are_removed(catalog: Catalog) -> None:
    note = PLACEMENTS.encode((DeviceShare("gpu-0", Bytes(2 << 30)),))
    running = pod("r", on="n", notes={"fairlead.dev/placement": note})
    cycle = cycle_of(catalog, node("n"), device_slice("n"), quota({MEMORY: "4000"}), running, *halves("a"))
    assert decide_all(cycle) == []
    assert "used: requests.fairlead.dev/gpu-mem=2048" in cycle.reporter.take(0.0, 9)["uid-a"]


def test_a_gang_is_within_its_quota_together_or_not_at_all(catalog: Catalog) -> None:
    ring = {keys.GANG: "ring", keys.GANG_SIZE: "2"}
    for hard, placed in (("4095", []), ("4096", ["a", "b"])):
        cycle = cycle_of(catalog, node("n"), device_slice("n"), quota({MEMORY: hard}), *halves(*"ab", **ring))
        assert decide_all(cycle) == placed
        free = sum(device.memory for device in cycle.cache.cluster.free("n").devices)
        assert free >> 20 == 8192 - 2048 * len(placed)


def test_no_pod_is_evicted_for_a_pod_over_quota(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    for notes in ({keys.KAI_FRACTION: "1"}, {keys.COUNT: "1"}):
        vip = pod("vip", notes=notes, priority=10)
        cycle = cycle_of(catalog, node("n"), device_slice("n"), quota({MEMORY: "4000"}), *low, vip)
        result = run_all(cycle)
        assert (result.plans, result.preemptions) == ((), ())
        assert "exceeded quota: gpus" in cycle.reporter.take(0.0, 9)["uid-vip"]


def test_the_memory_of_a_model_is_known_when_it_has_a_place(catalog: Catalog) -> None:
    small, large = device_slice("n", devices=1), device_slice("m", devices=1, gib=16)
    odd = pod("a", notes={keys.COUNT: "1"}, nodeSelector={"large": "yes"})
    cycle = cycle_of(catalog, node("n"), small, node("m", large="yes"), large, quota({MEMORY: "8000"}), odd)
    assert decide_all(cycle) == []
    assert "requested: requests.fairlead.dev/gpu-mem=16384" in cycle.reporter.take(0.0, 9)["uid-a"]
    assert cycle.cache.cluster.placements() == (), "it was placed to be charged, and released"


def test_quotas_of_other_resources_and_of_other_namespaces_limit_no_pod_here(catalog: Catalog) -> None:
    others = quota({"requests.cpu": "0", "pods": "0", "count/pods": "0"})
    cycle = cycle_of(catalog, node("n"), device_slice("n"), others, *halves("a"), pod("b", mib=1024))
    assert decide_all(cycle) == ["a", "b"]
    zero = quota({MEMORY: "0", SHARES: "0"})
    cycle = cycle_of(catalog, node("n"), device_slice("n"), zero, pod("b", mib=1024))
    assert decide_all(cycle) == ["b"], "the API server has counted it when it was created"


SCOPES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "class": ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high", "priority": 1}, True),
    "no-class": ({"scopes": ["PriorityClass"]}, {}, False),
    "in": (scoped("In", "high", "low"), {"priorityClassName": "low", "priority": 1}, True),
    "not-in": (scoped("NotIn", "high"), {"priorityClassName": "high", "priority": 1}, False),
    "exists": (scoped("Exists"), {"priorityClassName": "high", "priority": 1}, True),
    "absent": (scoped("DoesNotExist"), {"priorityClassName": "high", "priority": 1}, False),
    "terminating": ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 9}, True),
    "not-terminating": ({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 9}, False),
    "best-effort": ({"scopes": ["BestEffort"]}, {}, False),
    "not-best-effort": ({"scopes": ["NotBestEffort"]}, {}, True),
    "unknown": ({"scopes": ["CrossNamespacePodAffinity"]}, {}, True),
}


@pytest.mark.parametrize("case", SCOPES.values(), ids=SCOPES)
def test_a_quota_of_a_scope_limits_the_pods_of_that_scope(
    case: tuple[dict[str, Any], dict[str, Any], bool], catalog: Catalog
) -> None:
    scope, spec, covered = case
    document = msgspec.to_builtins(quota({MEMORY: "0"}))
    document["spec"] |= scope
    bound = read(QUOTAS, document)
    cycle = cycle_of(catalog, node("n"), device_slice("n"), bound, pod("a", notes=HALF, **spec))
    assert decide_all(cycle) == ([] if covered else ["a"])

"""From events to plans: a pod that fits is planned; the reason of one that does not is reported."""

from typing import Any

import msgspec

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import CLAIMS, LEADER_EPOCH, PODS
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.schedule import policy_named, preempt
from fairlead.serve.scheduler.cycle.queue import SchedulingQueue
from fairlead.serve.scheduler.cycle.scheduling import CycleResult, SchedulingCycle
from fairlead.serve.scheduler.report.metrics import SchedulerGauges, render
from tests.serve.scheduler.objects import claim, device_slice, node, pod, read
from tests.work import calls


def cycle_of(catalog: Catalog, *objects: Any) -> SchedulingCycle:
    cache, queue = SchedulerCache(catalog), SchedulingQueue()
    cycle = SchedulingCycle(cache, queue, policy_named("fairlead"), own_claims=True)
    for object_ in objects:
        cycle.cache.on_event(ObjectChange(None, object_))
    cycle.refresh(0.0)
    return cycle


def run_all(cycle: SchedulingCycle, now: float = 0.0) -> CycleResult:
    """Run cycles until no pod is active; return their results together."""
    results = []
    while cycle.queue.has_active:
        results.append(cycle.run(now))
    return CycleResult(
        tuple(each for result in results for each in result.plans),
        tuple(preemption for result in results for preemption in result.preemptions),
        tuple(volume for result in results for volume in result.volumes),
        tuple(each for result in results for each in result.stranded),
    )


def victims(result: CycleResult) -> list[str]:
    """Return the names of the pods that are to be evicted."""
    return [pod.metadata.name for preemption in result.preemptions for pod in preemption.victims]


def gang(name: str) -> Any:
    return pod(name, mib=3072, notes={"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"})


def test_a_pod_that_fits_is_planned_with_a_claim_where_it_requests_a_resource(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("a", mib=1024), pod("b"))
    plans = run_all(cycle).plans
    assert {plan.pod.metadata.name: plan.own_claim for plan in plans} == {"a": True, "b": False}
    assert {plan.placement.node for plan in plans} == {"n"}


def test_an_unschedulable_pod_gets_a_reason_and_becomes_active_when_a_pod_is_deleted(
    catalog: Catalog,
) -> None:
    full = [pod(name, on="n", mib=4096) for name in "xy"]
    cycle = cycle_of(catalog, node("n"), device_slice("n"), *full, pod("a", mib=1024))
    assert cycle.run(0.0).plans == ()
    (text,) = cycle.reporter.take(0.0, 9).values()
    assert text.startswith("0 of 2 accelerators can take a")
    assert cycle.metrics.decisions["refused", "accelerator-memory"] == 1

    cycle.refresh(1.0)
    assert cycle.run(1.0).plans == (), "no event of its hints happened"
    cycle.cache.on_event(ObjectChange(full[0], None))
    cycle.refresh(2.0)
    (plan,) = cycle.run(2.0).plans
    assert plan.pod.metadata.name == "a"


def test_a_pod_without_a_cpu_request_becomes_active_for_a_node_with_overcommitted_cpu(
    catalog: Catalog,
) -> None:
    full = [pod(name, on="n", mib=4096) for name in "xy"]
    bare = {"name": "main", "resources": {"requests": {"fairlead.dev/gpu-mem": "1024"}}}
    strained = [node("n", cpu="100m"), device_slice("n"), *full, pod("z", on="n")]
    cycle = cycle_of(catalog, *strained, pod("a", containers=[bare]))
    assert cycle.run(0.0).plans == ()
    cycle.cache.on_event(ObjectChange(full[0], None))
    cycle.refresh(2.0)
    assert cycle.cache.cluster.free("n").cpu < 0
    (plan,) = cycle.run(2.0).plans
    assert plan.pod.metadata.name == "a"


def test_nothing_is_reported_of_pods_that_joined_the_queue_just_now(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("a", mib=8192))
    cycle.cache.on_event(ObjectChange(None, pod("b", mib=8192)))
    cycle.refresh(5.0)
    run_all(cycle, 5.0)
    assert cycle.recently_queued(0.5) == {"uid-a", "uid-b"}
    assert cycle.recently_queued(5.5) == {"uid-b"}
    assert set(cycle.reporter.take(5.5, 9, cycle.recently_queued(5.5))) == {"uid-a"}
    assert set(cycle.reporter.take(6.0, 9, cycle.recently_queued(6.0))) == {"uid-b"}


def test_a_gang_is_planned_together_or_waits_together(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), gang("a"), gang("b"))
    assert cycle.run(0.0).plans == ()
    cycle.cache.on_event(ObjectChange(device_slice("n", devices=1), device_slice("n", 2, devices=2)))
    cycle.refresh(1.0)
    assert sorted(plan.pod.metadata.name for plan in cycle.run(1.0).plans) == ["a", "b"]


def test_a_higher_priority_pod_evicts_once_and_takes_the_place(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    cycle = cycle_of(catalog, node("n"), device_slice("n"), *low, pod("vip", mib=4096, priority=10))
    result = cycle.run(0.0)
    assert result.plans == ()
    (name,) = victims(result)
    (victim,) = [each for each in low if each.metadata.name == name]
    cycle.cache.on_event(ObjectChange(None, pod("other", on="n")))
    cycle.cache.on_event(ObjectChange(pod("other", on="n"), None))
    cycle.refresh(1.0)
    again = run_all(cycle, 1.0)
    assert again.plans == ()
    assert victims(again) == [], "the victim is already being evicted"

    cycle.cache.on_event(ObjectChange(victim, None))
    cycle.refresh(2.0)
    assert [plan.pod.metadata.name for plan in cycle.run(2.0).plans] == ["vip"]


def test_a_pod_that_may_not_preempt_or_has_no_higher_priority_waits(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    polite = pod("polite", mib=4096, priority=10, preemptionPolicy="Never")
    cycle = cycle_of(catalog, node("n"), device_slice("n"), *low, polite, pod("same", mib=4096))
    results = [cycle.run(0.0), cycle.run(0.0)]
    assert [(each.plans, victims(each)) for each in results] == [((), []), ((), [])]
    assert cycle.runs == 2


def test_for_many_pods_of_one_shape_victims_are_searched_once(catalog: Catalog) -> None:
    low = pod("low", on="n", mib=1024)
    held = [pod(name, on="n", mib=mib, priority=10) for name, mib in (("x", 3072), ("y", 4096))]
    vips = [pod(f"vip-{number}", mib=2048, priority=5) for number in range(20)]
    cycle = cycle_of(catalog, node("n"), device_slice("n"), low, *held, *vips)
    results: list[CycleResult] = []
    assert calls(preempt, lambda: results.extend(cycle.run(0.0) for _ in vips)) == 1
    assert [plan for result in results for plan in result.plans] == []
    assert cycle.runs == len(vips)
    cycle.cache.on_event(ObjectChange(held[0], None))
    cycle.refresh(1.0)
    results += [cycle.run(1.0) for _ in vips]
    assert len([plan for result in results for plan in result.plans]) == 1
    assert [name for result in results for name in victims(result)] == ["low"]


def test_a_higher_priority_gang_evicts_as_many_pods_as_it_needs(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
    strong = [pod(name, mib=4096, notes=ring, priority=10) for name in "ab"]
    meek = [pod(name, mib=4096, notes={**ring, "fairlead.dev/gang": "meek"}) for name in "cd"]
    cycle = cycle_of(catalog, node("n"), device_slice("n"), *low, *strong, *meek)
    results = [cycle.run(0.0), cycle.run(0.0)]
    assert [result.plans for result in results] == [(), ()]
    assert sorted(name for result in results for name in victims(result)) == ["x", "y"]
    for each in low:
        cycle.cache.on_event(ObjectChange(each, None))
    cycle.refresh(1.0)
    result = cycle.run(1.0)
    assert sorted(plan.pod.metadata.name for plan in result.plans) == ["a", "b"]
    assert victims(result) == []


def test_an_incomplete_gang_evicts_no_pod(catalog: Catalog) -> None:
    ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
    low = pod("x", on="n", mib=4096)
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), low)
    for name in "ab":
        cycle.cache.on_event(ObjectChange(None, pod(name, mib=4096, notes=ring, priority=10)))
        cycle.refresh(0.0)
        result = cycle.run(0.0)
        assert result.plans == ()
        assert victims(result) == [], "one device is too little for two pods"


def test_a_failed_binding_frees_its_place_and_is_tried_later(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("a", mib=4096))
    (plan,) = cycle.run(0.0).plans
    cycle.record_failure(plan.uid, 0.0)
    cycle.refresh(0.0)
    assert cycle.cache.cluster.placements() == ()
    assert cycle.run(0.1).plans == ()
    cycle.queue.flush_expired(1.0)
    assert [each.uid for each in cycle.run(1.0).plans] == [plan.uid]


def test_a_pod_that_is_deleted_while_it_is_being_bound_leaves_nothing_behind(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    cycle = cycle_of(catalog, node("n"), device_slice("n"), waiting)
    (plan,) = cycle.run(0.0).plans
    cycle.cache.on_event(ObjectChange(waiting, None))
    cycle.refresh(0.0)
    free = cycle.cache.cluster.free("n").devices
    assert sum(each.memory >> 20 for each in free) == 7168, "a write in flight may still take effect"
    cycle.record_failure(plan.uid, 0.0)
    cycle.refresh(0.0)
    assert len(cycle.queue) == 0
    assert cycle.cache.cluster.placements() == ()


def test_a_pod_that_another_client_bound_elsewhere_counts_on_both_nodes_until_our_writes_fail(
    catalog: Catalog,
) -> None:
    waiting = pod("a", mib=4096, nodeSelector={"here": "yes"})
    nodes = (node("n", here="yes"), device_slice("n", devices=1), node("m"), device_slice("m", devices=1))
    cycle = cycle_of(catalog, *nodes, waiting)
    (plan,) = cycle.run(0.0).plans
    cycle.cache.on_event(ObjectChange(waiting, pod("a", 2, on="m", mib=4096, nodeSelector={"here": "yes"})))
    cycle.refresh(0.0)
    free = cycle.cache.cluster.free
    assert [free(name).devices[0].memory for name in "nm"] == [0, 0]
    cycle.record_failure(plan.uid, 0.0)
    cycle.refresh(0.0)
    assert [free(name).devices[0].memory >> 30 for name in "nm"] == [4, 0]


def named_claim(name: str, user: Any, on: str = "", **notes: str) -> Any:
    """Return a claim that its user created; `on` is the node where it is allocated."""
    document = msgspec.to_builtins(claim(name, user, on=on))
    document["metadata"] |= {"annotations": notes, "ownerReferences": []}
    request = {"name": "it", "exactly": {"deviceClassName": "fairlead.dev"}}
    return read(CLAIMS, {**document, "spec": {"devices": {"requests": [request]}}})


def test_a_claim_that_is_allocated_where_its_pod_does_not_fit_is_deallocated(
    catalog: Catalog,
) -> None:
    uses = [{"name": "gpu", "resourceClaimName": "c"}]
    for marked, expected in (({LEADER_EPOCH: "0"}, ["c"]), ({}, [])):
        waiting = pod("a", resourceClaims=uses)
        there = named_claim("c", waiting, on="n", **marked)
        cycle = cycle_of(catalog, node("n", cpu="50m"), device_slice("n"), there, waiting)
        result = cycle.run(0.0)
        assert result.plans == ()
        stranded = [each.metadata.name for _, each in result.stranded]
        assert stranded == expected, "allocated by this scheduler, and for this pod alone"
        assert cycle.run(0.0).stranded == ()


def test_a_pod_that_is_deleted_before_its_claim_is_observed_still_counts(catalog: Catalog) -> None:
    waiting = pod("a", mib=4096)
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), waiting)
    (plan,) = cycle.run(0.0).plans
    bound = pod("a", 2, on="n", mib=4096)
    cycle.cache.on_event(ObjectChange(waiting, bound))
    cycle.record_bound(plan.uid, 0.0)
    cycle.cache.on_event(ObjectChange(bound, None))
    delta = cycle.refresh(0.0)
    assert cycle.cache.cluster.free("n").devices[0].memory == 0
    assert [uid for uid, _ in delta.orphaned] == [plan.uid]

    made = claim(plan.claims_to_allocate[0][1], waiting, on="n", mib=4096)
    cycle.cache.on_event(ObjectChange(None, made))
    cycle.refresh(0.0)
    assert [placement.request.id for placement in cycle.cache.cluster.placements()] == [plan.uid], (
        "once, not twice"
    )
    cycle.cache.forget(plan.uid)  # its claims were taken back as far as that was possible
    cycle.refresh(0.0)
    assert [placement.request.id for placement in cycle.cache.cluster.placements()] == [
        f"claim default/{plan.claims_to_allocate[0][1]}"
    ]
    cycle.cache.on_event(ObjectChange(made, None))
    cycle.refresh(0.0)
    assert cycle.cache.cluster.placements() == ()


def test_a_pod_that_is_deleted_just_before_its_claim_is_observed_counts_by_its_claim(
    catalog: Catalog,
) -> None:
    waiting = pod("a", mib=4096)
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), waiting)
    (plan,) = cycle.run(0.0).plans
    bound = pod("a", 2, on="n", mib=4096)
    cycle.cache.on_event(ObjectChange(waiting, bound))
    cycle.record_bound(plan.uid, 0.0)
    cycle.cache.on_event(ObjectChange(bound, None))
    made = claim(plan.claims_to_allocate[0][1], waiting, on="n", mib=4096)
    cycle.cache.on_event(ObjectChange(None, made))
    assert cycle.refresh(0.0).orphaned == ()
    assert [placement.request.id for placement in cycle.cache.cluster.placements()] == [
        f"claim default/{plan.claims_to_allocate[0][1]}"
    ]
    cycle.cache.on_event(ObjectChange(made, None))
    cycle.refresh(0.0)
    assert cycle.cache.cluster.placements() == ()


def test_one_freed_device_does_not_make_thousands_of_shapes_active(catalog: Catalog) -> None:
    full = [pod(name, on="n", mib=4096) for name in "xy"]
    crowd = [pod(f"p{number}", mib=1 + number) for number in range(1, 2000)]
    cycle = cycle_of(catalog, node("n", cpu="4000"), device_slice("n"), *full, *crowd)
    run_all(cycle)
    cycle.cache.on_event(ObjectChange(full[0], pod("x", 2, on="n", mib=4096, phase="Succeeded")))
    small = pod("s", on="n", mib=4090)
    cycle.cache.on_event(ObjectChange(None, small))
    cycle.refresh(1.0)
    asked = cycle.metrics.decisions.total()
    run_all(cycle, 1.0)
    assert cycle.metrics.decisions.total() - asked <= 6, "only pods that may fit in 6 MiB"


def test_a_gated_or_leaving_pod_is_not_pending(catalog: Catalog) -> None:
    gated = pod("a", mib=1024, schedulingGates=[{"name": "x.dev/not-yet"}])
    leaving = msgspec.to_builtins(pod("b", mib=1024))
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.dev/wait"]}
    cycle = cycle_of(catalog, node("n"), device_slice("n"), gated, read(PODS, leaving))
    assert cycle.run(0.0).plans == ()
    cycle.cache.on_event(ObjectChange(gated, pod("a", 2, mib=1024)))
    cycle.refresh(1.0)
    assert [plan.pod.metadata.resource_version for plan in cycle.run(1.0).plans] == ["2"]


def test_a_node_that_is_deleted_while_a_pod_is_being_bound_there_is_dropped_with_it(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("a", mib=1024))
    (plan,) = cycle.run(0.0).plans
    cycle.cache.on_event(ObjectChange(node("n"), None))
    cycle.refresh(0.0)
    cycle.record_failure(plan.uid, 0.0)
    cycle.refresh(0.0)
    cycle.cache.on_event(ObjectChange(None, node("n", 2)))
    cycle.refresh(0.0)
    assert cycle.cache.cluster.placements() == ()
    cycle.queue.flush_expired(1.0)
    assert [each.uid for each in cycle.run(1.0).plans] == [plan.uid]


def test_an_invalid_pod_gets_a_reason_and_affects_no_other_pod(catalog: Catalog) -> None:
    odd = pod("odd", mib=1024, notes={"fairlead.dev/gpu-compute": "-5%"})
    cycle = cycle_of(catalog, node("n"), device_slice("n"), odd, pod("b"))
    assert [plan.pod.metadata.name for plan in cycle.run(0.0).plans] == ["b"]
    assert "gpu-compute" in cycle.reporter.take(0.0, 9)["uid-odd"]


def test_the_metrics_count_decisions_by_reason(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), pod("a", mib=1024), pod("b"))
    run_all(cycle)
    text = render(cycle.metrics, SchedulerGauges(True, 3, {"active": 0, "unschedulable": 1}, 1), {}).decode()
    assert 'fairlead_scheduler_decisions_total{result="placed",reason=""} 1.0\n' in text
    assert 'fairlead_scheduler_decisions_total{result="refused",reason="no-accelerator"} 1.0\n' in text
    assert "fairlead_scheduler_leading 1.0\n" in text

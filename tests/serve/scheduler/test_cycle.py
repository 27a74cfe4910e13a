"""From what is heard to plans: who fits is planned; who does not is told why, and wakes when it could."""

from typing import Any

import msgspec
import pytest
from fairlead.serve.scheduler.desk import Desk
from fairlead.serve.scheduler.page import Now, render

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import CLAIMS, PODS, TURN
from fairlead.catalog import Catalog
from fairlead.cluster.changes import Change
from fairlead.schedule import policy_named, preempt
from fairlead.serve.scheduler import preemption as preemption_module
from tests.serve.scheduler.objects import claim, device_slice, node, pod, read


def desk_of(catalog: Catalog, *objects: Any) -> Desk:
    desk = Desk(SchedulerCache(catalog), policy_named("fairlead"), own_claims=True)
    for each in objects:
        desk.cache.on_event(Change(None, each))
    desk.hear(0.0)
    return desk


def evictions(desk: Desk) -> list[Any]:
    """Take out the pods that are to be evicted."""
    return [pod for preemption in desk.preempting() for pod in preemption.victims]


def gang(name: str) -> Any:
    return pod(name, mib=3072, notes={"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"})


def test_who_fits_is_planned_with_a_claim_where_it_asks_by_resource(catalog: Catalog) -> None:
    desk = desk_of(catalog, node("n"), device_slice("n"), pod("a", mib=1024), pod("b"))
    plans = [plan for _ in range(3) for plan in desk.decide(0.0)]
    assert {plan.pod.metadata.name: plan.own for plan in plans} == {"a": True, "b": False}
    assert {plan.placement.node for plan in plans} == {"n"}


def test_who_does_not_fit_is_told_why_and_wakes_when_a_pod_goes(catalog: Catalog) -> None:
    full = [pod(name, on="n", mib=4096) for name in "xy"]
    desk = desk_of(catalog, node("n"), device_slice("n"), *full, pod("a", mib=1024))
    assert desk.decide(0.0) == []
    (text,) = desk.sayings.take(0.0, 9).values()
    assert text.startswith("0 of 2 accelerators can take a")
    assert desk.counts.decisions["refused", "accelerator-memory"] == 1

    desk.hear(1.0)
    assert desk.decide(1.0) == [], "nothing happened that could help"
    desk.cache.on_event(Change(full[0], None))
    desk.hear(2.0)
    (plan,) = desk.decide(2.0)
    assert plan.pod.metadata.name == "a"


def test_a_pod_that_asks_for_no_cpu_wakes_on_a_node_whose_cpu_is_over_committed(catalog: Catalog) -> None:
    full = [pod(name, on="n", mib=4096) for name in "xy"]
    bare = {"name": "main", "resources": {"requests": {"fairlead.dev/gpu-mem": "1024"}}}
    strained = [node("n", cpu="100m"), device_slice("n"), *full, pod("z", on="n")]
    desk = desk_of(catalog, *strained, pod("a", containers=[bare]))
    assert desk.decide(0.0) == []
    desk.cache.on_event(Change(full[0], None))
    desk.hear(2.0)
    assert desk.cache.cluster.free("n").cpu < 0
    (plan,) = desk.decide(2.0)
    assert plan.pod.metadata.name == "a"


def test_of_newcomers_nothing_is_said_for_a_moment(catalog: Catalog) -> None:
    desk = desk_of(catalog, node("n"), device_slice("n"), pod("a", mib=8192))
    desk.cache.on_event(Change(None, pod("b", mib=8192)))
    desk.hear(5.0)
    while desk.queue.ready:
        desk.decide(5.0)
    assert desk.newcomers(0.5) == {"uid-a", "uid-b"}
    assert desk.newcomers(5.5) == {"uid-b"}
    assert set(desk.sayings.take(5.5, 9, desk.newcomers(5.5))) == {"uid-a"}
    assert set(desk.sayings.take(6.0, 9, desk.newcomers(6.0))) == {"uid-b"}


def test_a_gang_is_planned_together_or_waits_together(catalog: Catalog) -> None:
    desk = desk_of(catalog, node("n"), device_slice("n", devices=1), gang("a"), gang("b"))
    assert desk.decide(0.0) == []
    desk.cache.on_event(Change(device_slice("n", devices=1), device_slice("n", 2, devices=2)))
    desk.hear(1.0)
    assert sorted(plan.pod.metadata.name for plan in desk.decide(1.0)) == ["a", "b"]


def test_the_more_important_has_others_put_out_once_and_takes_their_place(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    desk = desk_of(catalog, node("n"), device_slice("n"), *low, pod("vip", mib=4096, priority=10))
    assert desk.decide(0.0) == []
    (victim,) = evictions(desk)
    desk.cache.on_event(Change(None, pod("other", on="n")))
    desk.cache.on_event(Change(pod("other", on="n"), None))
    desk.hear(1.0)
    assert desk.decide(1.0) == []
    assert evictions(desk) == [], "it is on its way out"

    desk.cache.on_event(Change(victim, None))
    desk.hear(2.0)
    assert [plan.pod.metadata.name for plan in desk.decide(2.0)] == ["vip"]


def test_who_may_put_nobody_out_or_is_not_more_important_waits(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    polite = pod("polite", mib=4096, priority=10, preemptionPolicy="Never")
    desk = desk_of(catalog, node("n"), device_slice("n"), *low, polite, pod("same", mib=4096))
    assert [desk.decide(0.0), desk.decide(0.0), evictions(desk)] == [[], [], []]


def test_for_many_alike_whom_nobody_can_make_room_it_is_looked_once(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def look(*given: Any, **named: Any) -> Any:
        looked.append(given)
        return preempt(*given, **named)

    monkeypatch.setattr(preemption_module, "preempt", look)
    low = pod("low", on="n", mib=1024)
    held = [pod(name, on="n", mib=mib, priority=10) for name, mib in (("x", 3072), ("y", 4096))]
    vips = [pod(f"vip-{number}", mib=2048, priority=5) for number in range(20)]
    desk = desk_of(catalog, node("n"), device_slice("n"), low, *held, *vips)
    assert [plan for _ in vips for plan in desk.decide(0.0)] == []
    assert len(looked) == 1
    desk.cache.on_event(Change(held[0], None))
    desk.hear(1.0)
    assert len([plan for _ in vips for plan in desk.decide(1.0)]) == 1
    assert [each.metadata.name for each in evictions(desk)] == ["low"]


def test_a_gang_that_is_more_important_has_as_many_put_out_as_it_needs(catalog: Catalog) -> None:
    low = [pod(name, on="n", mib=4096) for name in "xy"]
    ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
    strong = [pod(name, mib=4096, notes=ring, priority=10) for name in "ab"]
    meek = [pod(name, mib=4096, notes={**ring, "fairlead.dev/gang": "meek"}) for name in "cd"]
    desk = desk_of(catalog, node("n"), device_slice("n"), *low, *strong, *meek)
    assert [desk.decide(0.0), desk.decide(0.0)] == [[], []]
    assert sorted(each.metadata.name for each in evictions(desk)) == ["x", "y"]
    for each in low:
        desk.cache.on_event(Change(each, None))
    desk.hear(1.0)
    assert sorted(plan.pod.metadata.name for plan in desk.decide(1.0)) == ["a", "b"]
    assert evictions(desk) == []


def test_half_a_gang_puts_nobody_out(catalog: Catalog) -> None:
    ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
    low = pod("x", on="n", mib=4096)
    desk = desk_of(catalog, node("n"), device_slice("n", devices=1), low)
    for name in "ab":
        desk.cache.on_event(Change(None, pod(name, mib=4096, notes=ring, priority=10)))
        desk.hear(0.0)
        assert desk.decide(0.0) == []
        assert evictions(desk) == [], "one device is too little for two, whoever goes"


def test_what_could_not_be_written_frees_its_place_and_is_tried_later(catalog: Catalog) -> None:
    desk = desk_of(catalog, node("n"), device_slice("n"), pod("a", mib=4096))
    (plan,) = desk.decide(0.0)
    desk.failed(plan.uid, 0.0)
    desk.hear(0.0)
    assert desk.cache.cluster.placements() == ()
    assert desk.decide(0.1) == []
    desk.queue.nap(1.0)
    assert [each.uid for each in desk.decide(1.0)] == [plan.uid]


def test_a_pod_that_goes_while_it_is_being_placed_leaves_nothing_behind(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    desk = desk_of(catalog, node("n"), device_slice("n"), waiting)
    (plan,) = desk.decide(0.0)
    desk.cache.on_event(Change(waiting, None))
    desk.hear(0.0)
    free = desk.cache.cluster.free("n").devices
    assert sum(each.memory >> 20 for each in free) == 7168, "what is under way may yet take effect"
    desk.failed(plan.uid, 0.0)
    desk.hear(0.0)
    assert len(desk.queue) == 0
    assert desk.cache.cluster.placements() == ()


def test_a_pod_that_another_bound_elsewhere_is_counted_there_and_here_until_our_writes_failed(
    catalog: Catalog,
) -> None:
    waiting = pod("a", mib=4096, nodeSelector={"here": "yes"})
    nodes = (node("n", here="yes"), device_slice("n", devices=1), node("m"), device_slice("m", devices=1))
    desk = desk_of(catalog, *nodes, waiting)
    (plan,) = desk.decide(0.0)
    desk.cache.on_event(Change(waiting, pod("a", 2, on="m", mib=4096, nodeSelector={"here": "yes"})))
    desk.hear(0.0)
    free = desk.cache.cluster.free
    assert [free(name).devices[0].memory for name in "nm"] == [0, 0]
    desk.failed(plan.uid, 0.0)
    desk.hear(0.0)
    assert [free(name).devices[0].memory >> 30 for name in "nm"] == [4, 0]


def named_claim(name: str, user: Any, on: str = "", **notes: str) -> Any:
    """Return a claim of the user's own making; `on` is a node, where it was given a device there."""
    given = msgspec.to_builtins(claim(name, user, on=on))
    given["metadata"] |= {"annotations": notes, "ownerReferences": []}
    request = {"name": "it", "exactly": {"deviceClassName": "fairlead.dev"}}
    return read(CLAIMS, {**given, "spec": {"devices": {"requests": [request]}}})


def test_a_claim_that_was_given_devices_for_a_pod_that_cannot_go_there_is_given_back(
    catalog: Catalog,
) -> None:
    uses = [{"name": "gpu", "resourceClaimName": "c"}]
    for marked, expected in (({TURN: "0"}, ["c"]), ({}, [])):
        waiting = pod("a", resourceClaims=uses)
        there = named_claim("c", waiting, on="n", **marked)
        desk = desk_of(catalog, node("n", cpu="50m"), device_slice("n"), there, waiting)
        assert desk.decide(0.0) == []
        assert [each.metadata.name for _, each in desk.returns()] == expected, "ours alone, and for it alone"
        assert desk.returns() == []


def test_a_pod_that_is_seen_gone_before_its_claim_is_seen_goes_on_counting(catalog: Catalog) -> None:
    waiting = pod("a", mib=4096)
    desk = desk_of(catalog, node("n"), device_slice("n", devices=1), waiting)
    (plan,) = desk.decide(0.0)
    bound = pod("a", 2, on="n", mib=4096)
    desk.cache.on_event(Change(waiting, bound))
    desk.done(plan.uid, 0.0)
    desk.cache.on_event(Change(bound, None))
    desk.hear(0.0)
    assert desk.cache.cluster.free("n").devices[0].memory == 0
    assert list(desk.cache.orphaned) == [plan.uid]

    made = claim(plan.giving[0][1], waiting, on="n", mib=4096)
    desk.cache.on_event(Change(None, made))
    desk.hear(0.0)
    assert [each.request.id for each in desk.cache.cluster.placements()] == [
        f"claim default/{plan.giving[0][1]}"
    ]
    desk.cache.on_event(Change(made, None))
    desk.hear(0.0)
    assert desk.cache.cluster.placements() == ()


def test_one_freed_device_does_not_have_thousands_of_shapes_judged_anew(catalog: Catalog) -> None:
    full = [pod(name, on="n", mib=4096) for name in "xy"]
    crowd = [pod(f"p{number}", mib=1 + number) for number in range(1, 2000)]
    desk = desk_of(catalog, node("n", cpu="4000"), device_slice("n"), *full, *crowd)
    while desk.queue.ready:
        desk.decide(0.0)
    desk.cache.on_event(Change(full[0], pod("x", 2, on="n", mib=4096, phase="Succeeded")))
    small = pod("s", on="n", mib=4090)
    desk.cache.on_event(Change(None, small))
    desk.hear(1.0)
    asked = desk.counts.decisions.total()
    while desk.queue.ready:
        desk.decide(1.0)
    assert desk.counts.decisions.total() - asked <= 6, "only those whom 6 MiB could be enough for"


def test_who_is_gated_or_on_its_way_out_does_not_wait(catalog: Catalog) -> None:
    gated = pod("a", mib=1024, schedulingGates=[{"name": "x.dev/not-yet"}])
    leaving = msgspec.to_builtins(pod("b", mib=1024))
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.dev/wait"]}
    desk = desk_of(catalog, node("n"), device_slice("n"), gated, read(PODS, leaving))
    assert desk.decide(0.0) == []
    desk.cache.on_event(Change(gated, pod("a", 2, mib=1024)))
    desk.hear(1.0)
    assert [plan.pod.metadata.resource_version for plan in desk.decide(1.0)] == ["2"]


def test_a_node_that_goes_while_a_pod_is_being_bound_there_is_forgotten_with_it(catalog: Catalog) -> None:
    desk = desk_of(catalog, node("n"), device_slice("n"), pod("a", mib=1024))
    (plan,) = desk.decide(0.0)
    desk.cache.on_event(Change(node("n"), None))
    desk.hear(0.0)
    desk.failed(plan.uid, 0.0)
    desk.hear(0.0)
    desk.cache.on_event(Change(None, node("n", 2)))
    desk.hear(0.0)
    assert desk.cache.cluster.placements() == ()
    desk.queue.nap(1.0)
    assert [each.uid for each in desk.decide(1.0)] == [plan.uid]


def test_nonsense_is_told_to_its_user_and_disturbs_nobody(catalog: Catalog) -> None:
    odd = pod("odd", mib=1024, notes={"fairlead.dev/gpu-compute": "-5%"})
    desk = desk_of(catalog, node("n"), device_slice("n"), odd, pod("b"))
    assert [plan.pod.metadata.name for plan in desk.decide(0.0)] == ["b"]
    assert "gpu-compute" in desk.sayings.take(0.0, 9)["uid-odd"]


def test_the_page_counts_decisions_with_their_reason(catalog: Catalog) -> None:
    desk = desk_of(catalog, node("n"), pod("a", mib=1024), pod("b"))
    desk.decide(0.0)
    desk.decide(0.0)
    text = render(desk.counts, Now(True, 3, {"ready": 0, "parked": 1}, 1, {})).decode()
    assert 'fairlead_scheduler_decisions_total{result="placed",reason=""} 1.0\n' in text
    assert 'fairlead_scheduler_decisions_total{result="refused",reason="no-accelerator"} 1.0\n' in text
    assert "fairlead_scheduler_leading 1.0\n" in text

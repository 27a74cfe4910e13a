"""Preemption: which pods are evicted, and which never are."""

from dataclasses import replace

import pytest

from fairlead.placement import Placement
from fairlead.request import Demand, Gang, Request, Selector, Taint
from fairlead.schedule import EngineCluster, place_all, preempt
from fairlead.share import DeviceShare
from tests.schedule.clusters import equal, gib, gpu, node, servers, share, whole


def on(request: Request, where: str, device: str) -> Placement:
    return Placement(request, where, (DeviceShare(device, request.demand.memory or gib(16)),))


def world() -> EngineCluster:
    return EngineCluster(
        servers(2),
        [
            on(share("low-1", 8, priority=1), "n0", "gpu-0"),
            on(share("low-2", 8, priority=1), "n0", "gpu-0"),
            on(share("mid", 15, priority=5), "n0", "gpu-1"),
            on(share("high", 15, priority=9), "n1", "gpu-0"),
            on(share("same", 15, priority=7), "n1", "gpu-1"),
        ],
    )


@pytest.mark.parametrize(
    ("request_", "victims"),
    [
        (share("a", 1, priority=1), set()),  # there is room
        (share("a", 4, priority=1), set()),  # equals are safe
        (share("a", 4, priority=2), {"default/low-2"}),
        (share("a", 9, priority=2), {"default/low-1", "default/low-2"}),
        (share("a", 9, priority=7), {"default/low-1", "default/low-2"}),  # two of the lowest before one above
        (whole("a", priority=7), {"default/low-1", "default/low-2"}),
        (whole("a", 2, priority=7), {"default/low-1", "default/low-2", "default/mid"}),
        (whole("a", 2, priority=9), {"default/low-1", "default/low-2", "default/mid"}),
        (share("a", 4, priority=2, preempts=False), set()),
        (share("a", 17, priority=99), set()),
        (share("a", 4, priority=99, selector=Selector.of({"no": "such"})), set()),
    ],
    ids=lambda value: "" if isinstance(value, set) else f"{value.demand.memory}@{value.priority}",
)
def test_the_lowest_priorities_are_evicted_and_no_more_than_necessary(
    request_: Request, victims: set[str]
) -> None:
    cluster = world()
    decision = preempt(cluster, request_)
    assert set(decision.victims) == victims
    assert decision.placed == (bool(victims) or request_.demand.memory == gib(1))
    assert equal(cluster, world())


def test_spared_requests_are_not_evicted() -> None:
    decision = preempt(world(), share("a", 4, priority=2), spared={"default/low-1"})
    assert decision.victims == ("default/low-2",)


def test_of_equal_counts_the_lowest_priorities_are_evicted() -> None:
    cluster = EngineCluster(
        servers(1), [on(share(f"p{at}", 12, priority=at), "n0", f"gpu-{at}") for at in range(2)]
    )
    assert preempt(cluster, share("a", 8, priority=3)).victims == ("default/p0",)


def test_preemption_frees_cpu_too() -> None:
    nodes = [node("n0", gpu(), cpu=4000)]
    pods = [Placement(Request(f"p{at}", cpu=size), "n0") for at, size in enumerate((500, 2000, 1500))]
    decision = preempt(EngineCluster(nodes, pods), share("a", 4, cpu=1500, priority=1))
    assert len(decision.victims) == 1
    assert decision.placed


def test_a_victim_below_the_minimum_size_takes_its_gang_along() -> None:
    gang = [replace(share(f"g{at}", 12), gang=Gang("g", 3)) for at in range(3)]
    where = (("n0", "gpu-0"), ("n0", "gpu-1"), ("n1", "gpu-0"))
    cluster = EngineCluster(servers(2), [on(each, *place) for each, place in zip(gang, where, strict=True)])
    cluster.bind(on(share("x", 16, priority=9), "n1", "gpu-1"))
    assert set(preempt(cluster, share("a", 8, priority=1)).victims) == {
        "default/g0",
        "default/g1",
        "default/g2",
    }


def test_a_gang_has_the_priority_of_its_highest_member() -> None:
    gang = [replace(share(f"g{at}", 12, priority=9 * at), gang=Gang("g", 2)) for at in range(2)]
    cluster = EngineCluster(servers(1), [on(each, "n0", f"gpu-{at}") for at, each in enumerate(gang)])
    assert preempt(cluster, share("a", 8, priority=5)).victims == ()
    assert preempt(cluster, share("a", 8, priority=10), spared={"default/g1"}).victims == ()
    assert set(preempt(cluster, share("a", 8, priority=10)).victims) == {"default/g0", "default/g1"}


def test_evicting_a_gang_costs_all_of_its_members() -> None:
    gang = [replace(share(f"g{at}", 16), gang=Gang("g", 3)) for at in range(3)]
    where = (("n0", "gpu-0"), ("n0", "gpu-1"), ("n1", "gpu-0"))
    cluster = EngineCluster(servers(2), [on(each, *place) for each, place in zip(gang, where, strict=True)])
    cluster.bind(on(share("x", 8), "n1", "gpu-1"))
    cluster.bind(on(share("y", 8), "n1", "gpu-1"))
    assert set(preempt(cluster, whole("a", priority=1)).victims) == {"default/x", "default/y"}


def test_a_request_for_no_cpu_evicts_no_pod_for_cpu() -> None:
    busy = [Placement(Request(f"p{at}", cpu=3000), "n0") for at in range(2)]
    cluster = EngineCluster([node("n0", gpu(), cpu=4000)], busy)
    assert preempt(cluster, share("a", 4, priority=9)).victims == ()


def test_preemption_does_not_override_taints() -> None:
    cluster = EngineCluster([node("n0", gpu(), taints=(Taint("keep"),))], [on(share("a", 16), "n0", "gpu-0")])
    assert not preempt(cluster, share("b", 8, priority=9)).placed


def test_a_queue_is_placed_by_priority_and_retries_evicted_requests() -> None:
    cluster = EngineCluster(servers(1, 2), [on(share("old", 12), "n0", "gpu-0")])
    requests = [
        share("late", 12, priority=1),
        replace(whole("g0", priority=0), gang=Gang("g", 2)),
        share("vip", 16, priority=9),
        replace(whole("g1", priority=0), gang=Gang("g", 2)),
    ]
    decisions = {decision.request.name: decision for decision in place_all(cluster, requests)}
    assert list(decisions) == ["late", "g0", "vip", "g1"]
    assert decisions["vip"].placed
    assert decisions["vip"].victims == ()
    assert decisions["late"].victims == ("default/old",)
    assert not decisions["g0"].placed
    assert not decisions["g1"].placed


def test_an_evicted_request_of_a_queue_is_decided_again() -> None:
    nodes = [node("n0", gpu(0), cpu=1000), node("n1", gpu(0, memory=8), cpu=9000)]
    requests = [share("small", 8, cpu=500), share("big", 16, cpu=500, priority=2)]
    decisions = place_all(EngineCluster(nodes), requests, "fgd")
    assert [decision.placed for decision in decisions] == [True, True]
    assert [decision.request.name for decision in decisions] == ["small", "big"]


def test_preemption_can_be_disabled() -> None:
    cluster = EngineCluster(servers(1, 1), [on(share("old", 12), "n0", "gpu-0")])
    assert not place_all(cluster, [share("a", 8, priority=5)], preemption=False)[0].placed
    assert Demand() == Request("a").demand

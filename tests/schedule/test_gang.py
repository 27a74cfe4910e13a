"""Gangs: placed whole or not at all."""

from dataclasses import replace

import pytest

from fairlead.placement import Placement, Reason
from fairlead.request import Demand, Expectation, Gang, PodAffinityTerm, Request, Selector
from fairlead.schedule import EngineCluster, place_gang
from fairlead.schedule.decision.gang import place_gang as place_gang_again
from fairlead.share import DeviceShare
from tests.schedule.clusters import equal, gib, gpu, node, servers, share


def gang(count: int, size: int = 0, **more: object) -> list[Request]:
    demand = more.pop("demand", Demand(1))
    return [
        Request(f"m{at}", gang=Gang("g", size or count), demand=demand, **more)  # type: ignore[arg-type]
        for at in range(count)
    ]


@pytest.mark.parametrize("policy", ["fairlead", "spread", "fgd", "exclusive"])
def test_a_gang_that_fits_is_placed_whole(policy: str) -> None:
    cluster = EngineCluster(servers(4))
    decisions = place_gang(cluster, gang(8), policy)
    assert all(decision.placed for decision in decisions)
    assert len(cluster.placements()) == 8
    assert all(device.holders == 1 for at in range(4) for device in cluster.free(f"n{at}").devices)


@pytest.mark.parametrize(
    "demand", [Demand(1), Demand(2), Demand(1, memory=gib(9)), Demand(1, compute=600)], ids=str
)
def test_a_gang_that_does_not_fit_leaves_no_trace(demand: Demand) -> None:
    cluster = EngineCluster(servers(4))
    decisions = place_gang(cluster, gang(9, demand=demand))
    assert not any(decision.placed for decision in decisions)
    assert equal(cluster, EngineCluster(servers(4)))
    assert "of 9 of the gang fit; then 0 of 8 accelerators can take m" in decisions[0].sentence()
    assert {decision.rejections[0].reason for decision in decisions} == {Reason.GANG}


def test_a_gang_waits_for_its_members() -> None:
    decisions = place_gang(EngineCluster(servers(4)), gang(3, 5))
    assert decisions[0].sentence() == "m0 cannot be placed: the gang has 3 members and must have 5"
    (alone,) = place_gang(EngineCluster(servers(4)), gang(1, 5))
    assert alone.sentence() == "m0 cannot be placed: the gang has 1 member and must have 5"


def test_members_above_the_minimum_are_optional() -> None:
    cluster = EngineCluster(servers(2))
    decisions = place_gang(cluster, gang(6, 4))
    assert [decision.placed for decision in decisions] == [True] * 4 + [False] * 2
    assert decisions[5].rejections[0].reason is Reason.BUSY
    late = replace(gang(1, 4)[0], name="late", demand=Demand())
    assert place_gang_again(cluster, [late])[0].placed  # the other members of its gang are placed


def test_members_fill_one_node_before_the_next() -> None:
    cluster = EngineCluster(servers(4))
    place_gang(cluster, gang(4, demand=Demand(1, memory=gib(4))))
    assert sorted(len(cluster.placed_on(row)) for row in range(4)) == [0, 0, 0, 4]


def test_members_spread_where_the_policy_does() -> None:
    cluster = EngineCluster(servers(4))
    place_gang(cluster, gang(4, demand=Demand(1, memory=gib(4))), "spread")
    assert [len(cluster.placed_on(row)) for row in range(4)] == [1, 1, 1, 1]


def test_members_may_differ_and_keep_inter_pod_rules() -> None:
    anti_affinity = (PodAffinityTerm(Selector.of({"app": "x"})),)
    mixed = [replace(each, labels={"app": "x"}, pod_anti_affinity=anti_affinity) for each in gang(4)]
    mixed[0] = replace(mixed[0], demand=Demand(2))
    cluster = EngineCluster(servers(4))
    assert all(decision.placed for decision in place_gang(cluster, mixed))
    assert [len(cluster.placed_on(row)) for row in range(4)] == [1, 1, 1, 1]


def test_unified_memory_is_counted_once_for_each_member() -> None:
    cluster = EngineCluster([node("board", gpu(memory=8, unified=True), memory=gib(8))])
    cluster.bind(place_of(share("old", 2)))
    decisions = place_gang(cluster, gang(3, 1, demand=Demand(1, memory=gib(2)), memory=gib(0.5)))
    assert [decision.placed for decision in decisions] == [True, True, False]


def place_of(request: Request):  # type: ignore[no-untyped-def]
    return place_gang(EngineCluster([node("board", gpu(memory=8, unified=True), memory=gib(8))]), [request])[
        0
    ].placement


def test_a_gang_preempts_for_all_of_its_members_or_for_none() -> None:
    taken = [
        Placement(share(f"p{at}", 12), f"n{at // 2}", (DeviceShare(f"gpu-{at % 2}", gib(12)),))
        for at in range(4)
    ]
    cluster = EngineCluster(servers(2), taken)
    assert not any(each.placed for each in place_gang(cluster, gang(3, priority=5)))
    assert not any(each.placed for each in place_gang(cluster, gang(5, priority=5), preemption=True))
    assert equal(cluster, EngineCluster(servers(2), taken))
    decisions = place_gang(cluster, gang(3, priority=5), preemption=True)
    assert all(decision.placed for decision in decisions)
    assert len({victim for decision in decisions for victim in decision.victims}) == 3
    assert len(cluster.placements()) == 4


def test_members_of_a_gang_do_not_preempt_each_other() -> None:
    cluster = EngineCluster(servers(1, 1))
    low, high = gang(2)
    assert not any(
        each.placed for each in place_gang(cluster, [low, replace(high, priority=9)], preemption=True)
    )


@pytest.mark.parametrize(
    ("policy", "devices"),
    [("fastest", ["gpu-1", "gpu-1"]), ("spread", ["gpu-1", "gpu-0"]), ("binpack", ["gpu-0", "gpu-0"])],
)
def test_members_get_the_accelerators_that_a_single_request_would(policy: str, devices: list[str]) -> None:
    taken = Placement(share("old", 2), "n0", (DeviceShare("gpu-0", gib(2)),))
    cluster = EngineCluster([node("n0", gpu(0, "t4"), gpu(1, "a100"))], [taken])
    expected = {"t4": Expectation(0.02), "a100": Expectation(0.001)}
    members = gang(2, demand=Demand(1, memory=gib(3)), estimates=expected)
    placements = [each.placement for each in place_gang(cluster, members, policy)]
    assert [share.device for placement in placements if placement for share in placement.shares] == devices

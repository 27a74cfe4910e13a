"""The state of a cluster: free capacity, checkpoints and rollback."""

from dataclasses import replace

import pytest

from fairlead.errors import AllocationRefusedError
from fairlead.placement import Placement
from fairlead.request import Demand, Request
from fairlead.schedule import EngineCluster, decide, place
from fairlead.schedule.state.cluster import MIN_LOG_LENGTH
from fairlead.share import DeviceShare
from tests.schedule.clusters import equal, gib, gpu, node, servers, share, whole


def placed(name: str, where: str, memory: float) -> Placement:
    return Placement(share(name, memory, cpu=1000), where, (DeviceShare("gpu-0", gib(memory)),))


def test_a_bound_request_takes_capacity_until_it_is_released() -> None:
    cluster = EngineCluster(servers(1))
    cluster.bind(placed("a", "n0", 3))
    free = cluster.free("n0")
    assert (free.cpu, free.devices[0].memory, free.devices[0].holders) == (7000, gib(13), 1)
    assert cluster.release("default/a").node == "n0"
    assert equal(cluster, EngineCluster(servers(1)))


def test_unified_memory_is_the_memory_of_the_node() -> None:
    cluster = EngineCluster([node("board", gpu(memory=8, unified=True), memory=gib(8))])
    cluster.bind(Placement(share("a", 3, memory=gib(1)), "board", (DeviceShare("gpu-0", gib(3)),)))
    assert cluster.free("board").memory == gib(4)
    assert not decide(cluster, share("b", 4.5)).placed
    assert decide(cluster, share("b", 4)).placed


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        (placed("b", "n9", 1), "there is no node 'n9'"),
        (placed("a", "n0", 1), "is already placed"),
        (placed("b", "n0", 14), "has only 13 GiB left on gpu-0"),
        (Placement(Request("b"), "n0", (DeviceShare("gpu-7"),)), "has no accelerator 'gpu-7'"),
        (Placement(Request("b", cpu=9000), "n0"), "too little CPU"),
        (Placement(whole("b"), "n0", (DeviceShare("gpu-0", whole=True),)), "to other pods"),
    ],
)
def test_an_impossible_placement_is_not_bound(placement: Placement, text: str) -> None:
    cluster = EngineCluster(servers(1), [placed("a", "n0", 3)])
    with pytest.raises(AllocationRefusedError, match=text):
        cluster.bind(placement)
    assert equal(cluster, EngineCluster(servers(1), [placed("a", "n0", 3)]))


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        (
            Placement(share("b", 3, memory=gib(2)), "board", (DeviceShare("gpu-0", gib(3)),)),
            "too little memory",
        ),
        (Placement(Request("b", resources=(("x.io/y", 2),)), "board"), "too little x.io/y"),
        (
            Placement(Request("b"), "board", (DeviceShare("gpu-0", gib(3)), DeviceShare("gpu-0", gib(3)))),
            "only 4.0 GiB left on gpu-0",
        ),
        (
            Placement(Request("b"), "board", (DeviceShare("gpu-1", gib(1)),)),
            "has allocated gpu-1 to other pods",
        ),
    ],
)
def test_no_capacity_is_allocated_twice(placement: Placement, text: str) -> None:
    board = node(
        "board",
        gpu(0, memory=8, unified=True),
        gpu(1, shareable=False),
        memory=gib(8),
        resources={"x.io/y": 1},
    )
    taken = share("a", 4)
    cluster = EngineCluster(
        [board], [Placement(taken, "board", (DeviceShare("gpu-0", gib(4)), DeviceShare("gpu-1")))]
    )
    with pytest.raises(AllocationRefusedError, match=text):
        cluster.bind(placement)


def test_a_released_resource_that_no_node_had_leaves_nothing() -> None:
    asks = Request("a", resources=(("x.io/y", 1),))
    cluster = EngineCluster([node("n0")], [Placement(asks, "n0")])
    cluster.put(node("n1", resources={"x.io/y": 1}))
    cluster.release("default/a")
    decision = decide(cluster, asks)
    assert decision.placement is not None
    assert decision.placement.node == "n1"


def test_a_whole_share_covers_an_accelerator_that_grows() -> None:
    cluster = EngineCluster([node("n0", gpu(memory=0))])
    assert place(cluster, whole("a")).placed
    cluster.put(node("n0", gpu(compute=2000)))
    assert cluster.free("n0").devices[0].compute == 0
    assert not decide(cluster, share("b", 1)).placed


def test_a_request_for_none_of_a_resource_ignores_its_over_commitment() -> None:
    pods = [Placement(Request(f"p{at}", cpu=5000, memory=gib(20)), "n0") for at in range(2)]
    cluster = EngineCluster(servers(1), pods)
    assert cluster.free("n0").cpu < 0
    assert decide(cluster, share("free", 1)).placed
    assert not decide(cluster, share("asks", 1, cpu=1)).placed
    assert not decide(cluster, share("asks", 1, memory=gib(1))).placed


def test_an_over_committed_node_is_counted_as_it_is() -> None:
    cluster = EngineCluster(servers(1), [placed("a", "n0", 10), placed("b", "n0", 10)])
    assert cluster.free("n0").devices[0].memory == gib(-4)
    assert not decide(cluster, Request("c", demand=Demand(2, compute=1))).placed


def test_a_node_that_changes_keeps_its_placements() -> None:
    cluster = EngineCluster(servers(2), [placed("a", "n1", 3)])
    smaller = replace(servers(2)[1], cpu=2000, devices=(gpu(0), gpu(1), gpu(2)))
    cluster.put(smaller)
    assert cluster.free("n1").cpu == 1000
    assert len(cluster.free("n1").devices) == 3
    assert equal(cluster, EngineCluster([servers(2)[0], smaller], [placed("a", "n1", 3)]))


def test_removing_a_node_removes_its_placements() -> None:
    cluster = EngineCluster(servers(2), [placed("a", "n1", 3)])
    assert [each.request.name for each in cluster.remove("n1")] == ["a"]
    assert cluster.placements() == ()
    assert equal(cluster, EngineCluster(servers(1)))


def test_rollback_undoes_every_change() -> None:
    cluster = EngineCluster(servers(2), [placed("a", "n1", 3)])
    outer = cluster.checkpoint()
    cluster.release("default/a")
    inner = cluster.checkpoint()
    cluster.remove("n0")
    cluster.put(node("n7"))
    cluster.rollback(inner)
    assert {each.name for each in cluster.nodes()} == {"n0", "n1"}
    cluster.put(node("n0", cpu=1))
    cluster.rollback(outer)
    assert equal(cluster, EngineCluster(servers(2), [placed("a", "n1", 3)]))


def test_a_cache_behind_the_log_rescores_every_row() -> None:
    cluster = EngineCluster(servers(2))
    assert decide(cluster, whole("a")).placed
    cluster.remove("n1")
    for _ in range(MIN_LOG_LENGTH):
        cluster.put(servers(1)[0])
    assert cluster.changed_since(0) is None
    cluster.put(replace(servers(1)[0], unschedulable=True))
    assert not decide(cluster, whole("a")).placed


def test_a_committed_change_stays() -> None:
    cluster = EngineCluster(servers(1))
    mark = cluster.checkpoint()
    cluster.bind(placed("a", "n0", 3))
    cluster.commit(mark)
    assert cluster.placement("default/a") is not None

"""Single decisions: where a request goes, and why it does not go elsewhere."""

import math
from dataclasses import replace

import pytest

from fairlead.placement import NodeState, Placement, Reason
from fairlead.request import (
    Demand,
    Expectation,
    LabelTerm,
    MatchOperator,
    PreferredNodes,
    Request,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
)
from fairlead.schedule import EngineCluster, decide, place, policy_named
from fairlead.schedule.decision.decide import LARGE, round_up, round_up_request
from fairlead.share import DeviceShare
from tests.schedule.clusters import gib, gpu, node, servers, share, whole


def reasons(cluster: EngineCluster, request: Request, policy: str = "fairlead") -> list[tuple[Reason, int]]:
    decision = decide(cluster, request, policy)
    assert not decision.placed
    return [(rejection.reason, rejection.count) for rejection in decision.rejections]


def where(cluster: EngineCluster, request: Request, policy: str = "fairlead") -> str:
    placement = decide(cluster, request, policy).placement
    assert placement is not None
    return "/".join((placement.node, *(each.device for each in placement.shares)))


FLEET = (
    node("board", gpu(model="jetson", memory=4, unified=True, precisions=("fp32", "fp16")), memory=gib(4)),
    node("stick", gpu(model="coral", memory=0, vendor="google", precisions=("int8",), shareable=False)),
    node("server", gpu(0), gpu(1, healthy=False), gpu(2), labels={"zone": "a", "cores": "16"}),
)


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        (Demand(1, models=("coral",)), "stick/gpu-0"),
        (Demand(1, vendors=("google",)), "stick/gpu-0"),
        (Demand(1, precision="int8", vendors=("google",)), "stick/gpu-0"),
        (Demand(1, memory=gib(10)), "server/gpu-0"),
        (Demand(2, memory=gib(1)), "server/gpu-0/gpu-2"),
        (Demand(2), "server/gpu-0/gpu-2"),
        (Demand(1, memory=gib(2), excluded=("t4",)), "board/gpu-0"),
        (Demand(1, compute=300, models=("t4", "none")), "server/gpu-0"),
    ],
    ids=str,
)
def test_the_demand_decides_which_accelerators_suffice(demand: Demand, expected: str) -> None:
    assert where(EngineCluster(FLEET), Request("a", demand=demand)) == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request("a", demand=Demand(1, models=("h200",))), [(Reason.MODEL, 4), (Reason.HEALTH, 1)]),
        (
            Request("a", demand=Demand(1, memory=gib(20))),
            [(Reason.DEVICE_MEMORY, 3), (Reason.UNSHARED, 1), (Reason.HEALTH, 1)],
        ),
        (
            Request("a", demand=Demand(3, compute=100)),
            [(Reason.DEVICES, 3), (Reason.UNSHARED, 1), (Reason.HEALTH, 1)],
        ),
        (
            Request("a", demand=Demand(1, memory=gib(1), precision="fp8", excluded=("t4",))),
            [(Reason.PRECISION, 2), (Reason.MODEL, 2), (Reason.HEALTH, 1)],
        ),
        (share("a", 1, cpu=9000), [(Reason.CPU, 5)]),
        (share("a", 1, memory=gib(33)), [(Reason.MEMORY, 5)]),
        (share("a", 1, resources=(("x.io/y", 1),)), [(Reason.RESOURCE, 5)]),
        (Request("a", cpu=9000), [(Reason.CPU, 3)]),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value.demand),
)
def test_each_accelerator_is_counted_under_one_reason(
    request_: Request, expected: list[tuple[Reason, int]]
) -> None:
    assert sorted(reasons(EngineCluster(FLEET), request_)) == sorted(expected)


def test_an_accelerator_with_unknown_precisions_is_allowed() -> None:
    assert where(EngineCluster(FLEET), Request("a", demand=Demand(1, precision="fp8"))) == "server/gpu-0"


def test_a_refusal_has_the_need_and_the_most_free() -> None:
    cluster = EngineCluster(servers(2), ())
    for name in ("a", "b", "c", "d"):
        place(cluster, share(name, 13))
    decision = decide(cluster, share("e", 4))
    assert decision.sentence() == (
        "0 of 4 accelerators can take e: 4 lack memory (need 4.0 GiB, most 3.0 GiB free)"
    )
    assert (decision.rejections[0].need, decision.rejections[0].most) == (gib(4), gib(3))


def test_a_whole_accelerator_takes_no_other_pod() -> None:
    cluster = EngineCluster(servers(1, 1))
    assert place(cluster, whole("a")).placed
    assert reasons(cluster, whole("b")) == [(Reason.BUSY, 1)]
    assert reasons(cluster, share("c", 1)) == [(Reason.DEVICE_MEMORY, 1)]
    assert reasons(cluster, Request("d", demand=Demand(1, compute=1))) == [(Reason.DEVICE_MEMORY, 1)]


def test_a_share_of_all_compute_leaves_no_room_for_memory_alone() -> None:
    cluster = EngineCluster(servers(1, 1))
    place(cluster, Request("a", demand=Demand(1, compute=1000, memory=gib(1))))
    assert reasons(cluster, share("b", 1)) == [(Reason.DEVICE_COMPUTE, 1)]


@pytest.mark.parametrize("policy", ["fairlead", "fgd", "binpack", "bestfit"])
def test_packing_policies_keep_other_accelerators_whole(policy: str) -> None:
    cluster = EngineCluster(servers(2))
    nodes = [decide_and_place(cluster, share(name, 4), policy) for name in "abcd"]
    assert len(set(nodes)) == 1


def decide_and_place(cluster: EngineCluster, request: Request, policy: str) -> str:
    placement = place(cluster, request, policy).placement
    assert placement is not None
    return f"{placement.node}/{placement.shares[0].device}"


def test_spread_and_exclusive_use_every_accelerator() -> None:
    spread, alone = EngineCluster(servers(2)), EngineCluster(servers(2))
    assert len({decide_and_place(spread, share(name, 4), "spread") for name in "abcd"}) == 4
    assert len({decide_and_place(alone, share(name, 4), "exclusive") for name in "abcd"}) == 4
    assert reasons(alone, share("e", 4), "exclusive") == [(Reason.BUSY, 4)]
    assert alone.free("n0").devices[0].memory == 0


ESTIMATES = {
    "t4": Expectation(0.010, 0.7, gib(2)),
    "jetson": Expectation(0.040, 0.2, gib(1)),
    "coral": Expectation(reason="int8 only"),
}


@pytest.mark.parametrize(
    ("policy", "slo", "expected"),
    [
        ("fastest", None, "server/gpu-0"),
        ("frugal", None, "board/gpu-0"),
        ("fairlead", None, "server/gpu-0"),
        ("fairlead", 0.050, "board/gpu-0"),  # both keep the SLO, so energy and fit decide
        ("frugal", 0.020, "server/gpu-0"),
    ],
)
def test_estimates_choose_the_device(policy: str, slo: float | None, expected: str) -> None:
    request = Request("a", demand=Demand(1), estimates=ESTIMATES, slo=slo)
    assert where(EngineCluster(FLEET), request, policy) == expected


def test_estimates_size_a_request_that_names_no_size() -> None:
    decision = decide(EngineCluster(FLEET), Request("a", demand=Demand(1), estimates=ESTIMATES), "fastest")
    assert decision.placement is not None
    assert decision.placement.shares[0].memory == gib(2)


def test_an_slo_that_no_accelerator_keeps_is_refused_with_the_best_latency() -> None:
    decision = decide(EngineCluster(FLEET), Request("a", demand=Demand(1), estimates=ESTIMATES, slo=0.005))
    texts = {rejection.reason: rejection.text for rejection in decision.rejections}
    assert texts[Reason.SLO] == "are too slow (need 5 ms, best 10 ms expected)"
    assert texts[Reason.ESTIMATE] == "do not run it (int8 only)"


CORDON = Toleration("node.kubernetes.io/unschedulable", exists=True)
ZONE_1 = Selector.of({"zone": "1"})
NAMED_B = LabelTerm("metadata.name", MatchOperator.IN, ("b",))
ANY_TAINT = Toleration(exists=True)
LABELLED = (
    node("a", labels={"zone": "1", "cores": "8"}, taints=(Taint("gpu", "t4"),)),
    node(
        "b",
        labels={"zone": "2", "cores": "16"},
        taints=(Taint("old", effect=TaintEffect.PREFER_NO_SCHEDULE),),
    ),
    node("c", labels={"cores": "32"}, unschedulable=True),
    node("d", labels={"zone": "2", "cores": "4"}),
)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request("x"), {"d"}),  # b has a PreferNoSchedule taint
        (Request("x", selector=Selector((LabelTerm("cores", MatchOperator.GREATER, ("8",)),))), {"b"}),
        (Request("x", selector=Selector.of({"zone": "2"})), {"d"}),
        (Request("x", tolerations=(CORDON,), selector=Selector.of({"cores": "32"})), {"c"}),
        (Request("x", tolerations=(Toleration("gpu", exists=True),), selector=ZONE_1), {"a"}),
        (Request("x", affinity=(Selector.of({"zone": "9"}), Selector.of({"cores": "16"}))), {"b"}),
        (Request("x", affinity=(Selector(names=(NAMED_B,)),)), {"b"}),
        (Request("x", preferences=(PreferredNodes(100, Selector.of({"cores": "16"})),)), {"b", "d"}),
        (Request("x", tolerations=(ANY_TAINT,), preferences=(PreferredNodes(9, ZONE_1),)), {"a"}),
    ],
    ids=range(9),
)  # fmt: skip
def test_labels_and_taints_are_honoured_as_in_kubernetes(request_: Request, expected: set[str]) -> None:
    assert where(EngineCluster(LABELLED), request_) in expected


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (Selector.of({"zone": "9"}), (Reason.SELECTOR, 2)),
        (Selector((LabelTerm("zone", MatchOperator.DOES_NOT_EXIST),)), (Reason.SELECTOR, 2)),
    ],
)
def test_refusals_of_nodes_are_counted(selector: Selector, reason: tuple[Reason, int]) -> None:
    counts = reasons(EngineCluster(LABELLED), Request("x", selector=selector))
    assert set(counts) == {reason, (Reason.TAINT, 1), (Reason.UNSCHEDULABLE, 1)}


def test_an_empty_cluster_has_its_own_reason() -> None:
    assert decide(EngineCluster(), whole("a")).rejections[0].reason is Reason.NO_DEVICE
    assert (
        decide(EngineCluster([node("a")]), whole("a"))
        .sentence()
        .endswith("there is no accelerator in the cluster")
    )


def test_an_invalid_request_is_refused_by_its_field() -> None:
    decision = decide(EngineCluster(servers(1)), Request("a", cpu=math.nan))  # type: ignore[arg-type]
    assert decision.sentence() == "a cannot be placed: cpu: nan is not a whole number"


@pytest.mark.parametrize(
    ("amount", "expected"), [(0, 0), (1, 1), (31, 31), (33, 34), (1000, 1024), (1024, 1024)]
)
def test_amounts_are_rounded_up_by_an_eighth_at_most(amount: int, expected: int) -> None:
    assert round_up(amount, 5) == expected


def test_a_large_cluster_searches_with_rounded_amounts_but_takes_the_exact_ones() -> None:
    wide = tuple(gpu(at) for at in range(8))
    nodes = [NodeState(f"n{at}", 8000, gib(32), devices=wide) for at in range(LARGE // 8 + 1)]
    cluster = EngineCluster(nodes)
    assert cluster.cells > LARGE
    odd = share("a", 3.337, cpu=333)
    decision = place(cluster, odd)
    assert decision.placement is not None
    assert decision.placement.shares[0].memory == odd.demand.memory
    assert round_up_request(odd).demand.memory == gib(3.5)
    # A request that fits exactly, but not rounded up, is still placed.
    last = replace(odd, name="b", demand=Demand(8, memory=gib(15.99)))
    assert place(cluster, last).placed


def test_an_unknown_policy_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(Exception, match="unknown policy 'fairlad'") as caught:
        policy_named("fairlad")
    assert caught.value.hint == "did you mean fairlead?"  # type: ignore[attr-defined]


def test_rounding_does_not_move_a_request_to_a_larger_accelerator() -> None:
    odd = gib(22.2)
    assert round_up_request(share("a", 22.2)).demand.memory == gib(24)
    assert round_up_request(share("a", 22.2), (odd, gib(80))).demand.memory == odd
    assert round_up_request(share("a", 22.2), (gib(16), gib(80))).demand.memory == gib(24)


def test_a_faster_accelerator_that_is_added_later_is_used() -> None:
    expected = {"t4": Expectation(0.02), "a100": Expectation(0.01)}
    request = replace(share("a", 1), estimates=expected)
    cluster = EngineCluster([node("n0", gpu(0, "t4"))])
    assert decide(cluster, request, "fastest").score == pytest.approx(100, abs=1)
    cluster.put(node("n1", gpu(0, "a100")))
    decision = decide(cluster, request, "fastest")
    assert decision.placement is not None
    assert decision.placement.node == "n1"
    cluster.remove("n1")
    assert (
        decide(cluster, request, "fastest").score
        == decide(EngineCluster([node("n0", gpu(0, "t4"))]), request, "fastest").score
    )


def test_an_accelerator_that_cannot_be_shared_is_not_allocated_twice() -> None:
    stick = gpu(0, "coral", memory=0, shareable=False)
    held = Placement(Request("old", demand=Demand(1)), "n0", (DeviceShare("gpu-0"),))
    request = Request("a", demand=Demand(1), estimates={"coral": Expectation(0.01, memory=gib(1))})
    assert decide(EngineCluster([node("n0", stick)]), request).placed
    decision = decide(EngineCluster([node("n0", stick)], [held]), request)
    assert [rejection.reason for rejection in decision.rejections] == [Reason.BUSY]

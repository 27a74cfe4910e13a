"""Suggested changes that would let a refused request fit."""

from dataclasses import replace

import pytest

from fairlead.placement import Placement
from fairlead.request import (
    Demand,
    Expectation,
    HostPort,
    PodAffinityTerm,
    Request,
    Selector,
    Taint,
    TopologySpread,
)
from fairlead.schedule import EngineCluster, decide, place, suggest_changes, with_suggestions
from fairlead.share import DeviceShare
from tests.schedule.clusters import equal, gib, gpu, node, servers, share, whole


def full(memory: float = 13) -> EngineCluster:
    cluster = EngineCluster(
        [node("n0", gpu(0), gpu(1, "a10", 24, precisions=("fp32",)), labels={"zone": "a"})]
    )
    for at, size in ((0, memory), (1, memory + 8)):
        request = share(f"old-{at}", size)
        cluster.bind(Placement(request, "n0", (DeviceShare(f"gpu-{at}", gib(size)),)))
    return cluster


@pytest.mark.parametrize(
    ("request_", "field", "text"),
    [
        (share("a", 4), "demand.memory", "ask for 3.0 GiB of the accelerator's memory instead of 4.0 GiB"),
        (share("a", 4), "cluster", "free 1.0 GiB on gpu-0 of n0"),
        (share("a", 4), "priority", "raise the priority to 1, which evicts old-0"),
        (share("a", 50), "cluster", "add an accelerator with 50 GiB: all that are suitable are too small"),
        (share("a", 2, cpu=9000), "cpu", "ask for 8 cores instead of 9 cores"),
        (share("a", 2, memory=gib(64)), "memory", "ask for 32 GiB of the node's memory instead of 64 GiB"),
        (share("a", 2, selector=Selector.of({"zone": "b"})), "selector", "drop the node selector zone=b"),
        (share("a", 2, affinity=(Selector.of({"zone": "b"}),)), "affinity", "drop the node affinity"),
        (whole("a"), "demand.memory", "share: ask for 3.0 GiB of one's memory"),
        (Request("a", demand=Demand(3, memory=gib(2))), "demand.count", "ask for 2 instead of 3 of them"),
        (Request("a", demand=Demand(1, memory=gib(2), models=("h200",))), "demand.models", "also allow t4"),
        (Request("a", demand=Demand(1, gib(2), vendors=("x",))), "demand.vendors", "also allow nvidia"),
        (
            Request("a", demand=Demand(1, memory=gib(2), models=("a10",), precision="fp16")),
            "demand.precision",
            "run in fp32 instead of fp16",
        ),
        (
            Request("a", demand=Demand(1), slo=0.01, estimates={"t4": Expectation(0.02, memory=gib(1))}),
            "slo",
            "allow 20 ms instead of 10 ms",
        ),
        (
            share("a", 2, pod_affinity=(PodAffinityTerm(Selector.of({"app": "x"})),)),
            "pod_affinity",
            "drop the pod affinity",
        ),
        (
            share("a", 2, topology_spread=(TopologySpread(Selector(), "rack"),)),
            "topology_spread",
            "drop the topology spread",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_every_single_change_is_found_with_its_amount(request_: Request, field: str, text: str) -> None:
    cluster = full()
    assert not decide(cluster, request_).placed
    changes = suggest_changes(cluster, request_)
    assert (field, text) in [(change.field, change.text) for change in changes]
    assert [change.share for change in changes] == sorted(change.share for change in changes)
    assert equal(cluster, full())


def test_pods_of_other_namespaces_are_not_named() -> None:
    cluster = full()
    request = share("a", 4, namespace="elsewhere")
    changes = {change.field: change.text for change in suggest_changes(cluster, request)}
    assert changes["priority"] == "raise the priority to 1, which evicts 1 of other namespaces"
    assert "old" not in str(changes)


def test_compute_is_shown_in_percent() -> None:
    cluster = EngineCluster(servers(1, 1))
    place(cluster, Request("old", demand=Demand(1, compute=700)))
    changes = suggest_changes(cluster, Request("a", demand=Demand(1, compute=500)))
    assert changes[0].text == "ask for 30 % of the accelerator's compute instead of 50 %"


def test_taints_and_cordons_are_named() -> None:
    tainted = EngineCluster([node("n0", gpu(), taints=(Taint("gpu", "t4"),))])
    assert [change.text for change in suggest_changes(tainted, share("a", 1))] == [
        "tolerate gpu=t4:NoSchedule"
    ]
    cordoned = EngineCluster([node("n0", gpu(), unschedulable=True)])
    assert [change.text for change in suggest_changes(cordoned, share("a", 1))] == ["uncordon n0"]


def test_ports_and_anti_affinity_can_be_dropped() -> None:
    cluster = EngineCluster(servers(1))
    place(cluster, Request("old", ports=(HostPort(80),), labels={"app": "x"}))
    late = Request("a", ports=(HostPort(80),))
    assert suggest_changes(cluster, late)[0].text == "drop the host port"
    separate = Request("b", pod_anti_affinity=(PodAffinityTerm(Selector.of({"app": "x"})),))
    assert suggest_changes(cluster, separate)[0].field == "pod_anti_affinity"


def test_a_suggested_change_lets_the_request_fit() -> None:
    cluster = full()
    change = next(
        suggestion
        for suggestion in suggest_changes(cluster, share("a", 4))
        if suggestion.field == "demand.memory"
    )
    assert decide(cluster, share("a", (change.amount or 0) / gib(1))).placed
    assert not decide(cluster, share("a", (change.amount or 0) / gib(1) + 0.001)).placed


def test_a_refusal_with_suggestions_names_the_smallest() -> None:
    cluster = full()
    decision = with_suggestions(cluster, decide(cluster, share("a", 4)))
    assert decision.sentence() == (
        "0 of 2 accelerators can take a: 2 lack memory (need 4.0 GiB, most 3.0 GiB free); smallest change "
        "that would fit: ask for 3.0 GiB of the accelerator's memory instead of 4.0 GiB"
    )
    placed = decide(cluster, share("a", 2))
    assert with_suggestions(cluster, placed) is placed
    assert replace(decision, changes=()).changes == ()


def test_a_faster_accelerator_without_room_is_named() -> None:
    """A refusal names the best latency of all accelerators; the suggestion is slower if that one is full."""
    estimates = {"t4": Expectation(0.00741, memory=gib(2)), "a10": Expectation(0.0375, memory=gib(2))}
    request = Request("a", demand=Demand(1), slo=0.002, estimates=estimates)
    cluster = EngineCluster([node("n0", gpu(0), gpu(1, "a10", 24))])
    allow = "allow 7.41 ms instead of 2 ms"
    assert suggest_changes(cluster, request)[0].text == allow
    cluster.bind(Placement(share("old", 15), "n0", (DeviceShare("gpu-0", gib(15)),)))
    changes = {change.field: change for change in suggest_changes(cluster, request)}
    assert changes["slo"].amount == 0.0375
    assert changes["slo"].text == (
        "allow 37.5 ms instead of 2 ms; t4 is expected to take 7.41 ms, but has no room: "
        "1 lacks memory (need 2.0 GiB, most 1.0 GiB free)"
    )


def test_an_accelerator_on_an_excluded_node_is_not_named_as_faster() -> None:
    estimates = {"t4": Expectation(0.00741, memory=gib(2)), "a10": Expectation(0.0375, memory=gib(2))}
    request = Request("a", demand=Demand(1), slo=0.002, estimates=estimates)
    cluster = EngineCluster([node("n0", gpu(0), unschedulable=True), node("n1", gpu(1, "a10", 24))])
    changes = {change.field: change.text for change in suggest_changes(cluster, request)}
    assert changes["slo"] == "allow 37.5 ms instead of 2 ms"

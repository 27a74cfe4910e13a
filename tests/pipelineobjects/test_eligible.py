"""A host takes stages while one of its nodes is ready, and has what the host asks for."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from fairlead.ownedobjects.confined import AcceleratorShare
from fairlead.pipelineobjects.eligible import HostPods, HostState, host_states
from fairlead.pipelineobjects.resource import HostGroup
from tests.pipelineobjects.worlds import NOW, Json, lose, node

GIBIBYTE = 1 << 30
LAB = HostGroup("edge", node_selector={"room": "lab"})
SHARE = HostGroup("edge", {"room": "lab"}, "t4", accelerator=AcceleratorShare("2Gi"))
TWO = HostGroup("edge", {"room": "lab"}, accelerator=AcceleratorShare("2Gi", count=2))
ARM = HostGroup("edge", node_selector={"kubernetes.io/arch": "arm64"})
TOLERANT = HostGroup(
    "edge",
    {"room": "lab"},
    tolerations=({"key": "edge", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},),
)


def state(group: HostGroup, *nodes: Json, at: str = "") -> HostState:
    """Return the state of a host."""
    pods = {group.name: HostPods(frozenset([at]), ("shop/count-edge-1a2b3",))}
    return host_states([group], nodes, pods, NOW)[group.name]


def pi(**labels: str) -> Json:
    return node("pi-3", room="lab", **labels)


def changed(edit: Callable[[Json], object]) -> Json:
    each = pi(**{"fairlead.dev/t4.count": "1"})
    edit(each)
    return each


def gpu(
    held: dict[str, int] | None = None, *, models: tuple[str, ...] = ("t4",), healthy: bool = True
) -> Json:
    """Return a node with accelerators of 4 GiB; `held` is by holder."""
    each = pi(**{"fairlead.dev/t4.count": "1"})
    unhealthy = {} if healthy else {"unhealthy": True, "reason": "XID 79"}
    rows = [
        {"id": f"gpu-{index}", "model": model, "vendor": "NVIDIA", "memory_mib": 4096, **unhealthy}
        for index, model in enumerate(models)
    ]
    notes = {"fairlead.dev/devices": json.dumps({"version": 1, "accelerators": rows})}
    if held is not None:
        amounts = {"version": 1, "accelerators": {"gpu-0": {"claim": held}}}
        notes["fairlead.dev/allocated"] = json.dumps(amounts)
    each["metadata"]["annotations"] = notes
    return each


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Json:
    def edit(each: Json) -> None:
        each["spec"]["taints"] = [{"key": key, "value": value, "effect": effect}]

    return changed(edit)


FAULTS: dict[str, tuple[HostGroup, list[Json], str]] = {
    "ready": (LAB, [pi()], ""),
    "no node has its labels": (LAB, [node("n1")], "no node has the labels room=lab"),
    "another architecture": (
        ARM,
        [node("n1", **{"kubernetes.io/arch": "amd64"})],
        "no node has the labels kubernetes.io/arch=arm64",
    ),
    "its architecture": (ARM, [node("n1", **{"kubernetes.io/arch": "arm64"})], ""),
    "no node of its class": (SHARE, [pi()], "no node has the labels room=lab, fairlead.dev/t4.count"),
    "no node at all": (HostGroup("edge"), [], "the cluster has no node"),
    "cordoned": (
        LAB,
        [changed(lambda each: each["spec"].update(unschedulable=True))],
        "node pi-3 is cordoned",
    ),
    "a taint": (
        LAB,
        [taint("edge", "yes")],
        "node pi-3 has the taint edge, which the host does not tolerate",
    ),
    "a taint that is tolerated": (TOLERANT, [taint("edge", "yes")], ""),
    "a taint with another value": (
        TOLERANT,
        [taint("edge", "no")],
        "node pi-3 has the taint edge, which the host does not tolerate",
    ),
    "a taint that repels nothing": (LAB, [taint("edge", "yes", "PreferNoSchedule")], ""),
    "a taint of the node's condition": (LAB, [taint("node.kubernetes.io/not-ready")], ""),
    "too little memory": (
        HostGroup("edge", {"room": "lab"}, resources={"requests": {"memory": "9Gi"}}),
        [pi()],
        "node pi-3 has 8Gi memory, and the host requests 9Gi",
    ),
    "too few processors, by a limit": (
        HostGroup("edge", {"room": "lab"}, resources={"limits": {"cpu": "4001m"}}),
        [pi()],
        "node pi-3 has 4 cpu, and the host requests 4001m",
    ),
    "a resource that no node has": (
        HostGroup("edge", {"room": "lab"}, resources={"limits": {"nvidia.com/gpu": 1}}),
        [pi()],
        "node pi-3 has no nvidia.com/gpu, and the host requests 1",
    ),
    "a free accelerator": (SHARE, [gpu()], ""),
    "an accelerator with enough left": (SHARE, [gpu({"shop/a/main": 1024, "shop/b/main": 1024})], ""),
    "an accelerator that is held": (
        SHARE,
        [gpu({"shop/a/main": 1024, "shop/b/main": 1025})],
        "node pi-3 does not have an accelerator with 2Gi free",
    ),
    "an accelerator that is held whole": (
        SHARE,
        [gpu({"shop/a/main": 0})],
        "node pi-3 does not have an accelerator with 2Gi free",
    ),
    "an accelerator that its last pod holds": (SHARE, [gpu({"shop/count-edge-1a2b3/pipeline": 4096})], ""),
    "an accelerator of another class": (
        SHARE,
        [gpu(models=("l4",))],
        "node pi-3 does not have an accelerator with 2Gi free",
    ),
    "an accelerator that is ill": (
        SHARE,
        [gpu(healthy=False)],
        "node pi-3 does not have an accelerator with 2Gi free",
    ),
    "two accelerators": (TWO, [gpu(models=("t4", "l4"))], ""),
    "one of two accelerators": (TWO, [gpu()], "node pi-3 does not have 2 accelerators with 2Gi free"),
    "one node of two": (
        LAB,
        [changed(lambda each: lose(each, NOW - timedelta(hours=1))), node("n", room="lab")],
        "",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_host_can_be_used_or_says_why_not(case: str) -> None:
    group, nodes, fault = FAULTS[case]
    assert state(group, *nodes).fault == fault


@pytest.mark.parametrize(
    ("seconds", "fault", "left"), [(0, "", 30), (29, "", 1), (30, "node pi-3 is lost", None)]
)
def test_a_node_is_lost_after_half_a_minute(seconds: int, fault: str, left: int | None) -> None:
    lost = pi()
    lose(lost, NOW - timedelta(seconds=seconds))
    now = state(LAB, lost)
    assert now.fault == fault
    assert now.decided_at == (None if left is None else NOW + timedelta(seconds=left))


def test_several_lost_nodes_are_one_reason() -> None:
    nodes = [node(f"pi-{index}", room="lab") for index in range(5)]
    for each in nodes:
        lose(each, NOW - timedelta(hours=1))
    assert state(LAB, *nodes).fault == "nodes pi-0, pi-1, pi-2 and 2 more are lost"


@pytest.mark.parametrize(
    "now",
    [gpu({"shop/count-edge/pipeline": 4096}), changed(lambda each: each["spec"].update(unschedulable=True))],
)
def test_a_pod_that_runs_keeps_its_node(now: Json) -> None:
    assert state(SHARE, now).fault
    assert state(SHARE, now, at="pi-3").fault == ""
    assert state(SHARE, now, at="pi-4").fault


@pytest.mark.parametrize(
    ("group", "gibibytes"),
    [
        (LAB, 8),
        (HostGroup("edge", {"room": "lab"}, resources={"limits": {"memory": "2Gi"}}), 2),
        (
            HostGroup(
                "edge", {"room": "lab"}, resources={"limits": {"memory": "2Ti"}, "requests": {"memory": 1}}
            ),
            8,
        ),
    ],
)
def test_stages_may_take_what_the_pod_and_the_largest_node_allow(group: HostGroup, gibibytes: int) -> None:
    nodes = [node("small", "1Gi", room="lab"), pi(), node("far", "64Gi")]
    assert state(group, *nodes).memory_bytes == gibibytes * GIBIBYTE


def test_without_a_cluster_every_host_can_be_used() -> None:
    states = host_states([SHARE, LAB], None, {}, NOW)
    assert [(each.fault, each.memory_bytes) for each in states.values()] == [("", None)]

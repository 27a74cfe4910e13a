"""One write where the agent reads bindings and the kubelet is sure to find the units; else a claim."""

from typing import Any

import msgspec
import pytest

from fairlead.cache import types as seen
from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.keys import ALLOCATED, DEVICES, PLACEMENT_FORMAT
from fairlead.manifest.types.kubernetes import Node
from fairlead.serve.scheduler.bind.allocation_mode import reason_for_claim
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.scheduler import objects
from tests.serve.scheduler.cycle.test_cycle import cycle_of, run_all
from tests.serve.scheduler.objects import pod, read

MIB = 1 << 20
MEMORY, WHOLE = "fairlead.dev/gpu-mem", "fairlead.dev/t4"
SOME = (DeviceShare("gpu-0", Bytes(1000 * MIB), 0),)
ALL = (DeviceShare("gpu-0", Bytes(4096 * MIB), 1000, whole=True),)


OFFERED = (
    '{"version":1,"accelerators":[{"id":"gpu-%s","model":"t4","vendor":"NVIDIA","memory_mib":4096,'
    '"by_units":true}]}'
)


def node(holders: str = "{}", promise: str = "1", devices: str = "", **offered: str) -> Node:
    note = f'{{"version":1,"accelerators":{holders}}}'
    has = {MEMORY: "8192", WHOLE: "2", **{f"fairlead.dev/{name}": value for name, value in offered.items()}}
    meta = {"name": "n", "annotations": {PLACEMENT_FORMAT: promise, ALLOCATED: note, DEVICES: devices}}
    offering: Node = read(seen.NODES, {"metadata": meta, "status": {"allocatable": has}})
    return offering


def asking(name: str = "a", claim: str = "", **limits: str) -> LivePod:
    made = {
        "name": "main",
        "resources": {"limits": {key.replace("__", "/"): each for key, each in limits.items()}},
    }
    document: dict[str, Any] = msgspec.to_builtins(pod(name, containers=[made]))
    document["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": claim}
    return msgspec.convert(document, LivePod)


def share(mib: str = "1000", **more: str) -> LivePod:
    return asking(**{"fairlead.dev__gpu-mem": mib}, **more)


def whole(count: str = "1", **more: str) -> LivePod:
    return asking(**{"fairlead.dev__t4": count}, **more)


BINDING: dict[str, tuple[LivePod, tuple[DeviceShare, ...], Node, list[LivePod]]] = {
    "a share": (share(), SOME, node(), []),
    "as the API server writes thousands": (share("1k"), SOME, node(**{"gpu-mem": "1k"}), []),
    "in GiB": (
        asking(**{"fairlead.dev__gpu-mem-gib": "2"}),
        (DeviceShare("gpu-0", Bytes(2048 * MIB), 0),),
        node(**{"gpu-mem-gib": "8"}),
        [],
    ),
    "of what is offered": (share(), SOME, node(devices=OFFERED % 0), []),
    "a whole one": (whole(), ALL, node(), []),
    "a whole one that is large": (whole(), ALL, node(devices=OFFERED % 1), []),
    "two whole ones": (whole("2"), (*ALL, DeviceShare("gpu-1", whole=True)), node(), []),
    "beside others, with room": (share(), SOME, node(), [share("7192", name="b"), pod("plain")]),
    "beside itself": (share(), SOME, node(**{"gpu-mem": "1000"}), [share()]),
    "beside shares": (share(), SOME, node('{"gpu-0":{"memory":{"default/b/main":9}}}'), []),
    "beside a claim": (share(), SOME, node('{"gpu-0":{"claim":{"default/b":9}}}'), []),
    "in the place of a whole one": (whole(), ALL, node('{"gpu-0":{"whole":{"default/b/main":0}}}'), []),
    "with nonsense from the agent": (share(), SOME, node("nonsense"), []),
}
CLAIM: dict[str, tuple[LivePod, tuple[DeviceShare, ...], Node | None, list[LivePod], str]] = {
    "no promise": (share(), SOME, node(promise="nothing"), [], "does not read placements of format 1"),
    "no node": (share(), SOME, None, [], "does not read placements of format 1"),
    "a pointer": (share(claim="old"), SOME, node(), [], "names a claim"),
    "of gpushare": (asking(**{"aliyun.com__gpu-mem": "1"}), SOME, node(), [], "do not stand for"),
    "of HAMi": (
        asking(**{"nvidia.com__gpu": "1", "nvidia.com__gpumem": "1000"}),
        SOME,
        node(),
        [],
        "by more than one resource",
    ),
    "shares of two": (
        share(),
        (*SOME, DeviceShare("gpu-1", Bytes(1000 * MIB), 0)),
        node(),
        [],
        "do not stand for",
    ),
    "a share that became a whole": (share(), ALL, node(), [], "do not stand for"),
    "another size": (share("999"), SOME, node(), [], "do not stand for"),
    "too large for units": (share(), SOME, node(devices=OFFERED % 1), [], "do not stand for"),
    "not offered": (share(), SOME, node(**{"gpu-mem": "0"}), [], "0 of 0"),
    "not enough offered": (
        share(),
        SOME,
        node(**{"gpu-mem": "1500"}),
        [share("501", name="b")],
        "501 of 1500",
    ),
    "claims counted twice": (share(), SOME, node(), [share("4000", name="b", claim="c")], "8000 of 8192"),
    "offered as nonsense": (share(), SOME, node(**{"gpu-mem": "many"}), [], "0 of 0"),
    "held whole a moment ago": (share(), SOME, node('{"gpu-0":{"whole":{"d/b/c":0}}}'), [], "another form"),
    "held by a claim on all": (share(), SOME, node('{"gpu-0":{"claim":{"d/b":0}}}'), [], "another form"),
    "shares on a whole one": (whole(), ALL, node('{"gpu-0":{"memory":{"d/b/c":1}}}'), [], "another form"),
    "on an unknown device": (whole(), ALL, node('{"*":{"memory":{"*":1}}}'), [], "another form"),
}


@pytest.mark.parametrize(("asks", "shares", "there", "others"), BINDING.values(), ids=BINDING)
def test_the_binding_is_enough(
    asks: LivePod, shares: tuple[DeviceShare, ...], there: Node, others: list[LivePod]
) -> None:
    assert reason_for_claim(asks, shares, there, others) == ""


@pytest.mark.parametrize(("asks", "shares", "there", "others", "reason"), CLAIM.values(), ids=CLAIM)
def test_a_claim_is_needed(
    asks: LivePod, shares: tuple[DeviceShare, ...], there: Node | None, others: list[LivePod], reason: str
) -> None:
    assert reason in reason_for_claim(asks, shares, there, others)


def promising() -> Node:
    """Return a node with free units, whose agent reads bindings."""
    document: dict[str, Any] = msgspec.to_builtins(objects.node("n"))
    document["metadata"]["annotations"] = {PLACEMENT_FORMAT: "1"}
    document["status"]["allocatable"][MEMORY] = "8192"
    return msgspec.convert(document, Node)


def test_only_bindings_are_planned_while_the_kubelet_counts_enough_units(
    catalog: Catalog,
) -> None:
    waiting = [pod(name, mib=3072) for name in "ab"]
    cycle = cycle_of(
        catalog, promising(), objects.device_slice("n"), *waiting, share("512", name="c", claim="old")
    )
    plans = run_all(cycle).plans
    assert {plan.pod.metadata.name: plan.own_claim for plan in plans} == {"a": False, "b": False, "c": True}
    assert all(plan.fenced for plan in plans), "the next leader can fence each of them"

"""Pods and claims that hold devices of fairlead's driver: how they are found, awaited and released."""

import asyncio
from typing import Any

import msgspec
import pytest

from fairlead.cluster.holders import (
    CLAIMS,
    DeviceHolder,
    HeldClaim,
    find_holders,
    list_holders,
    release_holders,
    taint_nodes,
    untaint_node,
    wait_for_holders,
)
from fairlead.cluster.kinds import NAMESPACES, NODES, PODS, RESOURCE_SLICES
from fairlead.cluster.objects import Pod
from fairlead.keys import RETRACTING
from tests.fakecluster.cluster import FakeCluster

GPU = {"fairlead.dev/gpu-mem": "1024"}


def pod(name: str, limits: dict[str, str] | None = None, at: str = "n1", **more: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x", "resources": {"limits": limits or {}}}]
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": name, **more.pop("meta", {})},
        "spec": {"nodeName": at, "containers": containers, **more.pop("spec", {})},
        "status": {"phase": more.pop("phase", "Running")},
    }


def claim(name: str, *users: str, driver: str = "fairlead.dev") -> dict[str, Any]:
    results = [{"request": "gpu", "driver": driver, "pool": "n1", "device": "gpu-0"}]
    kept = [{"resource": "pods", "name": user, "uid": user} for user in users]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": kept}
    return {"metadata": {"name": name, "namespace": "shop"}, "status": status}


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c", "uid": "0", "controller": True}
CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "nothing": ([pod("plain")], [], []),
    "a resource": ([pod("web", GPU)], [], ["pod shop/web on n1 (fairlead.dev/gpu-mem)"]),
    "a resource that others hand out": ([pod("web", {"nvidia.com/gpu": "1"})], [], []),
    "none of a resource": ([pod("web", {"fairlead.dev/t4": "0"})], [], []),
    "a resource of a pod that waits": ([pod("web", GPU, at="")], [], []),
    "a resource of a pod that has ended": ([pod("web", GPU, phase="Succeeded")], [], []),
    "a resource of an init container": (
        [pod("web", spec={"initContainers": [{"name": "a", "resources": {"requests": GPU}}]})],
        [],
        ["pod shop/web on n1 (fairlead.dev/gpu-mem)"],
    ),
    "a claim": ([pod("web")], [claim("gpu", "web")], ["pod shop/web on n1 (claim gpu)"]),
    "a claim of another driver": ([pod("web")], [claim("gpu", "web", driver="gpu.example.org")], []),
    "a claim that nothing uses": ([], [claim("gpu")], ["claim shop/gpu (no pod)"]),
    "a claim whose pod is gone": ([], [claim("gpu", "web")], ["claim shop/gpu (no pod)"]),
    "a claim that two pods share": (
        [pod("a"), pod("b")],
        [claim("gpu", "a", "b")],
        ["pod shop/a on n1 (claim gpu)", "pod shop/b on n1 (claim gpu)"],
    ),
    "a pod that comes again": (
        [pod("web", GPU, meta={"ownerReferences": [OWNER]})],
        [],
        ["pod shop/web on n1 (fairlead.dev/gpu-mem, made by ReplicaSet web-5d9c)"],
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_holders_are_listed_by_name(what: str) -> None:
    pods, claims, names = CASES[what]
    holders = find_holders(
        [msgspec.convert(item, Pod) for item in pods], [msgspec.convert(item, HeldClaim) for item in claims]
    )
    assert [str(holder) for holder in holders] == names


async def _cluster(*pods: dict[str, Any]) -> FakeCluster:
    cluster = FakeCluster()
    await cluster.create(NAMESPACES, {"metadata": {"name": "shop"}})
    for item in pods:
        await cluster.create(PODS, item, "shop")
        await cluster.patch_status(PODS, item["metadata"]["name"], {"status": item["status"]}, "shop")
    return cluster


def test_the_wait_ends_with_the_last_holder() -> None:
    async def scenario() -> None:
        cluster, delays, reported = await _cluster(pod("web", GPU)), list[float](), list[list[DeviceHolder]]()

        async def pause(seconds: float) -> None:
            delays.append(seconds)
            if len(delays) == 3:
                await cluster.delete(PODS, "web", "shop", grace=0)

        assert await wait_for_holders(cluster, 120, reported.append, pause=pause) == []
        assert delays == [1.0] * 3
        assert len(reported) == 1, "unchanged holders are reported once"

    asyncio.run(scenario())


def test_the_holders_that_are_left_after_the_timeout_are_returned() -> None:
    async def scenario() -> None:
        cluster, delays = await _cluster(pod("web", GPU)), list[float]()

        async def pause(seconds: float) -> None:
            delays.append(seconds)

        left = await wait_for_holders(cluster, 2.5, pause=pause)
        assert [holder.pod for holder in left] == ["web"]
        assert delays == [1.0, 1.0, 0.5]

    asyncio.run(scenario())


def test_only_the_named_holders_are_released() -> None:
    async def scenario() -> None:
        cluster = await _cluster(pod("web", GPU), pod("plain"))
        await cluster.create(CLAIMS, claim("loose"), "shop")
        await cluster.patch_status(CLAIMS, "loose", {"status": claim("loose")["status"]}, "shop")
        await cluster.create(CLAIMS, claim("kept", "gone"), "shop")
        await cluster.patch_status(CLAIMS, "kept", {"status": claim("kept", "gone")["status"]}, "shop")
        await release_holders(cluster, await list_holders(cluster))
        ending = {item.metadata.name for item in (await cluster.list(PODS)).items if _is_ending(item)}
        assert ending == {"web"}
        await cluster.delete(PODS, "web", "shop", grace=0)  # as its kubelet does
        # A claim that is reserved for a deleted pod is left to its controller.
        assert [str(holder) for holder in await list_holders(cluster)] == ["claim shop/kept (no pod)"]

    asyncio.run(scenario())


def _is_ending(item: Pod) -> bool:
    return bool(item.metadata.deletion_timestamp)


def test_nodes_with_devices_are_tainted_and_untainted() -> None:
    async def scenario() -> None:
        cluster = FakeCluster()
        mine = {"key": "mine", "effect": "NoSchedule"}
        for name in ("offers", "slices", "plain"):
            await cluster.create(NODES, {"metadata": {"name": name}, "spec": {"taints": [mine]}})
        await cluster.patch_status(NODES, "offers", {"status": {"allocatable": GPU}})
        body = {"metadata": {"name": "s"}, "spec": {"driver": "fairlead.dev", "nodeName": "slices"}}
        await cluster.create(RESOURCE_SLICES, body)
        assert await taint_nodes(cluster) == await taint_nodes(cluster) == ["offers", "slices"]
        nodes = {item.metadata.name: item for item in (await cluster.list(NODES)).items}
        taints = {name: [taint.key for taint in node.spec.taints] for name, node in nodes.items()}
        assert taints == {"offers": ["mine", RETRACTING], "slices": ["mine", RETRACTING], "plain": ["mine"]}
        for node in nodes.values():
            await untaint_node(cluster, node)
        left = {taint.key for node in (await cluster.list(NODES)).items for taint in node.spec.taints}
        assert left == {"mine"}

    asyncio.run(scenario())

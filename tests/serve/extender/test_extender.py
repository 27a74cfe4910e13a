"""The extender with a cluster in memory: when it answers, when it delays, what it counts."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
from fairlead.cluster.kinds import PODS as ANY_PODS
from fairlead.serve.extender.extender import Extender
from tests.fakecluster.cluster import FakeCluster
from tests.serve.scheduler.objects import device_slice, node, pod

Script = Callable[[FakeCluster, Extender], Awaitable[None]]


async def fill(cluster: FakeCluster) -> None:
    """Create two nodes with one accelerator of 4 GiB each."""
    for name in ("a", "b"):
        await cluster.create(NODES.raw(), plain(node(name)))
        await cluster.create(RESOURCE_SLICES.raw(), plain(device_slice(name, devices=1)))


def plain(of: Any) -> dict[str, Any]:
    """Return an object as the body of a create request."""
    document: dict[str, Any] = msgspec.to_builtins(of)
    meta = document["metadata"]
    return {**document, "metadata": {key: meta[key] for key in meta if key not in ("uid", "resourceVersion")}}


@asynccontextmanager
async def following(catalog: Catalog, max_delay: float) -> AsyncIterator[tuple[FakeCluster, Extender]]:
    cluster = FakeCluster()
    await fill(cluster)
    known = asyncio.Event()
    extender = Extender(cluster, catalog, "fairlead", lambda _: known.set(), max_delay)
    task = asyncio.create_task(extender.follow())
    try:
        async with asyncio.timeout(300):
            await known.wait()
        yield cluster, extender
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def run_script(catalog: Catalog, script: Script, max_delay: float = 30.0) -> None:
    async def scenario() -> None:
        async with following(catalog, max_delay) as (cluster, extender):
            await script(cluster, extender)

    asyncio.run(scenario())


async def make(cluster: FakeCluster, name: str, mib: int) -> LivePod:
    """Create a pending pod, and return it as kube-scheduler would send it."""
    made = await cluster.create(ANY_PODS.raw(), plain(pod(name, mib=mib)), "default")
    return msgspec.convert(made.document(), LivePod)


async def filtered(extender: Extender, asked: LivePod, *names: str) -> dict[str, Any]:
    body = json.dumps({"Pod": msgspec.to_builtins(asked), "NodeNames": names}).encode()
    answer = await extender.verbs["/filter"](body)
    assert answer.status == 200, answer.body
    result: dict[str, Any] = json.loads(answer.body)
    return result


def test_nothing_is_answered_before_the_cluster_is_listed(catalog: Catalog) -> None:
    extender = Extender(FakeCluster(), catalog, "fairlead", print)

    async def asked() -> set[int]:
        return {(await verb(b"{}")).status for verb in extender.verbs.values()}

    assert asyncio.run(asked()) == {503}
    assert extender.pages["/readyz"]().status == 503
    assert extender.pages["/healthz"]().status == 200


def test_requests_are_answered_and_counted(catalog: Catalog) -> None:
    async def script(cluster: FakeCluster, extender: Extender) -> None:
        assert extender.pages["/readyz"]().status == 200
        asked = await make(cluster, "p", 1024)
        assert (await filtered(extender, asked, "a", "b"))["NodeNames"] == ["a", "b"]
        body = json.dumps({"Pod": msgspec.to_builtins(asked), "NodeNames": ["a"]}).encode()
        scores = await extender.verbs["/prioritize"](body)
        assert json.loads(scores.body) == [{"Host": "a", "Score": 10}]
        garbage = await extender.verbs["/filter"](b"\xff")
        assert (garbage.status, garbage.body[:32]) == (400, b"the body is not an ExtenderArgs:")
        page = extender.pages["/metrics"]().body.decode()
        for line in (
            'fairlead_extender_requests_total{verb="filter",code="200"} 1.0',
            'fairlead_extender_requests_total{verb="filter",code="400"} 1.0',
            'fairlead_extender_nodes_evaluated_total{result="passed",reason=""} 2.0',
            "fairlead_extender_unconfirmed_pods 1.0",
            "fairlead_extender_nodes 2.0",
            "fairlead_extender_filter_seconds_count 2",
        ):
            assert line in page

    run_script(catalog, script)


def test_an_answer_is_delayed_for_a_pending_binding(catalog: Catalog) -> None:
    async def script(cluster: FakeCluster, extender: Extender) -> None:
        first, second = await make(cluster, "first", 3072), await make(cluster, "second", 3072)
        assert (await filtered(extender, first, "a", "b"))["NodeNames"] == ["a", "b"]
        asking = asyncio.create_task(filtered(extender, second, "a", "b"))
        async with asyncio.timeout(300):
            while (
                "fairlead_extender_delayed_answers_total 1.0"
                not in extender.pages["/metrics"]().body.decode()
            ):
                await asyncio.sleep(0)
        assert not asking.done()
        await cluster.bind("default", "first", "", "b")
        assert (await asking)["NodeNames"] == ["a"]

    run_script(catalog, script)


def test_the_delay_of_an_answer_is_limited(catalog: Catalog) -> None:
    async def script(cluster: FakeCluster, extender: Extender) -> None:
        first, second = await make(cluster, "first", 3072), await make(cluster, "second", 3072)
        await filtered(extender, first, "a", "b")
        refused = await filtered(extender, second, "a", "b")
        assert refused["NodeNames"] == []
        assert set(refused["FailedNodes"]) == {"a", "b"}

    run_script(catalog, script, max_delay=0.05)

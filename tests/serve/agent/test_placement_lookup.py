"""An agent that follows placements: an admitted pod gets exactly the accelerator that was chosen for it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fairlead.cluster.kinds import PODS, Kind
from fairlead.cluster.meta import T
from fairlead.errors import AccessError, ClusterUnavailableError, KubeletError
from fairlead.keys import PLACEMENT, PLACEMENT_FORMAT
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.fakecluster.cluster import FakeCluster
from tests.serve.agent.test_publisher import GPU, MEMORY, OTHER, WHOLE, Place, nook, place, until

__all__ = ["nook"]
Script = Callable[[Place], Awaitable[None]]


def run_script(folder: Path, script: Script) -> None:
    async def play() -> None:
        async with place(folder, GPU, OTHER) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288 and it.kubelet.healthy(WHOLE) == 2)
            await until(lambda: promises(it))
            await script(it)

    asyncio.run(play())


async def promises(it: Place) -> bool:
    return bool((await it.node()).metadata.annotations.get(PLACEMENT_FORMAT) == "1")


async def bind(it: Place, name: str, size: int, *chosen: str, resource: str = MEMORY) -> None:
    """Create a pod bound to the node, by our scheduler where accelerators were chosen."""
    shares = [DeviceShare(each, Bytes(size << 20), whole=resource != MEMORY) for each in chosen]
    annotations = {PLACEMENT: PLACEMENTS.encode(tuple(shares))} if chosen else {}
    limits = {resource: str(size)}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": limits}}]}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")


async def many(it: Place, name: str, containers: int, device: str) -> None:
    """Create a pod whose containers request a MiB each, placed on a device; the kubelet lists them all."""
    share = DeviceShare(device, Bytes(containers << 20))
    names = [f"c{at}" for at in range(containers)]
    specs = [{"name": each, "resources": {"limits": {MEMORY: "1"}}} for each in names]
    meta = {"name": name, "namespace": "default", "annotations": {PLACEMENT: PLACEMENTS.encode((share,))}}
    spec = {"nodeName": "n1", "containers": specs}
    await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")
    it.kubelet.known += [f"{name}/{each}" for each in names]


async def admit(it: Place, pod: str, size: int, resource: str = MEMORY) -> str:
    return (await it.kubelet.admit(pod, resource, size)).envs["FAIRLEAD_DEVICE"]


def test_equal_pods_each_get_their_chosen_accelerator_in_any_order(nook: Path) -> None:
    async def script(it: Place) -> None:
        chosen = {f"pod-{at}": (GPU, OTHER)[at % 2].id for at in range(8)}
        for name, device in chosen.items():
            await bind(it, name, 128, device)
        await bind(it, "stock", 128)
        for name in ("pod-3", "stock", "pod-0", "pod-7", "pod-4", "pod-1", "pod-2"):
            device = await admit(it, name, 128)
            assert device == chosen.get(name, OTHER.id), name

    run_script(nook, script)


def test_whole_accelerators_are_given_as_chosen(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bind(it, "one", 1, OTHER.id, resource=WHOLE)
        await bind(it, "other", 1, GPU.id, resource=WHOLE)
        assert await admit(it, "one", 1, WHOLE) == OTHER.id
        assert await admit(it, "other", 1, WHOLE) == GPU.id

    run_script(nook, script)


def test_a_pod_is_refused_where_its_chosen_accelerator_has_no_room(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bind(it, "first", 4000, OTHER.id)
        await bind(it, "second", 4000, OTHER.id)
        await admit(it, "first", 4000)
        with pytest.raises(
            KubeletError, match=f"default/second was placed on {OTHER.id}, which does not have 4000"
        ):
            await admit(it, "second", 4000)
        await bind(it, "third", 4000, GPU.id)
        assert await admit(it, "third", 4000) == GPU.id, "the refused pod is still in pod resources"
        assert it.publisher.snapshot().refused["memory"] == 1

    run_script(nook, script)


def test_a_new_pod_with_the_name_of_a_deleted_one_is_read_again(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bind(it, "a", 128, GPU.id)
        assert await admit(it, "a", 128) == GPU.id
        it.kubelet.end("a")
        await it.cluster.delete(PODS, "a", "default", grace=0)
        await bind(it, "a", 128, OTHER.id)
        assert await admit(it, "a", 128) == OTHER.id

    run_script(nook, script)


def test_units_of_an_accelerator_that_was_not_chosen_are_refused(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bind(it, "a", 128, GPU.id)
        it.kubelet.ignores_preference = True
        with pytest.raises(KubeletError, match=f"default/a was placed on {GPU.id}, not on {OTHER.id}"):
            await admit(it, "a", 128)

    run_script(nook, script)


def test_the_agent_removes_its_promise_when_it_stops(nook: Path) -> None:
    async def script(it: Place) -> None:
        await asyncio.to_thread(it.publisher.stop)
        assert not await promises(it)

    run_script(nook, script)


class FailingCluster(FakeCluster):
    """A cluster whose reads of pods can fail."""

    error: Exception | None = None

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return an object, or fail."""
        if kind.plural == PODS.plural and self.error:
            raise self.error
        return await super().get(kind, name, namespace)


def test_without_the_right_to_get_pods_the_agent_promises_nothing_and_chooses_itself(nook: Path) -> None:
    async def play() -> None:
        cluster = FailingCluster()
        cluster.error = AccessError("pods is forbidden")
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            assert not await promises(it)
            assert await admit(it, "a", 128) == OTHER.id

    asyncio.run(play())


def test_a_revoked_right_ends_the_promise_with_the_next_pod(nook: Path) -> None:
    async def play() -> None:
        cluster = FailingCluster()
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promises(it))
            cluster.error = AccessError("pods is forbidden")
            assert await admit(it, "a", 128) == OTHER.id
            await until(lambda: _promises_nothing(it))

    asyncio.run(play())


def test_while_the_api_server_is_unavailable_no_pod_gets_a_wrong_accelerator(nook: Path) -> None:
    async def play() -> None:
        cluster = FailingCluster()
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promises(it))
            await bind(it, "a", 128, GPU.id)
            cluster.error = ClusterUnavailableError("it does not answer")
            with pytest.raises(KubeletError, match="cannot read the pod's placement"):
                await admit(it, "a", 128)

    asyncio.run(play())


def test_two_candidates_with_different_accelerators_are_distinguished_or_refused(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bind(it, "a", 128, GPU.id)
        await bind(it, "b", 128, OTHER.id)
        it.kubelet.known.append("b")  # another handler refused it, and the API does not say so yet
        with pytest.raises(KubeletError, match="cannot tell which of default/a and default/b requests 128"):
            await admit(it, "a", 128)
        await it.cluster.patch_status(PODS, "b", {"status": {"phase": "Failed"}}, "default")
        assert await admit(it, "a", 128) == GPU.id

    run_script(nook, script)


class CountingCluster(FakeCluster):
    """A cluster that counts the reads of each pod."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: Counter[str] = Counter()

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return an object."""
        self.gets[name] += 1
        return await super().get(kind, name, namespace)


def test_a_pod_of_many_containers_is_read_once_and_each_gets_the_chosen_device(nook: Path) -> None:
    async def play() -> None:
        cluster = CountingCluster()
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promises(it))
            await many(it, "big", 30, GPU.id)
            allocated = [await admit(it, f"big/c{at}", 1) for at in range(30)]
            assert allocated == [GPU.id] * 30
            assert cluster.gets["big"] == 1

    asyncio.run(play())


def test_a_pod_refused_between_containers_does_not_decide_for_the_next(nook: Path) -> None:
    async def script(it: Place) -> None:
        await many(it, "big", 5, GPU.id)
        assert [await admit(it, f"big/c{at}", 1) for at in range(3)] == [GPU.id] * 3
        # Another handler of the kubelet refused the fourth container; the kubelet still lists the pod.
        await bind(it, "next", 1, OTHER.id)
        await it.cluster.patch_status(PODS, "big", {"status": {"phase": "Failed"}}, "default")
        assert await admit(it, "next", 1) == OTHER.id

    run_script(nook, script)


def test_a_pod_that_replaces_a_half_admitted_one_is_read_again(nook: Path) -> None:
    async def script(it: Place) -> None:
        await many(it, "big", 5, GPU.id)
        assert [await admit(it, f"big/c{at}", 1) for at in range(3)] == [GPU.id] * 3
        for at in range(5):
            it.kubelet.end(f"big/c{at}")
        it.kubelet.known.clear()
        await it.cluster.delete(PODS, "big", "default", grace=0)
        await many(it, "big", 5, OTHER.id)
        assert [await admit(it, f"big/c{at}", 1) for at in range(5)] == [OTHER.id] * 5

    run_script(nook, script)


async def _promises_nothing(it: Place) -> bool:
    return not await promises(it)

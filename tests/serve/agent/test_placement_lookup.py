"""An agent that goes by bindings: the pod that is let in gets the very accelerator that was chosen for it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fairlead.cluster.kinds import PODS, Kind
from fairlead.cluster.meta import T
from fairlead.errors import AccessError, ClusterUnavailableError, KubeletError
from fairlead.keys import PLACEMENT, PLACEMENT_FORMAT
from fairlead.placement import PLACEMENTS, DeviceShare
from fairlead.units import Bytes
from tests.fakecluster.cluster import FakeCluster
from tests.serve.agent.test_publisher import GPU, MEMORY, OTHER, WHOLE, Place, nook, place, until

__all__ = ["nook"]
Script = Callable[[Place], Awaitable[None]]


def played(folder: Path, script: Script) -> None:
    async def play() -> None:
        async with place(folder, GPU, OTHER) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288 and it.kubelet.healthy(WHOLE) == 2)
            await until(lambda: promised(it))
            await script(it)

    asyncio.run(play())


async def promised(it: Place) -> bool:
    return bool((await it.node()).metadata.annotations.get(PLACEMENT_FORMAT) == "1")


async def bound(it: Place, name: str, size: int, *chosen: str, resource: str = MEMORY) -> None:
    """Make a pod that a scheduler of ours, if anything was chosen, has given to the node."""
    shares = [DeviceShare(each, Bytes(size << 20), whole=resource != MEMORY) for each in chosen]
    notes = {PLACEMENT: PLACEMENTS.encode(tuple(shares))} if chosen else {}
    limits = {resource: str(size)}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": limits}}]}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")


async def many(it: Place, name: str, containers: int, device: str) -> None:
    """Make a pod of containers that want a MiB each, placed on a device; the kubelet lists all of them."""
    share = DeviceShare(device, Bytes(containers << 20))
    names = [f"c{at}" for at in range(containers)]
    wants = [{"name": each, "resources": {"limits": {MEMORY: "1"}}} for each in names]
    meta = {"name": name, "namespace": "default", "annotations": {PLACEMENT: PLACEMENTS.encode((share,))}}
    spec = {"nodeName": "n1", "containers": wants}
    await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")
    it.kubelet.known += [f"{name}/{each}" for each in names]


async def given(it: Place, pod: str, size: int, resource: str = MEMORY) -> str:
    return (await it.kubelet.admit(pod, resource, size)).envs["FAIRLEAD_DEVICE"]


def test_equal_pods_get_each_what_was_chosen_whatever_their_order(nook: Path) -> None:
    async def script(it: Place) -> None:
        chosen = {f"pod-{at}": (GPU, OTHER)[at % 2].id for at in range(8)}
        for name, device in chosen.items():
            await bound(it, name, 128, device)
        await bound(it, "stock", 128)
        for name in ("pod-3", "stock", "pod-0", "pod-7", "pod-4", "pod-1", "pod-2"):
            device = await given(it, name, 128)
            assert device == chosen.get(name, OTHER.id), name

    played(nook, script)


def test_whole_accelerators_are_given_as_chosen(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bound(it, "one", 1, OTHER.id, resource=WHOLE)
        await bound(it, "other", 1, GPU.id, resource=WHOLE)
        assert await given(it, "one", 1, WHOLE) == OTHER.id
        assert await given(it, "other", 1, WHOLE) == GPU.id

    played(nook, script)


def test_where_the_chosen_one_has_no_room_the_pod_is_refused(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bound(it, "first", 4000, OTHER.id)
        await bound(it, "second", 4000, OTHER.id)
        await given(it, "first", 4000)
        with pytest.raises(
            KubeletError, match=f"default/second was placed on {OTHER.id}, which has not 4000"
        ):
            await given(it, "second", 4000)
        await bound(it, "third", 4000, GPU.id)
        assert await given(it, "third", 4000) == GPU.id, "who was refused is in the books still"
        assert it.publisher.snapshot().refused["memory"] == 1

    played(nook, script)


def test_a_pod_that_came_back_under_its_name_is_read_anew(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bound(it, "a", 128, GPU.id)
        assert await given(it, "a", 128) == GPU.id
        it.kubelet.end("a")
        await it.cluster.delete(PODS, "a", "default", grace=0)
        await bound(it, "a", 128, OTHER.id)
        assert await given(it, "a", 128) == OTHER.id

    played(nook, script)


def test_units_of_another_accelerator_than_the_chosen_are_refused(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bound(it, "a", 128, GPU.id)
        it.kubelet.headstrong = True
        with pytest.raises(KubeletError, match=f"default/a was placed on {GPU.id}, not on {OTHER.id}"):
            await given(it, "a", 128)

    played(nook, script)


def test_when_the_agent_goes_it_takes_its_promise_back(nook: Path) -> None:
    async def script(it: Place) -> None:
        await asyncio.to_thread(it.publisher.stop)
        assert not await promised(it)

    played(nook, script)


class Shy(FakeCluster):
    """A cluster that need not say anything of pods."""

    error: Exception | None = None

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return an object, or fail."""
        if kind.plural == PODS.plural and self.error:
            raise self.error
        return await super().get(kind, name, namespace)


def test_without_the_right_to_get_pods_nothing_is_promised_and_all_is_as_ever(nook: Path) -> None:
    async def play() -> None:
        cluster = Shy()
        cluster.error = AccessError("pods is forbidden")
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            assert not await promised(it)
            assert await given(it, "a", 128) == OTHER.id

    asyncio.run(play())


def test_a_right_that_is_taken_away_ends_the_promise_with_the_next_pod(nook: Path) -> None:
    async def play() -> None:
        cluster = Shy()
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promised(it))
            cluster.error = AccessError("pods is forbidden")
            assert await given(it, "a", 128) == OTHER.id
            await until(lambda: _not_promised(it))

    asyncio.run(play())


def test_while_the_api_server_is_away_nobody_gets_what_may_be_the_wrong_one(nook: Path) -> None:
    async def play() -> None:
        cluster = Shy()
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promised(it))
            await bound(it, "a", 128, GPU.id)
            cluster.error = ClusterUnavailableError("it does not answer")
            with pytest.raises(KubeletError, match="asked in vain which accelerator was chosen"):
                await given(it, "a", 128)

    asyncio.run(play())


def test_two_of_whom_either_may_be_meant_are_told_apart_or_refused(nook: Path) -> None:
    async def script(it: Place) -> None:
        await bound(it, "a", 128, GPU.id)
        await bound(it, "b", 128, OTHER.id)
        it.kubelet.known.append("b")  # another handler refused it, and the API does not say so yet
        with pytest.raises(KubeletError, match="not clear which of default/a and default/b asks for 128"):
            await given(it, "a", 128)
        await it.cluster.patch_status(PODS, "b", {"status": {"phase": "Failed"}}, "default")
        assert await given(it, "a", 128) == GPU.id

    played(nook, script)


class Counting(FakeCluster):
    """A cluster that counts how often a pod is got."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: Counter[str] = Counter()

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return an object."""
        self.gets[name] += 1
        return await super().get(kind, name, namespace)


def test_a_pod_of_many_containers_is_got_once_and_each_is_on_the_device_that_was_chosen(nook: Path) -> None:
    async def play() -> None:
        cluster = Counting()
        async with place(nook, GPU, OTHER, cluster=cluster) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promised(it))
            await many(it, "big", 30, GPU.id)
            found = [await given(it, f"big/c{at}", 1) for at in range(30)]
            assert found == [GPU.id] * 30
            assert cluster.gets["big"] == 1

    asyncio.run(play())


def test_a_pod_that_was_refused_in_the_middle_does_not_decide_for_the_next(nook: Path) -> None:
    async def script(it: Place) -> None:
        await many(it, "big", 5, GPU.id)
        assert [await given(it, f"big/c{at}", 1) for at in range(3)] == [GPU.id] * 3
        # Another handler of the kubelet refused the fourth container; the kubelet still lists the pod.
        await bound(it, "next", 1, OTHER.id)
        await it.cluster.patch_status(PODS, "big", {"status": {"phase": "Failed"}}, "default")
        assert await given(it, "next", 1) == OTHER.id

    played(nook, script)


def test_a_pod_that_took_the_name_of_one_in_the_middle_is_read_anew(nook: Path) -> None:
    async def script(it: Place) -> None:
        await many(it, "big", 5, GPU.id)
        assert [await given(it, f"big/c{at}", 1) for at in range(3)] == [GPU.id] * 3
        for at in range(5):
            it.kubelet.end(f"big/c{at}")
        it.kubelet.known.clear()
        await it.cluster.delete(PODS, "big", "default", grace=0)
        await many(it, "big", 5, OTHER.id)
        assert [await given(it, f"big/c{at}", 1) for at in range(5)] == [OTHER.id] * 5

    played(nook, script)


async def _not_promised(it: Place) -> bool:
    return not await promised(it)

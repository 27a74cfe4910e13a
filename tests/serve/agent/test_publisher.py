"""The publisher with a kubelet, an API server and the warden: it publishes and allocates once."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.kinds import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from fairlead.errors import KubeletError
from fairlead.host import Host
from fairlead.inventory import Accelerator, State
from fairlead.keys import ALLOCATED
from fairlead.publish.foreign import ForeignReserve, follow
from fairlead.serve.agent.publisher import PublisherEnvironment, PublisherThread
from fairlead.settings.publishing import PublishConfig
from fairlead.units import Bytes
from tests.accelerators import accelerator, node
from tests.fakecluster.cluster import FakeCluster
from tests.kubelets import Kubelet

GPU = accelerator("pci:0000:01:00.0", kind="gpu", model="gpu-a", mebibytes=8192)
OTHER = accelerator("pci:0000:02:00.0", kind="gpu", model="gpu-a", mebibytes=4096)
STICK = accelerator("pci:0000:03:00.0", model="stick")
MEMORY, WHOLE = "fairlead.dev/gpu-mem", "fairlead.dev/gpu-a"


class ReadRecorder(tuple[Accelerator, ...]):
    """Accelerators that record when they were read."""

    def __new__(cls, of: Iterable[Accelerator]) -> "ReadRecorder":
        """Keep them as they are."""
        made = super().__new__(cls, of)
        made.read = threading.Event()
        return made

    read: threading.Event

    def __iter__(self) -> Iterator[Accelerator]:
        self.read.set()
        return super().__iter__()


@dataclass
class Place:
    """A node: its kubelet, its API server, its publisher."""

    kubelet: Kubelet
    cluster: FakeCluster
    environment: PublisherEnvironment
    publisher: PublisherThread
    lines: list[str]
    cdi: Path

    async def node(self) -> Any:
        return await self.cluster.get(NODES, "n1")

    async def allocated(self) -> Any:
        text = (await self.node()).metadata.annotations.get(ALLOCATED)
        return json.loads(text)["accelerators"] if text else None

    def restart(self) -> None:
        """Start a new publisher, as after a crash: only what lies on disk survives."""
        self.publisher.stop()
        self.publisher = PublisherThread(self.environment, self.lines.append)
        self.publisher.start()


@asynccontextmanager
async def place(
    folder: Path,
    *accelerators: Accelerator,
    targets: str = "labels,plugin,claims",
    cluster: FakeCluster | None = None,
    limiter: Path | None = None,
    limit_hami: bool = False,
) -> AsyncIterator[Place]:
    for name in ("w", "cdi", "machine"):
        (folder / name).mkdir()
    config = json.dumps(
        {
            "folder": str(folder / "w"),
            "group": os.getegid(),
            "cdi": str(folder / "cdi"),
            "device_root": str(folder / "machine"),
        }
    )
    warden = subprocess.Popen([sys.executable, "-m", "fairlead.warden", config], stderr=subprocess.DEVNULL)
    kubelet, cluster = Kubelet(folder / "k", folder / "w" / "pod-resources.sock"), cluster or FakeCluster()
    await cluster.create(NODES, {"metadata": {"name": "n1", "labels": {"zone": "a"}}})
    publish_config = PublishConfig(
        "n1",
        frozenset(targets.split(",")),
        kubelet=folder / "k",
        warden=folder / "w",
        device_root=str(folder / "machine"),
        limiter_folder=limiter,
        limit_hami=limit_hami,
    )
    lines: list[str] = []
    environment = PublisherEnvironment(
        publish_config, lambda: nullcontext(cluster), lambda: Host(str(folder / "machine"))
    )
    it = Place(
        kubelet, cluster, environment, PublisherThread(environment, lines.append), lines, folder / "cdi"
    )
    try:
        await until((folder / "w" / "cdi.sock").exists)
        await kubelet.start()
        it.publisher.start()
        it.publisher.offer(node(*accelerators))
        await until(lambda: not it.publisher.problem(), 30)
        yield it
    finally:
        await asyncio.to_thread(it.publisher.stop)
        await kubelet.stop()
        warden.terminate()
        await asyncio.to_thread(warden.wait)


@pytest.fixture
def nook() -> Iterator[Path]:
    """Return a folder with a short name: the kernel takes 107 bytes as the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="fl-") as name:
        yield Path(name)


async def until(true: Callable[[], Any], patience: float = 10.0) -> None:
    """Wait until a condition, plain or awaitable, holds."""
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        answer = true()
        if await answer if isinstance(answer, Coroutine) else answer:
            return
        assert asyncio.get_running_loop().time() < deadline, "it never came true"
        await asyncio.sleep(0.02)


def test_an_unchanged_inventory_is_published_once(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU, STICK) as it:
            live = await it.node()
            assert live.metadata.labels["fairlead.dev/gpu-a.count"] == "1"
            assert live.metadata.labels["zone"] == "a"
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192)
            await until(lambda: it.kubelet.healthy(WHOLE) == it.kubelet.healthy("fairlead.dev/stick") == 1)
            await until(lambda: _count_slices(it))
            version = live.metadata.resource_version
            same = ReadRecorder((GPU, STICK))
            it.publisher.offer(replace(node(), accelerators=same))
            await until(same.read.is_set)
            assert (await it.node()).metadata.resource_version == version
            it.publisher.offer(node(GPU))  # published after the unchanged one, which is then done
            await until(lambda: _has_no_label(it, "fairlead.dev/stick.count"))
            await until(lambda: it.publisher.snapshot().writes["slice"] > 1)
            assert it.publisher.snapshot().writes == {"labels": 2, "annotation": 0, "slice": 2}
            assert [path.name for path in it.cdi.iterdir()] == ["fairlead.dev-accelerators.json"]

    asyncio.run(play())


def test_accelerators_that_disappear_are_withdrawn(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU, STICK) as it:
            await until(lambda: _count_slices(it))
            it.publisher.offer(node(STICK))
            await until(lambda: WHOLE not in it.kubelet.units and MEMORY not in it.kubelet.units)
            await until(lambda: _has_no_label(it, "fairlead.dev/gpu-a.count"))
            it.publisher.offer(node())
            await until(lambda: not it.kubelet.units)
            await until(lambda: _no_slices(it))
            assert (await it.node()).metadata.labels["zone"] == "a"
            await until(lambda: not list(it.cdi.iterdir()))

    asyncio.run(play())


def test_a_share_lies_on_one_accelerator_and_the_annotation_names_its_holder(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU, OTHER) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            response = await it.kubelet.admit("a", MEMORY, 2048)
            assert response.envs["FAIRLEAD_DEVICE"] == OTHER.id, "the one with the least memory left over"
            assert response.envs["FAIRLEAD_MEMORY_MIB"] == "2048"
            assert [cdi_device.name for cdi_device in response.cdi_devices] == [
                f"fairlead.dev/accelerator={OTHER.id}"
            ]
            await until(lambda: _allocated(it, {OTHER.id: {"memory": {"default/a/main": 2048}}}))
            await until(lambda: it.kubelet.healthy(WHOLE) == 1)
            it.kubelet.end("a")
            it.publisher.offer(node(GPU, OTHER))
            await until(lambda: it.kubelet.healthy(WHOLE) == 2, 25)

    asyncio.run(play())


def test_memory_of_processes_outside_pods_is_not_handed_out(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192)
            await it.kubelet.admit("a", MEMORY, 2048)
            reserve = follow(ForeignReserve(), {GPU.id: Bytes(900 << 20)})
            it.publisher.withhold(reserve.holdings())
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192 - 1024)
            await until(lambda: _capacity(it, "5Gi"))
            slices = it.publisher.snapshot().writes["slice"]
            it.publisher.withhold(reserve.holdings())
            it.publisher.offer(node(GPU, STICK))  # published after the unchanged one, which is then done
            await until(lambda: it.kubelet.healthy("fairlead.dev/stick") == 1)
            await until(lambda: it.publisher.snapshot().writes["slice"] > slices)
            assert it.publisher.snapshot().writes["slice"] == slices + 1
            it.publisher.withhold(())
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192)

    asyncio.run(play())


async def _capacity(it: Place, memory: str) -> bool:
    live = await it.cluster.get(RESOURCE_SLICES, "n1-fairlead-0")
    return [device.capacity["memory"]["value"] for device in live.spec.devices] == [memory]


def test_units_of_two_accelerators_are_refused_with_the_reason(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU, OTHER) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            with pytest.raises(KubeletError, match="cannot span two accelerators"):
                await it.kubelet.admit("a", MEMORY, 10000)
            assert it.publisher.snapshot().refused == {"whole": 0, "memory": 1, "claim": 0}

    asyncio.run(play())


def test_forms_exclude_each_other_before_the_kubelet_has_the_new_list(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192 and it.kubelet.healthy(WHOLE) == 1)
            stale = dict(it.kubelet.units)
            await it.kubelet.admit("a", MEMORY, 2048)
            it.kubelet.units |= stale
            with pytest.raises(KubeletError, match="some of it is held: default/a/main holds 2048 MiB"):
                await it.kubelet.admit("b", WHOLE, 1)
            await claim(it, "c", "4Gi")
            assert not (await it.kubelet.prepare("c", UID["c"], GPU.id)).error
            await claim(it, "d", "4Gi")
            refused = await it.kubelet.prepare("d", UID["d"], GPU.id)
            assert "4096 MiB of" in refused.error
            assert "2048 of 8192 MiB are free" in refused.error
            await until(lambda: it.kubelet.healthy(MEMORY) == 4096)

    asyncio.run(play())


def test_a_claim_gets_its_share_and_leaves_nothing_behind(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: it.publisher.snapshot().registered.get("claims"))
            await claim(it, "c", "3Gi")
            for _ in range(2):  # kubelets repeat the call
                ready = await it.kubelet.prepare("c", UID["c"], GPU.id)
                assert not ready.error
            (device,) = ready.devices
            assert (device.pool_name, device.device_name, device.share_id) == ("n1", GPU.id, "share-c")
            spec = json.loads((it.cdi / f"fairlead.dev-claim-{UID['c']}.json").read_text())
            env = spec["devices"][0]["containerEdits"]["env"]
            assert "FAIRLEAD_MEMORY_MIB=3072" in env
            assert f"FAIRLEAD_DEVICE={GPU.id}" in env
            await until(lambda: _allocated(it, {GPU.id: {"claim": {"default/c": 3072}}}))
            for _ in range(2):
                assert await it.kubelet.unprepare("c", UID["c"]) == ""
            await until(lambda: _allocated(it, {}))
            assert [path.name for path in it.cdi.iterdir()] == ["fairlead.dev-accelerators.json"]

    asyncio.run(play())


def test_after_a_restart_of_kubelet_and_agent_nothing_is_allocated_twice(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192)
            await it.kubelet.admit("a", MEMORY, 2048)
            await claim(it, "c", "4Gi")
            assert not (await it.kubelet.prepare("c", UID["c"], GPU.id)).error
            await it.kubelet.stop()
            await asyncio.to_thread(it.restart)
            it.publisher.offer(node(GPU))
            await until(lambda: "pod-resources" in it.publisher.problem())
            await it.kubelet.start()
            await until(lambda: not it.publisher.problem())
            await until(lambda: it.kubelet.healthy(MEMORY) == 4096)
            with pytest.raises(KubeletError, match="2048 of 4096 units are free"):
                await it.kubelet.admit("b", MEMORY, 4096)
            assert it.kubelet.healthy(WHOLE) == 0

    asyncio.run(play())


def test_the_kubelet_is_served_while_the_api_server_is_unavailable(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192)
            it.cluster.disconnect()
            await it.cluster.delete(NODES, "n1")
            it.publisher.offer(node(replace(GPU, state=State.PRESENT, reason="unplugged")))
            await until(lambda: it.kubelet.healthy(MEMORY) == 0)
            await until(lambda: any("cannot publish" in line for line in it.lines))
            await it.cluster.create(NODES, {"metadata": {"name": "n1"}})
            await until(lambda: _has_label(it, "fairlead.dev/gpu-a.state"), 20)

    asyncio.run(play())


def test_labels_and_slices_that_were_deleted_are_written_again(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: _count_slices(it))
            await it.cluster.patch(NODES, "n1", {"metadata": {"labels": {"fairlead.dev/gpu-a.count": None}}})
            await until(lambda: _has_label(it, "fairlead.dev/gpu-a.count"))
            await it.cluster.delete(RESOURCE_SLICES, "n1-fairlead-0")
            await until(lambda: _count_slices(it))
            await it.cluster.patch(RESOURCE_SLICES, "n1-fairlead-0", {"spec": {"devices": []}})
            await until(lambda: _has_devices(it))

    asyncio.run(play())


UID = {name: f"00000000-0000-0000-0000-00000000000{name}" for name in "abcdef"}


async def claim(it: Place, name: str, memory: str, pods: tuple[dict[str, str], ...] = ()) -> None:
    """Create a claim to which a scheduler has allocated part of the GPU, reserved for pods."""
    result = {
        "request": "gpu",
        "driver": "fairlead.dev",
        "pool": "n1",
        "device": GPU.id,
        "consumedCapacity": {"memory": memory},
        "shareID": f"share-{name}",
    }
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": list(pods)}
    made = await it.cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}})
    await it.cluster.patch_status(RESOURCE_CLAIMS, name, {"status": status}, "default")
    UID[name] = made.metadata.uid


async def _allocated(it: Place, wanted: dict[str, Any]) -> bool:
    return bool(await it.allocated() == wanted)


async def _has_label(it: Place, key: str) -> bool:
    return key in (await it.node()).metadata.labels


async def _has_no_label(it: Place, key: str) -> bool:
    return not await _has_label(it, key)


async def _count_slices(it: Place) -> int:
    return len((await it.cluster.list(RESOURCE_SLICES)).items)


async def _has_devices(it: Place) -> bool:
    return bool((await it.cluster.get(RESOURCE_SLICES, "n1-fairlead-0")).spec.devices)


async def _no_slices(it: Place) -> bool:
    return not await _count_slices(it)

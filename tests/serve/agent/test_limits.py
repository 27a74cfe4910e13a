"""A pod that asks for the limiter gets a daemon of its own while it holds its share; no other pod has any."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.http import codec
from fairlead.cluster.kinds import PODS
from fairlead.cluster.objects import Pod
from fairlead.enforcement.request import Limit
from fairlead.errors import KubeletError
from fairlead.keys import COMPUTE, HAMI_CORES, HAMI_MEM, LIMITER, MEMORY_LIMIT, PLACEMENT
from fairlead.limiter.mps import MpsFolder
from fairlead.limiter.mps_daemon import MpsDaemon
from fairlead.offer import Form, Holder, Holding
from fairlead.placement import PLACEMENTS
from fairlead.publish.ledger import UNNAMED, Ledger
from fairlead.publish.memory_limit import MEMORY_BYTES, MemoryLimit
from fairlead.serve.agent.limits import ShareLimits
from fairlead.serve.agent.pod_limiter import LimiterRequest, limiter_request
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker
from fairlead.settings.publishing import PublishConfig
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.accelerators import accelerator, node
from tests.limiter.control import processes_below, write_control
from tests.serve.agent.test_placement_lookup import promises
from tests.serve.agent.test_publisher import MEMORY, UID, Place, claim, nook, place, until

__all__ = ["nook"]
UUID = "GPU-0f8fad5b-d9cb-469f-a165-70867728950e"
GPU = accelerator(
    "pci:0000:01:00.0", vendor="NVIDIA", kind="gpu", driver="nvidia", model="gpu-a", mebibytes=8192, uuid=UUID
)
AMD = accelerator("pci:0000:02:00.0", vendor="AMD", kind="gpu", driver="amdgpu", mebibytes=4096)
STICK = accelerator("pci:0000:03:00.0", model="stick")
PIPE, SIZE, SHARE = (
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)


async def bind(
    it: Place, name: str, annotations: dict[str, str], device: str = GPU.id, **container: Any
) -> Any:
    """Create a pod of 1024 MiB that our scheduler placed."""
    placed = {PLACEMENT: PLACEMENTS.encode((DeviceShare(device, Bytes(1024 << 20)),))} if device else {}
    main = {"name": "main", "resources": {"limits": {MEMORY: "1024"}}, **container}
    meta = {"name": name, "namespace": "default", "annotations": {**placed, **annotations}}
    spec = {"nodeName": "n1", "containers": [main]}
    return await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")


class Limiter:
    """The program that keeps the daemons, in a folder of the node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mps"
        settings = {
            "folder": str(self.folder),
            "group": os.getegid(),
            "program": str(folder / "bin" / PROGRAM),
        }
        self._command = [sys.executable, "-m", "fairlead.enforcement", json.dumps(settings)]

    async def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        await until((self.folder / "limit.sock").exists, 30)

    async def stop(self) -> None:
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)


@asynccontextmanager
async def running(limiter: Limiter) -> AsyncIterator[None]:
    """Run the limiter during the block."""
    limiter.folder.mkdir()
    await limiter.start()
    try:
        yield
    finally:
        await limiter.stop()


PROGRAM = "nvidia-cuda-mps-control"


Script = Callable[[Place, Limiter], Awaitable[None]]


def run_script(folder: Path, script: Script) -> None:
    """Play a script on a node with a limiter; afterwards no process of a daemon is left."""

    async def play() -> None:
        write_control(folder / "bin")
        limiter = Limiter(folder)
        node_ = place(folder, GPU, AMD, limiter=limiter.folder, limit_hami=True)
        async with running(limiter), node_ as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 12288)
            await until(lambda: promises(it))
            await script(it, limiter)

    asyncio.run(play())
    assert processes_below(str(folder)) == []


def daemons(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_dir())


def daemon(folder: Path, name: str) -> MpsDaemon:
    return MpsDaemon(MpsFolder(str(folder / name)), str(folder.parent / "bin" / PROGRAM))


def defaults(folder: Path, name: str) -> Any:
    return json.loads(daemon(folder, name).send("played_defaults"))


async def listed(it: Place, *pods: str) -> bool:
    """Return whether the agent has read that pods hold their units."""
    holders = (await it.allocated() or {}).get(GPU.id, {}).get("memory", {})
    return all(f"default/{pod}/main" in holders for pod in pods)


async def drop(it: Place, *pods: str) -> None:
    """End pods; a new accelerator makes the agent read what is held at once."""
    for pod in pods:
        it.kubelet.end(pod)
    it.publisher.offer(node(GPU, AMD, replace(STICK, id=f"stick-{len(it.kubelet.held)}")))


def test_units_of_a_pod_that_asks_have_a_daemon_until_the_pod_ends(nook: Path) -> None:
    async def script(it: Place, limiter: Limiter) -> None:
        folder = limiter.folder
        await bind(it, "plain", {})
        plain = await it.kubelet.admit("plain", MEMORY, 1024)
        assert (plain.mounts, daemons(folder)) == ((), [])
        assert not {PIPE, SIZE, SHARE, MEMORY_BYTES} & plain.envs.keys()

        await bind(it, "limited", {LIMITER: "mps", COMPUTE: "25%"})
        limited = await it.kubelet.admit("limited", MEMORY, 1024)
        (name,) = daemons(folder)
        assert defaults(folder, name) == {
            "devices": UUID,
            "arguments": "-d -M",
            "set_default_device_pinned_mem_limit 0": "1024M",
            "set_default_active_thread_percentage": "25",
        }
        (mount,) = limited.mounts
        assert (mount.container_path, mount.host_path, mount.read_only) == (
            "/tmp/nvidia-mps",
            f"/run/fairlead-mps/{name}/pipe",
            True,
        )
        added = {key: value for key, value in limited.envs.items() if key not in plain.envs}
        assert (added[PIPE], added[SIZE], added[SHARE]) == ("/tmp/nvidia-mps", "0=1024M", "25")
        assert added[MEMORY_BYTES] == str(1024 << 20), "frameworks stay inside it too"

        await bind(it, "small", {LIMITER: "mps", MEMORY_LIMIT: str(512 << 20)}, device="")
        await it.kubelet.admit("small", MEMORY, 1024)
        (other,) = set(daemons(folder)) - {name}
        assert defaults(folder, other)["set_default_device_pinned_mem_limit 0"] == "512M"
        await until(lambda: listed(it, "plain", "limited", "small"), 60)
        await drop(it, "limited")
        await until(lambda: daemons(folder) == [other], 60)
        await drop(it, "plain", "small")
        await until(lambda: daemons(folder) == [], 60)

    run_script(nook, script)


def test_the_units_of_an_init_container_keep_their_daemon_when_they_are_handed_on(nook: Path) -> None:
    async def script(it: Place, limiter: Limiter) -> None:
        share = DeviceShare(GPU.id, Bytes(1024 << 20))
        annotations = {PLACEMENT: PLACEMENTS.encode((share,)), LIMITER: "mps"}
        first, main = (
            {"name": name, "resources": {"limits": {MEMORY: "1024"}}} for name in ("first", "main")
        )
        spec = {"nodeName": "n1", "initContainers": [first], "containers": [main]}
        meta = {"name": "web", "namespace": "default", "annotations": annotations}
        await it.cluster.create(PODS.raw(), {"metadata": meta, "spec": spec}, "default")
        before = await it.kubelet.admit("web/first", MEMORY, 1024)
        after = await it.kubelet.hand_on("web/first", "web", MEMORY)
        assert before.mounts == after.mounts != ()
        assert after.envs[PIPE] == "/tmp/nvidia-mps"
        (name,) = daemons(limiter.folder)
        assert daemon(limiter.folder, name).is_alive()

    run_script(nook, script)


def test_a_restart_of_the_agent_keeps_the_daemon_and_after_one_of_the_node_it_is_back(nook: Path) -> None:
    async def script(it: Place, limiter: Limiter) -> None:
        folder = limiter.folder
        await bind(it, "limited", {LIMITER: "mps"})
        await it.kubelet.admit("limited", MEMORY, 1024)
        (name,) = daemons(folder)
        pid = daemon(folder, name).pid()
        (folder / ("0" * 32)).mkdir()
        await asyncio.to_thread(it.restart)
        it.publisher.offer(node(GPU, AMD))
        await until(lambda: daemons(folder) == [name], 60)
        assert daemon(folder, name).pid() == pid, "the leftover is gone, and the daemon of the pod lives on"
        await limiter.stop()
        assert not daemon(folder, name).is_alive()
        shutil.rmtree(folder / name)  # a restart of the node empties /run
        await limiter.start()
        await until(lambda: daemon(folder, name).is_alive(), 60)
        size = "set_default_device_pinned_mem_limit 0"
        await until(lambda: defaults(folder, name).get(size) == "1024M", 60)

    run_script(nook, script)


def test_a_claim_of_a_hami_pod_has_a_daemon_until_it_is_unprepared(nook: Path) -> None:
    async def script(it: Place, limiter: Limiter) -> None:
        folder = limiter.folder
        await until(lambda: it.publisher.snapshot().registered.get("claims"))
        hami = {"nvidia.com/gpu": "1", HAMI_MEM: "1024", HAMI_CORES: "30"}
        for name, resources in (("c", hami), ("d", {})):
            pod = await bind(it, name, {}, resources={"limits": resources})
            users = [{"resource": "pods", "name": name, "uid": pod.metadata.uid}]
            await claim(it, name, "1Gi", tuple(users))
            assert not (await it.kubelet.prepare(name, UID[name], GPU.id)).error
        name = UID["c"].replace("-", "")
        assert daemons(folder) == [name]
        assert defaults(folder, name)["set_default_active_thread_percentage"] == "30"
        edits = {
            each: json.loads((it.cdi / f"fairlead.dev-claim-{UID[each]}.json").read_text())["devices"][0]
            for each in "cd"
        }
        assert edits["c"]["containerEdits"]["mounts"] == [
            {
                "hostPath": f"/run/fairlead-mps/{name}/pipe",
                "containerPath": "/tmp/nvidia-mps",
                "options": ["ro", "nosuid", "nodev", "noexec", "bind"],
            }
        ]
        assert f"{PIPE}=/tmp/nvidia-mps" in edits["c"]["containerEdits"]["env"]
        assert "mounts" not in edits["d"]["containerEdits"]
        assert not [text for text in edits["d"]["containerEdits"]["env"] if "MPS" in text]
        pid = daemon(folder, name).pid()
        assert not (await it.kubelet.prepare("c", UID["c"], GPU.id)).error
        assert daemon(folder, name).pid() == pid, "a kubelet prepares again after its restart"
        assert not await it.kubelet.unprepare("c", UID["c"])
        assert daemons(folder) == []

    run_script(nook, script)


def test_a_pod_that_cannot_be_limited_is_refused_with_the_reason(nook: Path) -> None:
    async def script(it: Place, limiter: Limiter) -> None:
        folder = limiter.folder
        await bind(it, "amd", {LIMITER: "mps"}, device=AMD.id)
        with pytest.raises(KubeletError, match="MPS limits GPUs of NVIDIA's driver, and Test Device is none"):
            await it.kubelet.admit("amd", MEMORY, 1024)
        it.kubelet.known.remove("amd")
        await bind(it, "typo", {LIMITER: "hami"})
        with pytest.raises(KubeletError, match="no limiter is called 'hami'; write mps or none"):
            await it.kubelet.admit("typo", MEMORY, 1024)
        it.kubelet.known.remove("typo")
        write_control(folder.parent / "bin", refusal="no GPU")
        await bind(it, "late", {LIMITER: "mps"})
        with pytest.raises(KubeletError, match="exit code 1: no GPU"):
            await it.kubelet.admit("late", MEMORY, 1024)
        assert it.publisher.snapshot().refused["memory"] == 3

    run_script(nook, script)


def test_without_a_limiter_a_pod_that_asks_for_one_is_refused(nook: Path) -> None:
    async def play() -> None:
        async with place(nook, GPU) as it:
            await until(lambda: it.kubelet.healthy(MEMORY) == 8192)
            await until(lambda: promises(it))
            await bind(it, "limited", {LIMITER: "mps"})
            with pytest.raises(KubeletError, match="this node runs no limiter"):
                await it.kubelet.admit("limited", MEMORY, 1024)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("annotations", "limits", "hami", "wanted"),
    [
        ({}, {}, True, None),
        ({LIMITER: "none"}, {HAMI_MEM: "3000"}, True, None),
        ({}, {HAMI_MEM: "3000"}, False, None),
        ({}, {HAMI_MEM: "3000"}, True, LimiterRequest()),
        ({}, {HAMI_MEM: "3000", HAMI_CORES: "30"}, True, LimiterRequest(percent=30)),
        ({LIMITER: "mps"}, {HAMI_CORES: "30"}, False, LimiterRequest(percent=30)),
        ({LIMITER: "mps"}, {HAMI_CORES: "100"}, False, LimiterRequest()),
        ({LIMITER: "mps"}, {HAMI_CORES: "0"}, False, LimiterRequest()),
        ({LIMITER: "mps", COMPUTE: "0.125"}, {}, False, LimiterRequest(percent=13)),
        ({LIMITER: " mps "}, {}, False, LimiterRequest()),
    ],
)
def test_what_a_pod_asks(
    annotations: dict[str, str], limits: dict[str, str], hami: bool, wanted: LimiterRequest | None
) -> None:
    assert limiter_request(pod_of(annotations, limits), None, hami=hami) == wanted


def test_what_a_pod_cannot_ask() -> None:
    size = MemoryLimit(Bytes(5))
    asks = limiter_request(pod_of({LIMITER: "mps"}, {}, {"A"}), size)
    assert asks == LimiterRequest(Bytes(5), own=frozenset({"A"}))
    own = limiter_request(pod_of({LIMITER: "mps"}, {}, {PIPE}), None)
    assert own is not None
    assert f"sets {PIPE} itself" in own.fault
    wrong = limiter_request(pod_of({LIMITER: "mps", COMPUTE: "much"}, {}), None)
    assert wrong is not None
    assert "not a fraction" in wrong.fault


def pod_of(annotations: dict[str, str], limits: dict[str, str], own: set[str] | None = None) -> Pod:
    env = [{"name": name} for name in own or ()]
    main = {"name": "main", "resources": {"limits": limits}, "env": env}
    return codec.from_document(
        Pod, {"metadata": {"annotations": annotations}, "spec": {"containers": [main]}}
    )


def test_the_limit_of_a_share_is_read_for_a_named_holder_and_after_a_fault_again(nook: Path) -> None:
    named = Holding(GPU.id, Form.MEMORY, Holder("default", "web", "main"), 1024, ((0, 1023),))
    unnamed = Holding(GPU.id, Form.MEMORY, UNNAMED, 1024, ((1024, 2047),))
    asked: list[Holding] = []
    again = asyncio.Event()

    async def resolve(holding: Holding) -> Limit | None:
        asked.append(holding)
        if len(asked) > 1:
            again.set()
        raise RuntimeError("a fault")

    async def play() -> None:
        lines: list[str] = []
        config = PublishConfig("n1", limiter_folder=nook)
        tracker = PodResourcesTracker(config, asyncio.Event(), lines.append)
        tracker.ledger = Ledger((named, unnamed))
        task = asyncio.create_task(ShareLimits(config, tracker, lines.append, period=0.01).run(resolve))
        await asyncio.wait_for(again.wait(), 300)
        task.cancel()
        assert set(asked) == {named}
        assert lines == ["limits: a fault of this program: RuntimeError('a fault')"]

    asyncio.run(play())

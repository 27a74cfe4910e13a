"""The lab's CSI driver, called by a kubelet."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpclib.exceptions import GRPCError

from fairlead.errors import LabError
from fairlead.kubelet.messages import Empty, RegistrationStatus
from fairlead.kubelet.proto import Message
from fairlead.lab.csi import messages as wire
from fairlead.lab.csi.images import Images, obstacle
from fairlead.lab.csi.node import IDENTITY, NodeService, endpoint
from fairlead.lab.csi.objects import DRIVER, SMALLEST
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.up import LabSpec, check_spec
from tests.kubelet.kubelets import Connection, dial, info, notify, plugin_folders

NODE = "/csi.v1.Node"


@pytest.fixture
def kubelet() -> Iterator[Path]:
    with plugin_folders() as made:
        yield made.folder.parent


async def ready(connection: Connection) -> bool:
    return (await connection.call(f"{IDENTITY}/Probe", Empty(), wire.ProbeResponse)).ready.value


def test_a_kubelet_finds_the_driver_and_learns_what_it_can(kubelet: Path) -> None:
    async def scenario() -> None:
        service = NodeService("node-1", kubelet, Images(kubelet, {}), lambda line: None)
        await service.open(kubelet)
        registration = kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"
        found = await info(registration)
        assert (found.type, found.name, found.endpoint) == ("CSIPlugin", DRIVER, str(endpoint(kubelet)))
        async with dial(endpoint(kubelet)) as connection:
            assert not await ready(connection)
            await notify(registration, RegistrationStatus(plugin_registered=True))
            assert await ready(connection)
            about = await connection.call(f"{IDENTITY}/GetPluginInfo", Empty(), wire.GetPluginInfoResponse)
            assert about.name == DRIVER
            node = await connection.call(f"{NODE}/NodeGetInfo", Empty(), wire.NodeGetInfoResponse)
            assert node.node_id == "node-1"
            calls = await connection.call(
                f"{NODE}/NodeGetCapabilities", Empty(), wire.NodeGetCapabilitiesResponse
            )
            assert [each.rpc.type for each in calls.capabilities] == [1, 2, 3]
            plugin = await connection.call(
                f"{IDENTITY}/GetPluginCapabilities", Empty(), wire.GetPluginCapabilitiesResponse
            )
            assert [each.volume_expansion.type for each in plugin.capabilities] == [1]
        await service.close()
        assert not registration.exists()

    asyncio.run(scenario())


def test_the_use_of_a_volume_is_that_of_its_file_system(kubelet: Path) -> None:
    async def scenario() -> None:
        service = NodeService("node-1", kubelet, Images(kubelet, {}), lambda line: None)
        await service.open(kubelet)
        async with dial(endpoint(kubelet)) as connection:
            request = wire.NodeGetVolumeStatsRequest("pvc-a", str(kubelet))
            stats = await connection.call(
                f"{NODE}/NodeGetVolumeStats", request, wire.NodeGetVolumeStatsResponse
            )
        await service.close()
        found = os.statvfs(kubelet)
        of_bytes, of_inodes = stats.usage
        assert (of_bytes.unit, of_bytes.total) == (1, found.f_blocks * found.f_frsize)
        assert (of_inodes.unit, of_inodes.total) == (2, found.f_files)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("call", "request_message", "text"),
    [
        ("NodeStageVolume", wire.NodeStageVolumeRequest("../etc", "/x"), "is not a volume of the lab"),
        ("NodeStageVolume", wire.NodeStageVolumeRequest("pvc-a", "x"), "'x' is not an absolute path"),
        ("NodeStageVolume", wire.NodeStageVolumeRequest("pvc-a", "/x"), "volume pvc-a has no image"),
        ("NodePublishVolume", wire.NodePublishVolumeRequest("pvc-a", "/x", "/y"), "the volume is not staged"),
        ("NodeExpandVolume", wire.NodeExpandVolumeRequest("pvc-a", "/x"), "volume pvc-a is not mounted"),
        ("NodeGetVolumeStats", wire.NodeGetVolumeStatsRequest("pvc-a", "/none"), "/none: No such file"),
    ],
    ids=["escapes", "relative", "unknown", "unstaged", "unmounted", "missing"],
)
def test_what_cannot_be_done_is_an_error_with_its_reason(
    kubelet: Path, call: str, request_message: Message, text: str
) -> None:
    async def scenario() -> None:
        service = NodeService("node-1", kubelet, Images(kubelet, {}), lambda line: None)
        await service.open(kubelet)
        async with dial(endpoint(kubelet)) as connection:
            with pytest.raises(GRPCError, match=text):
                await connection.call(f"{NODE}/{call}", request_message, Empty)
        await service.close()

    asyncio.run(scenario())


def test_unmounting_what_is_not_mounted_is_no_error(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    Images(tmp_path, {}).unmount(target)
    assert not target.exists()
    Images(tmp_path, {}).unmount(target)


def test_an_image_is_found_by_its_loop_device(tmp_path: Path) -> None:
    images = Images(tmp_path, {})
    for number, image in enumerate((tmp_path / "other.xfs", images.path("pvc-a"))):
        folder = tmp_path / f"loop{number}" / "loop"
        folder.mkdir(parents=True)
        (folder / "backing_file").write_text(f"{image}\n")
    assert images.device("pvc-a", tmp_path) == "/dev/loop1"
    assert images.device("pvc-b", tmp_path) == ""


def test_a_failing_tool_is_one_clear_line(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mkfs.xfs").write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    (tools / "mkfs.xfs").chmod(0o755)
    images = Images(tmp_path, {"PATH": f"{tools}:{os.environ['PATH']}"})
    with pytest.raises(LabError, match=r"mkfs\.xfs failed: no room"):
        images.create("pvc-a", SMALLEST)
    assert list(tmp_path.iterdir()) == [tools]


def test_a_machine_without_loop_devices_or_xfs_says_so(tmp_path: Path) -> None:
    kinds = tmp_path / "filesystems"
    kinds.write_text("nodev\tproc\n\text4\n")
    assert "modprobe loop" in obstacle(tmp_path / "none", kinds)
    assert "modprobe xfs" in obstacle(tmp_path, kinds)
    kinds.write_text("nodev\tproc\n\txfs\n")
    assert obstacle(tmp_path, kinds) == ""


def test_volumes_need_real_nodes(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="volumes are mounted on real nodes"):
        check_spec(LabHome(tmp_path), LabSpec(LabProfile.CONTROL, volumes=True))

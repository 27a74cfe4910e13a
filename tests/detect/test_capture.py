"""Capture: exactly the paths that discovery read, without data that identifies a machine; it replays."""

import gzip
import os
import shutil
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from fairlead.catalog import Catalog
from fairlead.detect import capture, detect
from fairlead.errors import CaptureError
from fairlead.host import Host
from fairlead.inventory import Inventory
from tests import catalogs, strategies
from tests.soundness import assert_sound, without_evidence
from tests.worlds import (
    TREE,
    Entry,
    Files,
    Link,
    Special,
    World,
    build,
    crowded,
    memory,
    pci,
    platform,
    tree,
    usb,
)


def take(root: str, catalog: Catalog, file: str) -> Inventory:
    """Capture the machine below `root` and return its inventory."""
    seen: list[Inventory] = []
    host = capture.RecordingHost(root)
    gpus = capture.read_gpus(host)
    capture.write_capture(file, lambda looked_at: seen.append(detect(looked_at, catalog, gpus)), host, gpus)
    return seen[0]


def replay(file: str, catalog: Catalog) -> Inventory:
    """Return the inventory of a captured machine."""
    with capture.open_capture(file) as root:
        host = Host(root)
        return detect(host, catalog, capture.read_gpus(host))


def without_uuids(inventory: Inventory) -> Inventory:
    """Return an inventory without the UUIDs that a capture scrubs."""
    return replace(inventory, accelerators=tuple(replace(acc, uuid=None) for acc in inventory.accelerators))


COMPUTER = {**memory(15.6), "/proc/cpuinfo": "processor: 0\nflags: lm avx2\ncpu MHz: 3000.0\n"}
BOARDS: dict[str, Files] = {
    "crowded": crowded(),
    "empty": {},
    "computer": COMPUTER,
    "class entry by link": {
        **pci("0000:02:00.0", "1e60:2864", driver="hailo"),
        "/sys/class/hailo_chardev/hailo1/device": Link("../../../devices/pci0000:00/0000:02:00.0"),
        "/dev/hailo1": "",
    },
    "class entries of two": {
        **pci("0000:02:00.0", "1e60:2864", driver="hailo"),
        **pci("0000:03:00.0", "1e60:2864", driver="hailo"),
        "/sys/class/hailo_chardev/hailo0/device": Link("../../../devices/pci0000:00/0000:03:00.0"),
        "/sys/class/hailo_chardev/hailo1/device": Link("../../../devices/pci0000:00/0000:02:00.0"),
        "/dev/hailo0": "",
        "/dev/hailo1": "",
    },
    "class below the device": {
        **pci("0000:01:00.0", "1ac1:089a", driver="apex", apex__apex_0__status="ALIVE\n"),
        "/dev/apex_0": "",
    },
    "masked tree": {"/sys/devices/soc0/family": "Tegra\n", "/sys/devices/soc0/soc_id": "33\n"},
    "no driver": pci("0000:01:00.0", "1ac1:089a"),
    "stick": usb("1-1", "18d1:9302", driver="usbfs"),
    "board": {
        **tree("radxa,rock-5b", "rockchip,rk3588", nodes={"npu@fdab0000": "rockchip,rk3588-rknpu"}),
        **platform("fdab0000.npu", driver="RKNPU"),
        "/dev/dri/renderD129": "",
        **memory(15.6),
    },
    "links of its own": {
        "/sys": Link("/real/sys"),
        "/real/sys/bus/pci/devices/0000:01:00.0/vendor": "0x1ac1",
        "/real/sys/bus/pci/devices/0000:01:00.0/device": "0x089a",
        "/real/sys/bus/pci/devices/0000:01:00.0/driver": Link("/real/apex"),
        "/dev": Link("/real/dev"),
        "/real/dev/apex_0": "",
    },
}


@pytest.mark.parametrize("board", BOARDS)
def test_a_captured_machine_replays(world: World, catalog: Catalog, tmp_path: Path, board: str) -> None:
    file = str(tmp_path / "machine.tar.gz")
    seen = without_uuids(take(world(BOARDS[board]).root, catalog, file))
    again = without_uuids(replay(file, catalog))
    assert again == seen  # with every path and every word of the evidence
    assert_sound(again, catalog)


@pytest.mark.parametrize("board", BOARDS)
def test_a_replayed_machine_can_be_captured_again(
    world: World, catalog: Catalog, tmp_path: Path, board: str
) -> None:
    first, second = str(tmp_path / "first.tar.gz"), str(tmp_path / "second.tar.gz")
    take(world(BOARDS[board]).root, catalog, first)
    with capture.open_capture(first) as root:
        seen = take(root, catalog, second)
    assert replay(second, catalog) == seen


@given(strategies.hostile_worlds())
def test_any_machine_can_be_captured_and_replayed(files: dict[str, Entry]) -> None:
    catalog, room = catalogs.shipped(), tempfile.mkdtemp()
    try:
        build(f"{room}/root", files)
        seen = take(f"{room}/root", catalog, f"{room}/machine.tar.gz")
        again = replay(f"{room}/machine.tar.gz", catalog)
        assert_sound(again, catalog)
        assert [acc.bus for acc in again.accelerators] == [acc.bus for acc in seen.accelerators]
        assert without_evidence(without_uuids(again)) == without_evidence(without_uuids(seen))
    finally:
        shutil.rmtree(room)


SECRETS: Files = {
    # In files that discovery reads.
    "/proc/cpuinfo": "processor\t: 0\nflags\t\t: lm\nSerial\t\t: 10000000SECRET01\nModel\t\t: Pi\n",
    "/proc/driver/nvidia/gpus/0000:03:00.0/information": "Model: NVIDIA H200\nDevice Minor: 0\n"
    "GPU UUID: GPU-5ec2e702-5ec2-5ec2-5ec2-5ec2e75ec2e7\nSerial Number: SECRET03\n",
    "/fairlead/nvml.json": '[{"index": 0, "address": "0000:03:00.0", "name": "NVIDIA H200", "memory": 1,'
    '"uuid": "GPU-5ec2e704-5ec2-5ec2-5ec2-5ec2e75ec2e7", "power_limit": 1, "driver_version": "1",'
    '"ecc_errors": 0}]',
    f"{TREE}/model": "Acme Board serial=SECRET05 5e:c2:e7:00:00:06\0",
    f"{TREE}/nvidia,dtsfilename": "/home/SECRET07/linux/tegra210-p3448.dts\0",
    # Beside them.
    "/etc/hostname": "SECRET10",
    "/etc/machine-id": "SECRET11",
    f"{TREE}/serial-number": "SECRET12\0",
    f"{TREE}/chosen/bootargs": "root=UUID=SECRET13\0",
    "/sys/devices/usb1/1-1/serial": "SECRET14\n",
    "/sys/class/net/eth0/address": "5e:c2:e7:00:00:15\n",
    "/sys/class/dmi/id/product_uuid": "SECRET16",
    "/sys/devices/pci0000:00/0000:01:00.0/apex/apex_0/unique_id": "SECRET17",
    "/proc/version": "Linux SECRET18",
    "/dev/SECRET19-vg/root": "",
    "/dev/disk/by-uuid/SECRET20": "",
    "/dev/mapper/SECRET21": "",
    "/root/.ssh/id_ed25519": "SECRET22",
}


def test_data_that_identifies_a_machine_is_scrubbed(world: World, catalog: Catalog, tmp_path: Path) -> None:
    file = str(tmp_path / "machine.tar.gz")
    seen = take(world(crowded() | dict(SECRETS)).root, catalog, file)
    content = gzip.decompress(Path(file).read_bytes()).lower()
    assert seen.accelerators
    for mark in (b"secret", b"5ec2e7", b"5e:c2:e7"):
        assert mark not in content
    with tarfile.open(file) as tar:
        for info in tar:
            assert (info.uid, info.gid, info.uname, info.gname, info.mtime) == (0, 0, "", "", 0)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Serial\t\t: 00000000abcdef\nModel\t: Pi\n", "Serial\t\t: 0\nModel\t: Pi\n"),
        ("Serial\t\t: \nModel\t: Pi\n", "Serial\t\t: 0\nModel\t: Pi\n"),
        ("serial=AB-12 x", "serial=0 x"),
        ("serial_no: 77", "serial_no: 0"),
        ("GPU-01234567-89ab-cdef-0123-456789abcdef", "GPU-00000000-0000-0000-0000-000000000000"),
        ("eth 00:11:22:aa:bb:cc up", "eth 00:00:00:00:00:00 up"),
        ("at /home/jane/src/x.dts", "at /home/user/src/x.dts"),
        ("0000:01:00.0 flags: fpu vme", "0000:01:00.0 flags: fpu vme"),
        ("MemTotal:       16303428 kB", "MemTotal:       16303428 kB"),
    ],
)
def test_scrubbing(text: str, clean: str) -> None:
    assert capture.scrub(text.encode()).decode() == clean


def test_only_paths_that_discovery_read_are_captured(world: World, small: Catalog, tmp_path: Path) -> None:
    file = str(tmp_path / "machine.tar.gz")
    neighbours = dict.fromkeys(["/etc/passwd", "/sys/devices/pci0000:00/0000:01:00.0/config", "/home/x"], "x")
    take(world(pci("0000:01:00.0", "aaaa:1000") | neighbours | COMPUTER).root, small, file)
    with tarfile.open(file) as tar:
        names = {f"/{name}" for name in tar.getnames()}
    paths = _paths_read(world({}).root, small)
    assert names
    assert all(any(path == name or path.startswith(f"{name}/") for path in paths) for name in names), names
    assert not names & set(neighbours)


def _paths_read(root: str, catalog: Catalog) -> set[str]:
    """Return every path that discovery reads, and where it leads."""
    host = _RecordingPaths(root)
    detect(host, catalog)
    return host.paths | {target for path in host.paths if (target := Host(root).resolve(path))}


class _RecordingPaths(Host):
    """A host that records the paths of all reads."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.paths: set[str] = set()

    def _locate(self, path: str) -> str | None:
        self.paths.add(path)
        return super()._locate(path)

    def read(self, path: str, limit: int = 65536) -> bytes | None:
        self.paths.add(path)
        return super().read(path, limit)

    def names(self, path: str, pattern: str = "*") -> list[str]:
        names = super().names(path, pattern)
        self.paths.update(f"{path}/{name}" for name in names)
        return names

    def folders(self, path: str) -> list[str]:
        folders = super().folders(path)
        self.paths.update(f"{path}/{name}" for name in folders)
        return folders


@pytest.mark.parametrize("place", ["missing/machine.tar.gz", "taken", "file/machine.tar.gz"])
def test_a_failed_capture_leaves_no_file(world: World, small: Catalog, tmp_path: Path, place: str) -> None:
    build(str(tmp_path), {"/taken/x": "", "/file": ""})
    before = [*sorted(os.listdir(tmp_path)), "root"]
    with pytest.raises(CaptureError, match=place) as caught:
        take(world(COMPUTER).root, small, str(tmp_path / place))
    assert caught.value.hint
    assert sorted(os.listdir(tmp_path)) == sorted(before)


def test_a_root_with_pipes_and_folders_in_place_of_files_is_captured(
    world: World, small: Catalog, tmp_path: Path
) -> None:
    file = str(tmp_path / "machine.tar.gz")
    files = pci("0000:01:00.0", "aaaa:1000") | {
        "/proc/cpuinfo": Special.FIFO,
        "/proc/meminfo": Special.FOLDER,
    }
    seen = take(world(files).root, small, file)
    assert len(seen.machine.problems) == 2
    assert without_evidence(replay(file, small)) == without_evidence(seen)

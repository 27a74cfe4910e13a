"""Small worlds: the files of a machine that does not exist, written as a table of paths."""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from fairlead.host import Host


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link to any path."""

    target: str


@dataclass(frozen=True, slots=True)
class Sparse:
    """A file that reports a size and holds nothing."""

    size: int


class Special(Enum):
    """An entry in the place of a file."""

    FOLDER = auto()
    FIFO = auto()
    SOCKET = auto()


Entry = bytes | str | Link | Sparse | Special
Files = Mapping[str, Entry]
World = Callable[[Files], Host]
"""The fixture that writes a world and returns its host."""

PCI: Final = "/sys/bus/pci/devices"
USB: Final = "/sys/bus/usb/devices"
PLATFORM: Final = "/sys/bus/platform/devices"
TREE: Final = "/sys/firmware/devicetree/base"
X86: Final = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test CPU\ncpu MHz\t\t: 2000.000\n"
    "physical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu lm sse4_2 avx avx2 fma\n\n"
)
ARM64: Final = (
    "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
    "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd07\n\n"
)


def build(root: str, files: Files) -> None:
    """Write a world below `root`; links last and deepest first, so that nothing is written through one."""
    links = {path: entry for path, entry in files.items() if isinstance(entry, Link)}
    for path, entry in files.items():
        if not isinstance(entry, Link):
            _place(_below(root, path), entry)
    for path in sorted(links, reverse=True):
        place = _below(root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(links[path].target, place)


def _below(root: str, path: str) -> str:
    assert path.startswith("/")
    assert ".." not in path.split("/")
    return root + path


def _place(place: str, entry: bytes | str | Sparse | Special) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    match entry:
        case Special.FOLDER:
            os.makedirs(place, exist_ok=True)
        case Special.FIFO:
            os.mkfifo(place)
        case Special.SOCKET:
            os.mknod(place, stat.S_IFSOCK | 0o644)
        case Sparse(size):
            with open(place, "wb") as stream:
                stream.truncate(size)
        case str() | bytes():
            with open(place, "wb") as stream:
                stream.write(entry.encode() if isinstance(entry, str) else entry)


def pci(  # a device has as many facts as sysfs shows
    address: str,
    ids: str,
    *,
    kind: str = "0x120000",
    driver: str | None = None,
    revision: str = "0x00",
    sub: str = "0000:0000",
    link: str = "",
    **files: Entry,
) -> dict[str, Entry]:
    """Return a PCI device as sysfs shows it: a folder among the devices, a link on the bus.

    `link` is written like `8.0 GT/s x1 of 8.0 GT/s x4`; `__` in the name of a file stands for a slash.
    """
    home = f"/sys/devices/pci0000:00/{address}"
    vendor, device = ids.split(":")
    sub_vendor, sub_device = sub.split(":")
    world: dict[str, Entry] = {
        f"{PCI}/{address}": Link(f"../../../devices/pci0000:00/{address}"),
        f"{home}/vendor": f"0x{vendor}\n",
        f"{home}/device": f"0x{device}\n",
        f"{home}/class": f"{kind}\n",
        f"{home}/revision": f"{revision}\n",
        f"{home}/subsystem_vendor": f"0x{sub_vendor}\n",
        f"{home}/subsystem_device": f"0x{sub_device}\n",
    }
    if driver:
        world[f"{home}/driver"] = Link(f"../../../bus/pci/drivers/{driver}")
    if link:
        now, best = link.split(" of ")
        for which, text in (("current", now), ("max", best)):
            speed, width = text.split(" x")
            world[f"{home}/{which}_link_speed"] = f"{speed} PCIe\n"
            world[f"{home}/{which}_link_width"] = f"{width}\n"
    return world | _inside(home, files)


def usb(
    port: str, ids: str, *, speed: str = "5000", number: int = 2, driver: str | None = None, **files: Entry
) -> dict[str, Entry]:
    """Return a USB device, with its device node."""
    home = f"/sys/devices/usb1/{port}"
    vendor, product = ids.split(":")
    world: dict[str, Entry] = {
        f"{USB}/{port}": Link(f"../../../devices/usb1/{port}"),
        f"{home}/idVendor": f"{vendor}\n",
        f"{home}/idProduct": f"{product}\n",
        f"{home}/speed": f"{speed}\n",
        f"{home}/busnum": "1\n",
        f"{home}/devnum": f"{number}\n",
        f"{home}/authorized": "1\n",
        f"/dev/bus/usb/001/{number:03d}": "",
    }
    if driver:
        world[f"{USB}/{port}:1.0"] = Link(f"../../../devices/usb1/{port}:1.0")
        world[f"/sys/devices/usb1/{port}:1.0/driver"] = Link(f"../../../bus/usb/drivers/{driver}")
    return world | _inside(home, files)


def platform(name: str, *, driver: str | None = None, **files: Entry) -> dict[str, Entry]:
    """Return a device of the platform bus."""
    home = f"/sys/devices/platform/{name}"
    world: dict[str, Entry] = {
        f"{PLATFORM}/{name}": Link(f"../../../devices/platform/{name}"),
        f"{home}/uevent": "",
    }
    if driver:
        world[f"{home}/driver"] = Link(f"../../../bus/platform/drivers/{driver}")
    return world | _inside(home, files)


def tree(*compatible: str, model: str = "", nodes: Mapping[str, str] | None = None) -> dict[str, Entry]:
    """Return a device tree; a node's text is its `compatible`, with ` disabled` appended if disabled."""
    world: dict[str, Entry] = {
        "/proc/device-tree": Link("/sys/firmware/devicetree/base"),
        f"{TREE}/compatible": "".join(f"{entry}\0" for entry in compatible),
    }
    if model:
        world[f"{TREE}/model"] = f"{model}\0"
    for name, text in (nodes or {}).items():
        marks, off, _ = text.partition(" disabled")
        world[f"{TREE}/{name}/compatible"] = "".join(f"{mark}\0" for mark in marks.split())
        if off:
            world[f"{TREE}/{name}/status"] = "disabled\0"
    return world


def memory(gib: float) -> dict[str, Entry]:
    """Return a machine's RAM."""
    return {"/proc/meminfo": f"MemTotal:       {round(gib * 2**20)} kB\nMemFree:        1 kB\n"}


def _inside(home: str, files: Mapping[str, Entry]) -> dict[str, Entry]:
    return {f"{home}/{name.replace('__', '/')}": entry for name, entry in files.items()}


def crowded() -> dict[str, Entry]:
    """Return a machine with something on every bus and in every file that discovery reads."""
    return {
        **tree(
            "nvidia,p3737-0000+p3701-0005",
            "nvidia,tegra234",
            model="NVIDIA Jetson AGX Orin Developer Kit",
            nodes={
                "bus@0/gpu@17000000": "nvidia,ga10b",
                "bus@0/host1x@13e00000/nvdla0@15880000": "nvidia,tegra234-nvdla",
                "npu@fdab0000": "rockchip,rk3588-rknpu",
                "soc/npu@4a900000": "fsl,imx93-npu arm,ethos-u65 disabled",
            },
        ),
        f"{TREE}/nvidia,dtsfilename": "/dvs/kernel/tegra234-p3701-0005-p3737-0000.dts\0",
        f"{TREE}/nvidia,boardids": "3701-0005-300:3737-0000\0",
        f"{TREE}/nvidia,proc-boardid": "3701:0005\0",
        f"{TREE}/chosen/ids": "3701-0005\0",
        f"{TREE}/chosen/plugin-manager/ids/3701-0005-300": "",
        "/etc/nv_boot_control.conf": "TNSPEC 3701-300-0005-G.0-1-0-jetson-agx-orin-devkit-\n",
        **platform(
            "17000000.gpu",
            driver="gk20a",
            power__runtime_status="active\n",
            **{f"devfreq__17000000.gpu__{k}": f"{v}\n" for k, v in _CLOCKS.items()},
        ),
        "/dev/nvgpu/igpu0/ctrl": "",
        "/dev/nvhost-ctrl-nvdla0": "",
        "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64\n",
        "/etc/nvpmodel.conf": "< POWER_MODEL ID=2 NAME=MODE_30W >\nGPU MAX_FREQ 612000000\n",
        "/var/lib/nvpmodel/status": "pmode:0002\n",
        **pci("0000:01:00.0", "1ac1:089a", kind="0x0000ff", driver="apex", link=_LINK, **_APEX),
        "/sys/class/apex/apex_0": Link("../../devices/pci0000:00/0000:01:00.0/apex/apex_0"),
        "/dev/apex_0": "",
        "/sys/module/apex/version": "1.2\n",
        **pci("0000:02:00.0", "1e60:2864", kind="0x0b4000", driver="hailo", link=_LINK),
        "/sys/class/hailo_chardev/hailo0/device": Link("/sys/devices/pci0000:00/0000:02:00.0"),
        "/dev/hailo0": "",
        **pci("0000:03:00.0", "10de:2335", kind="0x030200", driver="nvidia", sub="10de:18be"),
        "/proc/driver/nvidia/gpus/0000:03:00.0/information": _H200,
        "/dev/nvidia0": "",
        **pci(
            "0000:04:00.0",
            "1002:74a1",
            kind="0x120000",
            driver="amdgpu",
            mem_info_vram_total="206141652992\n",
        ),
        "/dev/dri/renderD128": "",
        **pci("0000:05:00.0", "abcd:0001", kind="0x120000", driver="strange"),
        **usb("1-1", "1a6e:089a", number=4, driver="usbfs"),
        **usb("1-2", "03e7:0001", number=5),
        "/proc/cpuinfo": ARM64,
        "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "2201600\n",
        **memory(60),
        "/fairlead/nvml.json": _NVML,
    }


_CLOCKS: Final = {"max_freq": 612000000, "cur_freq": 306000000}
_LINK: Final = "5.0 GT/s x1 of 5.0 GT/s x1"
_APEX: Final = {
    "apex__apex_0__status": "ALIVE\n",
    "apex__apex_0__temp": "45000\n",
    "apex__apex_0__trip_point2_temp": "95000\n",
}
_H200: Final = (
    "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-01234567-89ab-cdef-0123-456789abcdef\nDevice Minor: \t 0\n"
)
_NVML: Final = """[{"index": 0, "address": "0000:03:00.0", "name": "NVIDIA H200", "memory": 150754820096,
"uuid": "GPU-01234567-89ab-cdef-0123-456789abcdef", "power_limit": 700.0, "driver_version": "550.54",
"ecc_errors": 0}]"""

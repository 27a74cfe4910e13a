"""Machines that an agent in the lab takes for its own: hosts of the tests, with device nodes that are real.

The agent mounts one folder for good, so a machine is changed inside of it, as a real one changes.
"""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

HOSTS = Path(__file__).parent.parent / "hosts"
_GIVEN = os.makedev(10, 229)
"""A node that no container has by itself, and that can be opened without harm (/dev/fuse)."""
_USB_NODE = re.compile(r"bus/usb/([0-9]{3})/([0-9]{3})$")
_USB_MAJOR, _BUS = 189, 128
NO_ACCELERATORS = "x86-server"
TWO_T4 = ("pci-0000-3b-00-0", "pci-0000-86-00-0")
T4_MIB = 16384
SMALL_MIB = 4096
"""Memory of each of two small GPUs: a kubelet takes long to compare very many units when it starts."""
TINY_MIB = 1536
"""Memory of each of two tiny GPUs, for tests that restart it while pods hold their units."""
XAVIER = "platform-17000000-gv11b"


class Machine:
    """The folder that the agent looks at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = ""

    def become(self, host: str, change: Callable[[Path], None] = lambda _: None) -> None:
        """Turn into another machine; what was there before is gone."""
        aside = self.folder.with_name("next")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(HOSTS / host / "root", aside, symlinks=True)
        change(aside)
        make_nodes(aside)
        self.folder.mkdir(exist_ok=True)
        shutil.rmtree(self.folder.with_name("last"), ignore_errors=True)
        self.folder.with_name("last").mkdir()
        for old in self.folder.iterdir():
            old.rename(self.folder.with_name("last") / old.name)
        for new in aside.iterdir():
            new.rename(self.folder / new.name)
        self.name = f"{host}{change.__name__ if change.__name__ != '<lambda>' else ''}"


def make_nodes(root: Path) -> None:
    """Make character devices of what stands for them."""
    for path in [path for path in (root / "dev").rglob("*") if path.is_file() and not path.is_symlink()]:
        path.unlink()
        make_node(path)


def make_node(path: Path) -> None:
    """Make one device node; of USB devices the path says which."""
    usb = _USB_NODE.search(str(path))
    number = os.makedev(_USB_MAJOR, (int(usb[1]) - 1) * _BUS + int(usb[2]) - 1) if usb else _GIVEN
    os.mknod(path, stat.S_IFCHR | 0o666, number)
    path.chmod(0o666)


def two_small(root: Path) -> None:
    """Put a second T4 beside the first, in another slot; both have less memory than any T4."""
    _two(root, SMALL_MIB)


def two_tiny(root: Path) -> None:
    """Put a second T4 beside the first; both have still less memory."""
    _two(root, TINY_MIB)


def _two(root: Path, mebibytes: int) -> None:
    slot = root / "sys/devices/pci0000:85/0000:85:00.0/0000:86:00.0"
    shutil.copytree(root / "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", slot, symlinks=True)
    link = root / "sys/bus/pci/devices/0000:86:00.0"
    link.symlink_to("../../../devices/pci0000:85/0000:85:00.0/0000:86:00.0")
    gpus = root / "proc/driver/nvidia/gpus"
    said = (gpus / "0000:3b:00.0/information").read_text(encoding="utf-8")
    (gpus / "0000:86:00.0").mkdir()
    text = re.sub(r"(?m)^(Device Minor:\s*)0$", r"\g<1>1", said.replace("3b:00.0", "86:00.0"))
    text = text.replace("000000000000\n", "000000000001\n")
    (gpus / "0000:86:00.0/information").write_text(text, encoding="utf-8")
    (root / "dev/nvidia1").touch()
    rows = [
        {
            "index": index,
            "address": slot,
            "name": "Tesla T4",
            "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",
            "memory": mebibytes << 20,
            "power_limit": 70.0,
            "driver_version": "550.54.15",
            "ecc_errors": 0,
        }
        for index, slot in enumerate(("0000:3b:00.0", "0000:86:00.0"))
    ]
    (root / "fairlead").mkdir()
    (root / "fairlead/nvml.json").write_text(json.dumps(rows), encoding="utf-8")


def memory_errors(root: Path, uncorrected: int) -> None:
    """Let NVML count uncorrected memory errors of every GPU."""
    place = root / "fairlead/nvml.json"
    rows = json.loads(place.read_text(encoding="utf-8"))
    text = json.dumps([{**row, "ecc_errors": uncorrected} for row in rows])
    place.with_suffix(".new").write_text(text, encoding="utf-8")
    place.with_suffix(".new").rename(place)


def unplug(root: Path, device: str) -> None:
    """Take what sysfs calls `device` away: its folder, every link to it, and its node of the device tree."""
    for place in (*root.glob("sys/bus/*/devices"), *root.glob("sys/class/*")):
        for link in [each for each in place.iterdir() if each.name == device]:
            link.unlink()
    folder = next((root / "sys/devices").rglob(device))
    described = (folder / "of_node").resolve()
    shutil.rmtree(folder)
    if described.is_dir():
        shutil.rmtree(described)


def renumber_stick(root: Path, port: str, bus: int, number: int, to: int) -> None:
    """Let a USB stick leave the bus and join it again under another number, with its firmware loaded."""
    nodes = root / f"dev/bus/usb/{bus:03d}"
    (nodes / f"{number:03d}").unlink()
    make_node(nodes / f"{to:03d}")
    stick = root / "sys/bus/usb/devices" / port
    (stick / "devnum").write_text(f"{to}\n", encoding="ascii")
    (stick / "idVendor").write_text("18d1\n", encoding="ascii")
    (stick / "idProduct").write_text("9302\n", encoding="ascii")

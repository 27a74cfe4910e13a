"""Machines that an agent in the lab replays: hosts of the tests, with real device nodes.

The agent keeps one folder mounted, so a machine changes inside of it, as a real one does.
"""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

HOSTS = Path(__file__).parent.parent / "hosts"
_HARMLESS = os.makedev(10, 229)
"""A device that no container has by default, and that can be opened without harm (/dev/fuse)."""
_USB_NODE = re.compile(r"bus/usb/([0-9]{3})/([0-9]{3})$")
_USB_MAJOR, _BUS = 189, 128
NO_ACCELERATORS = "x86-server"
TWO_T4 = ("pci-0000-3b-00-0", "pci-0000-86-00-0")
T4_MIB = 16384
SMALL_MIB = 4096
"""Memory of each of two small GPUs: a kubelet takes long to compare many units at its start."""
TINY_MIB = 1536
"""Memory of each of two tiny GPUs, for tests that restart it while pods hold their units."""
XAVIER = "platform-17000000-gv11b"


class Machine:
    """The folder that the agent replays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = ""

    def replay(self, host: str, change: Callable[[Path], None] = lambda _: None) -> None:
        """Replace the folder's contents by another machine."""
        staging = self.folder.with_name("next")
        shutil.rmtree(staging, ignore_errors=True)
        shutil.copytree(HOSTS / host / "root", staging, symlinks=True)
        change(staging)
        make_nodes(staging)
        self.folder.mkdir(exist_ok=True)
        shutil.rmtree(self.folder.with_name("last"), ignore_errors=True)
        self.folder.with_name("last").mkdir()
        for old in self.folder.iterdir():
            old.rename(self.folder.with_name("last") / old.name)
        for new in staging.iterdir():
            new.rename(self.folder / new.name)
        self.name = f"{host}{change.__name__ if change.__name__ != '<lambda>' else ''}"


def make_nodes(root: Path) -> None:
    """Replace the placeholder files of devices by character devices."""
    for path in [path for path in (root / "dev").rglob("*") if path.is_file() and not path.is_symlink()]:
        path.unlink()
        make_node(path)


def make_node(path: Path) -> None:
    """Create one device node; the path of a USB device gives its number."""
    usb = _USB_NODE.search(str(path))
    number = os.makedev(_USB_MAJOR, (int(usb[1]) - 1) * _BUS + int(usb[2]) - 1) if usb else _HARMLESS
    os.mknod(path, stat.S_IFCHR | 0o666, number)
    path.chmod(0o666)


def two_small(root: Path) -> None:
    """Add a second T4 in another slot; both have less memory than a real T4."""
    _two(root, SMALL_MIB)


def two_tiny(root: Path) -> None:
    """Add a second T4; both have even less memory."""
    _two(root, TINY_MIB)


def _two(root: Path, mebibytes: int) -> None:
    slot = root / "sys/devices/pci0000:85/0000:85:00.0/0000:86:00.0"
    shutil.copytree(root / "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", slot, symlinks=True)
    link = root / "sys/bus/pci/devices/0000:86:00.0"
    link.symlink_to("../../../devices/pci0000:85/0000:85:00.0/0000:86:00.0")
    gpus = root / "proc/driver/nvidia/gpus"
    first = (gpus / "0000:3b:00.0/information").read_text(encoding="utf-8")
    (gpus / "0000:86:00.0").mkdir()
    text = re.sub(r"(?m)^(Device Minor:\s*)0$", r"\g<1>1", first.replace("3b:00.0", "86:00.0"))
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
    """Let NVML report uncorrected memory errors of every GPU."""
    path = root / "fairlead/nvml.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps([{**row, "ecc_errors": uncorrected} for row in rows])
    path.with_suffix(".new").write_text(text, encoding="utf-8")
    path.with_suffix(".new").rename(path)


def unplug(root: Path, device: str) -> None:
    """Remove a device of sysfs: its folder, every link to it, and its node of the device tree."""
    for links in (*root.glob("sys/bus/*/devices"), *root.glob("sys/class/*")):
        for link in [path for path in links.iterdir() if path.name == device]:
            link.unlink()
    folder = next((root / "sys/devices").rglob(device))
    tree_node = (folder / "of_node").resolve()
    shutil.rmtree(folder)
    if tree_node.is_dir():
        shutil.rmtree(tree_node)


def replace_file(path: Path, text: str) -> None:
    """Replace a file in one step: no agent reads half of it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="ascii")
    part.replace(path)


def renumber_stick(root: Path, port: str, bus: int, number: int, to: int) -> None:
    """Let a USB stick leave the bus and join it again under another number, with its firmware loaded.

    An agent may scan after any of these steps: the stick has its new node before it has its new number.
    """
    nodes = root / f"dev/bus/usb/{bus:03d}"
    make_node(nodes / f"{to:03d}")
    stick = root / "sys/bus/usb/devices" / port
    replace_file(stick / "devnum", f"{to}\n")
    replace_file(stick / "idVendor", "18d1\n")
    replace_file(stick / "idProduct", "9302\n")
    (nodes / f"{number:03d}").unlink()

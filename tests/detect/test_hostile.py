"""Hostile roots: whatever is below the root, discovery gives a valid result in bounded time."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import READ_LIMIT, Host
from fairlead.inventory import Inventory
from tests import catalogs, strategies
from tests.soundness import assert_sound
from tests.worlds import (
    PCI,
    PLATFORM,
    TREE,
    USB,
    X86,
    Entry,
    Files,
    Link,
    Sparse,
    Special,
    World,
    build,
    crowded,
    pci,
    tree,
    usb,
)

SECONDS = 5.0
"""Of processor time, so that the load of the test machine does not matter; a full root takes a hundredth."""


def look(root: str, catalog: Catalog) -> Inventory:
    """Scan a machine and check the invariants of every inventory."""
    start = time.process_time()
    host = Host(root)
    inventory = detect(host, catalog, read_gpus(host))
    assert time.process_time() - start < SECONDS
    assert_sound(inventory, catalog)
    return inventory


def look_at(files: Files, catalog: Catalog) -> Inventory:
    """Scan a world that exists for one scan."""
    root = tempfile.mkdtemp()
    try:
        build(root, files)
        return look(root, catalog)
    finally:
        shutil.rmtree(root)


@contextmanager
def swapped(root: str, path: str, entry: Entry | None) -> Iterator[None]:
    """Replace a path for the time of the block; None removes it."""
    aside = f"{root}.aside"
    os.rename(root + path, aside)
    if entry is not None:
        build(root, {path: entry})
    yield
    if os.path.isdir(root + path) and not os.path.islink(root + path):
        os.rmdir(root + path)
    elif entry is not None:
        os.unlink(root + path)
    os.rename(aside, root + path)


@given(strategies.hostile_worlds())
def test_any_machine_gives_a_valid_inventory(files: dict[str, Entry]) -> None:
    look_at(files, catalogs.shipped())


@pytest.mark.parametrize("number", range(len(strategies.NASTY)))
def test_any_file_may_contain_junk(catalog: Catalog, tmp_path: Path, number: int) -> None:
    """Each file alone, so that the others still lead discovery to it, then all of them at once."""
    junk = strategies.NASTY[number]
    world = crowded()
    build(str(tmp_path), world)
    files = [path for path, entry in world.items() if isinstance(entry, str) and not path.startswith("/dev")]
    for path in files:
        place = tmp_path / path[1:]
        sound = place.read_bytes()
        place.write_bytes(junk)
        look(str(tmp_path), catalog)
        place.write_bytes(sound)
    for path in files:
        (tmp_path / path[1:]).write_bytes(junk)
    look(str(tmp_path), catalog)


@pytest.mark.parametrize(
    "entry",
    [
        Special.FOLDER,
        Special.FIFO,
        Special.SOCKET,
        Sparse(2**30),
        Link("nowhere"),
        Link("."),
        Link("/"),
        None,
    ],
    ids=str,
)
def test_any_path_may_have_another_type(catalog: Catalog, tmp_path: Path, entry: Entry | None) -> None:
    """Each file and each folder in turn is missing, or has another type."""
    root = str(tmp_path)
    build(root, crowded())
    for path in strategies.PLACES:
        with swapped(root, path, entry):
            look(root, catalog)


def test_a_secret_outside_the_root_is_not_read(catalog: Catalog, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Hunter2-PASSPHRASE")
    root = str(tmp_path / "root")
    build(root, crowded())
    for path, entry in crowded().items():
        for target in (str(secret), "../" * 30 + str(secret)[1:]) if isinstance(entry, str) else ():
            with swapped(root, path, Link(target)):
                assert Path(root + path).read_text() == "Hunter2-PASSPHRASE"  # a plain open would read it
                assert "Hunter2" not in str(look(root, catalog))


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        (PCI, {"vendor": "0x1ac1", "device": "0x089a"}),
        (USB, {"idVendor": "1a6e", "idProduct": "089a"}),
        (PLATFORM, {"driver": ""}),
        (TREE, {"compatible": "rockchip,rk3588-rknpu\0"}),
        (f"{TREE}/soc", {"compatible": "vivante,gc\0"}),
        ("/sys/class/apex", {"device": ""}),
        ("/sys/devices/system/cpu", {"cpufreq/cpuinfo_max_freq": "1"}),
        ("/dev", {}),
    ],
)
@pytest.mark.parametrize(
    "name", ["a\nb", "\udcff\udcfe", "x" * 255, "\x1b[2J", "é" * 127, "0000:01:00.0\n", "-", "@"]
)
def test_any_name_may_be_in_any_folder(
    catalog: Catalog, folder: str, files: dict[str, str], name: str
) -> None:
    world = crowded() | {f"{folder}/{name}/{file}": text for file, text in files.items()}
    look_at(world | ({} if files else {f"{folder}/{name}": ""}), catalog)


def test_a_name_that_no_kernel_gives_is_ignored_with_a_problem(small: Catalog) -> None:
    inventory = look_at({f"{PCI}/a\nb/{name}": "0xaaaa" for name in ("vendor", "device")}, small)
    assert inventory.accelerators == ()
    assert inventory.machine.problems == (f"{PCI}: contains names that no kernel gives: they are ignored",)


def test_thousands_of_devices_are_scanned_in_time(catalog: Catalog) -> None:
    """Every one of them is an accelerator whose driver has a class with as many entries."""
    world: dict[str, Entry] = {"/proc/cpuinfo": X86}
    for n in range(1500):
        address = f"{n >> 8:04x}:{n & 255:02x}:00.0"
        home = f"{PCI}/{address}"
        world |= {f"{home}/vendor": "0x1ac1", f"{home}/device": "0x089a", f"{home}/driver": Link("../apex")}
        world |= {f"/sys/class/apex/apex_{n}": "", f"/dev/apex_{n}": ""}
    inventory = look_at(world, catalog)
    assert len(inventory.accelerators) > 100


@pytest.mark.parametrize("shape", ["wide", "deep", "ring"])
def test_a_device_tree_of_any_shape_is_scanned_in_time(catalog: Catalog, shape: str) -> None:
    npu = "rockchip,rk3588-rknpu\0"
    world: dict[str, Entry] = {**tree("rockchip,rk3588")}
    if shape == "wide":
        world |= {f"{TREE}/npu@{n}/compatible": npu * 180 for n in range(6000)}
    elif shape == "deep":
        world |= {f"{TREE}{'/soc' * 200}/npu@0/compatible": npu}
    else:
        world |= {f"{TREE}/soc{n}": Link("..") for n in range(50)}
    inventory = look_at(world, catalog)
    assert [acc.model for acc in inventory.accelerators] == ["rk3588-npu"]


def test_a_folder_of_a_hundred_thousand_names_is_read_to_a_limit(catalog: Catalog, tmp_path: Path) -> None:
    build(str(tmp_path), crowded())
    os.makedirs(tmp_path / "sys/bus/usb/devices", exist_ok=True)
    for n in range(20_000):
        os.symlink("loop", tmp_path / f"sys/bus/usb/devices/9-{n}")
        os.symlink("loop", tmp_path / f"dev/z{n}")
    look(str(tmp_path), catalog)


class Vanishing(Host):
    """A machine from which every device is removed after a number of reads."""

    def __init__(self, root: str, after: int) -> None:
        super().__init__(root)
        self._left = after

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            shutil.rmtree(self.root)

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        self._count()
        return super().read(path, limit)

    def names(self, path: str, pattern: str = "*") -> list[str]:
        self._count()
        return super().names(path, pattern)

    def link(self, path: str) -> str | None:
        self._count()
        return super().link(path)

    def exists(self, path: str) -> bool:
        self._count()
        return super().exists(path)


@pytest.mark.parametrize("after", range(1, 160, 6))
def test_devices_may_vanish_during_a_scan(catalog: Catalog, tmp_path: Path, after: int) -> None:
    root = tmp_path / "root"
    build(str(root), crowded())
    assert_sound(detect(Vanishing(str(root), after), catalog), catalog)


def test_ids_are_unique_for_any_addresses(small: Catalog, world: World) -> None:
    """Addresses that differ only in characters outside DNS labels, and one that looks like a numbered id."""
    places = [
        "a.0",
        "a:0",
        "a-0",
        "A.0",
        "a-0-2",
        "a-0-3",
        "x" * 70 + "1",
        "x" * 70 + "2",
        "x" * 56 + "-y",
        "x" * 56 + ".y",
    ]
    host = world({path: entry for place in places for path, entry in pci(place, "aaaa:1000").items()})
    inventory = detect(host, small)
    assert len(inventory.accelerators) == len(places)
    assert_sound(inventory, small)


def test_numbers_beyond_their_bounds_are_ignored(small: Catalog, world: World) -> None:
    host = world(
        {
            **usb("1-1", "aaaa:0001", speed="9" * 400),
            **pci("0000:01:00.0", "aaaa:1000", link=f"{'9' * 400} GT/s x1 of 1.0 GT/s x1"),
            "/proc/cpuinfo": X86.replace("2000.000", "9" * 400),
        }
    )
    stick, card, cpu = sorted(detect(host, small).accelerators, key=lambda acc: acc.bus[0], reverse=True)
    assert (stick.link, card.link, dict(cpu.peak)) == (None, None, {})

"""Device nodes of a machine: only the expected character device is accepted."""

import os
import stat
from pathlib import Path

import pytest

from fairlead.warden.devices import Devices

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")


def node(root: Path, path: str, kind: int = stat.S_IFCHR, number: tuple[int, int] = (120, 0)) -> None:
    """Create a device node below a root."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(place, kind | 0o600, os.makedev(*number))
    except PermissionError:
        pytest.skip("no device nodes can be made here")


def usb(
    root: Path, minor: int, interfaces: tuple[str, ...], ids: str = "18d1:9302", kind: str = "00"
) -> None:
    """Create the sysfs files of a USB device."""
    place = root / f"sys/dev/char/189:{minor}"
    for name, value in zip(("idVendor", "idProduct"), ids.split(":"), strict=True):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{value}\n")
    (place / "bDeviceClass").write_text(f"{kind}\n")
    for i, each in enumerate(interfaces):
        (place / f"1-1:1.{i}").mkdir()
        (place / f"1-1:1.{i}" / "bInterfaceClass").write_text(f"{each}\n")


def test_a_node_that_does_not_exist_yet_is_accepted(tmp_path: Path) -> None:
    assert Devices(str(tmp_path)).fault("/dev/apex_0") is None
    (tmp_path / "dev").mkdir()
    assert Devices(str(tmp_path)).fault("/dev/dri/renderD128") is None


@needs_root
def test_a_character_device_is_accepted(tmp_path: Path) -> None:
    node(tmp_path, "/dev/apex_0")
    node(tmp_path, "/dev/dri/renderD128", number=(226, 128))
    assert Devices(str(tmp_path)).fault("/dev/apex_0") is None
    assert Devices(f"{tmp_path}/").fault("/dev/dri/renderD128") is None


@needs_root
def test_a_block_device_is_refused(tmp_path: Path) -> None:
    node(tmp_path, "/dev/apex_0", stat.S_IFBLK, (7, 0))
    assert Devices(str(tmp_path)).fault("/dev/apex_0") == "it is not a character device"


def test_a_pipe_a_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/apex_0")
    (tmp_path / "dev/apex_1").write_text("")
    (tmp_path / "dev/apex_2").mkdir()
    faults = {Devices(str(tmp_path)).fault(f"/dev/apex_{i}") for i in range(3)}
    assert faults == {"it is not a character device"}


@pytest.mark.parametrize("target", ["/dev/sda", "/dev/null", "null", "../../../dev/null", "nowhere"])
def test_a_link_is_refused_whatever_its_target(tmp_path: Path, target: str) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/apex_0").symlink_to(target)
    assert Devices(str(tmp_path)).fault("/dev/apex_0") == "it is a link, not a device"


@needs_root
def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    node(tmp_path, "/elsewhere/renderD128")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/dri").symlink_to("../elsewhere")
    assert "cannot be checked" in (Devices(str(tmp_path)).fault("/dev/dri/renderD128") or "")


@needs_root
def test_a_usb_node_must_be_the_device_that_its_path_names(tmp_path: Path) -> None:
    node(tmp_path, "/dev/bus/usb/002/007", number=(189, 134))
    node(tmp_path, "/dev/bus/usb/002/008", number=(189, 134))
    node(tmp_path, "/dev/bus/usb/002/009", number=(1, 1))
    devices = Devices(str(tmp_path))
    assert devices.fault("/dev/bus/usb/002/007") is None
    assert devices.fault("/dev/bus/usb/002/008") == "it is not the USB device that its path names"
    assert devices.fault("/dev/bus/usb/002/009") == "it is not the USB device that its path names"


@needs_root
@pytest.mark.parametrize(
    ("interfaces", "kind", "ids", "fault"),
    [
        (("ff",), "00", "18d1:9302", None),
        (("fe",), "00", "1a6e:089a", None),
        (("ff", "0e"), "ef", "03e7:f63b", None),
        (("08",), "00", "05e3:0769", None),
        (("08",), "00", "0781:5567", "it is a storage device"),
        (("03", "03"), "00", "046d:c31c", "it is an input device"),
        (("03", "0b"), "00", "1050:0407", "it is an input device"),
        (("0b",), "00", "1050:0407", "it is a smart card"),
        (("ff", "08"), "00", "1234:5678", "it is a storage device"),
        (("09",), "09", "1d6b:0002", "it is a hub"),
        (("e0",), "e0", "8087:0a2b", "it is a radio"),
    ],
)
def test_a_usb_device_of_another_class_is_refused(
    tmp_path: Path, interfaces: tuple[str, ...], kind: str, ids: str, fault: str | None
) -> None:
    node(tmp_path, "/dev/bus/usb/002/007", number=(189, 134))
    usb(tmp_path, 134, interfaces, ids, kind)
    assert Devices(str(tmp_path)).fault("/dev/bus/usb/002/007") == fault


def test_the_nodes_of_this_machine_can_be_checked() -> None:
    assert Devices().fault("/dev/null") is None
    assert Devices().fault("/dev/stdin") == "it is a link, not a device"

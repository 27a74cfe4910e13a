"""The states: the evidence decides the state of an accelerator, and each state but healthy has a reason."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.inventory import Accelerator, State
from fairlead.nvml import Gpu
from fairlead.units import Bytes
from tests.worlds import Entry, Files, Link, Special, World, pci, platform, tree, usb

ADDRESS = "0000:01:00.0"
HOME = f"/sys/devices/pci0000:00/{ADDRESS}"
SOC = tree("acme,board", "acme,npu-soc", nodes={"npu@f0": "acme,npu"})
CLASS_LINK: dict[str, Entry] = {
    "/sys/class/acme/acme0/device": Link(f"../../../devices/pci0000:00/{ADDRESS}")
}


def only(accelerators: tuple[Accelerator, ...]) -> Accelerator:
    """Return the one accelerator of a machine."""
    (acc,) = accelerators
    return acc


@pytest.mark.parametrize(
    ("files", "state", "reason", "driver", "node"),
    [
        # A card with a class of its own.
        (
            pci(ADDRESS, "aaaa:1000"),
            "present",
            "Card present, acme or acme-next driver not loaded: load acme",
            None,
            None,
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="other"),
            "present",
            "Card is bound to other, needs acme or acme-next: load acme",
            "other",
            None,
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="vfio-pci"),
            "present",
            "Card is handed to a virtual machine (vfio-pci)",
            "vfio-pci",
            None,
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme"),
            "driver-bound",
            "acme is bound, but there is no /dev/acme[0-9]*",
            "acme",
            None,
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme", acme__acme0=Special.FOLDER),
            "usable",
            "no vital sign can be read: its health is unknown",
            "acme",
            "/dev/acme0",
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme", acme__acme0=Special.FOLDER) | {"/dev/null": ""},
            "driver-bound",
            "acme is bound, but there is no /dev/acme[0-9]*",
            "acme",
            None,
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme") | CLASS_LINK | {"/dev/acme0": ""},
            "usable",
            "no vital sign can be read: its health is unknown",
            "acme",
            "/dev/acme0",
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme") | {"/dev/acme3": ""},
            "usable",
            "no vital sign can be read: its health is unknown",
            "acme",
            "/dev/acme3",
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme", power__runtime_status="active\n") | {"/dev/acme0": ""},
            "healthy",
            "",
            "acme",
            "/dev/acme0",
        ),
        (
            pci(ADDRESS, "aaaa:1000", driver="acme", power__runtime_status="error\n") | {"/dev/acme0": ""},
            "usable",
            "the kernel reports a power management error",
            "acme",
            "/dev/acme0",
        ),
        # The second driver of the catalog serves as well; dashes and underscores are one.
        (
            pci(ADDRESS, "aaaa:1000", driver="acme_next") | {"/dev/next": ""},
            "usable",
            "no vital",
            "acme_next",
            "/dev/next",
        ),
        # A stick, whose driver is in user space.
        (usb("1-1", "aaaa:0001"), "healthy", "", "libusb", "/dev/bus/usb/001/002"),
        (usb("1-1", "aaaa:0001", driver="usbfs"), "healthy", "", "usbfs", "/dev/bus/usb/001/002"),
        (
            usb("1-1", "aaaa:0001", authorized="0\n"),
            "present",
            "Stick is not authorised on its USB port",
            None,
            None,
        ),
        (
            usb("1-1", "aaaa:0001", devnum="9\n"),
            "driver-bound",
            "Stick needs no kernel driver, but there is no /dev/bus/usb/001/009",
            "libusb",
            None,
        ),
        # An engine inside a SoC.
        (SOC, "present", "SoC NPU present, rknpu driver not loaded: load rknpu", None, None),
        (
            tree("acme,npu-soc"),
            "present",
            "SoC NPU present, but the device tree does not describe it; needs the rknpu driver: load rknpu",
            None,
            None,
        ),
        (
            tree("acme,npu-soc", nodes={"npu@f0": "acme,npu disabled"}),
            "present",
            "SoC NPU is disabled in the device tree (npu@f0)",
            None,
            None,
        ),
        (
            SOC | platform("f0.npu", driver="rknpu"),
            "driver-bound",
            "rknpu is bound, but there is no /dev/accel/accel*",
            "rknpu",
            None,
        ),
        (
            SOC | platform("f0.npu", driver="rknpu") | {"/dev/accel/accel0": ""},
            "usable",
            "no vital sign can be read: its health is unknown",
            "rknpu",
            "/dev/accel/accel0",
        ),
        (
            SOC
            | platform("f0.npu", driver="rknpu", devfreq__f0__cur_freq="300\n")
            | {"/dev/accel/accel0": ""},
            "healthy",
            "",
            "rknpu",
            "/dev/accel/accel0",
        ),
    ],
)
def test_the_states(
    world: World, small: Catalog, files: Files, state: str, reason: str, driver: str | None, node: str | None
) -> None:
    acc = only(detect(world(files), small).accelerators)
    assert acc.state.value == state
    assert acc.reason.startswith(reason)
    assert bool(acc.reason) == bool(reason)
    assert (acc.driver, acc.node) == (driver, node)


@pytest.mark.parametrize(
    ("apex", "state", "reason"),
    [
        ({"status": "ALIVE", "temp": "45000"}, State.HEALTHY, ""),
        ({"status": "DEAD", "temp": "45000"}, State.USABLE, "the driver says DEAD"),
        ({"temp": "101000"}, State.USABLE, "too hot: 101 C"),
        ({"temp": "96000", "trip_point2_temp": "95000"}, State.USABLE, "too hot: 96 C"),
        ({"temp": "junk"}, State.USABLE, "no vital sign can be read: its health is unknown"),
        ({}, State.USABLE, "no vital sign can be read: its health is unknown"),
    ],
)
def test_vital_signs_of_a_coral(
    world: World, catalog: Catalog, apex: dict[str, str], state: State, reason: str
) -> None:
    files = {f"{HOME}/apex/apex_0/{name}": f"{value}\n" for name, value in apex.items()}
    card = pci(ADDRESS, "1ac1:089a", driver="apex") | {f"{HOME}/apex/apex_0/uevent": "", "/dev/apex_0": ""}
    acc = only(detect(world(card | files), catalog).accelerators)
    assert (acc.state, acc.reason, acc.node) == (state, reason, "/dev/apex_0")


@pytest.mark.parametrize(
    ("errors", "state", "reason"),
    [
        (None, State.HEALTHY, ""),
        (0, State.HEALTHY, ""),
        (2, State.DRIVER_BOUND, "uncorrected memory errors since the driver was loaded; reset the GPU"),
    ],
)
def test_nvml_is_a_vital_sign(
    world: World, small: Catalog, errors: int | None, state: State, reason: str
) -> None:
    gpu = Gpu(0, ADDRESS, "NVIDIA X", "", Bytes(2**34), None, "550.1", errors)
    host = world(pci(ADDRESS, "10de:1111", kind="0x030200", driver="nvidia"))
    acc = only(detect(host, small, [gpu]).accelerators)
    assert (acc.state, acc.reason) == (state, reason)
    assert acc.node is None  # no such device node is visible


def test_only_usable_and_healthy_are_allocatable() -> None:
    assert [state.value for state in State if state.allocatable] == ["usable", "healthy"]
    assert list(State) == ["present", "driver-bound", "usable", "healthy"]


def test_each_card_has_its_own_node(world: World, small: Catalog) -> None:
    """Each node belongs to the card of its class entry; the first card does not get both."""
    one = pci("0000:01:00.0", "aaaa:1000", driver="acme", acme__acme1=Special.FOLDER)
    two = pci("0000:02:00.0", "aaaa:1000", driver="acme", acme__acme0=Special.FOLDER)
    accelerators = detect(world(one | two | {"/dev/acme0": "", "/dev/acme1": ""}), small).accelerators
    assert [(acc.bus, acc.node) for acc in accelerators] == [
        ("pci:0000:01:00.0", "/dev/acme1"),
        ("pci:0000:02:00.0", "/dev/acme0"),
    ]

"""The USB bus: both ids of a stick, its speed, and phones of the same vendor."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from tests.worlds import USB, World, usb


@pytest.mark.parametrize(
    ("ids", "model", "says"),
    [
        ("1a6e:089a", "coral-usb", "id 1a6e:089a is Coral USB Accelerator, waiting for its firmware"),
        ("18d1:9302", "coral-usb", "id 18d1:9302 is Coral USB Accelerator, firmware loaded"),
        ("03e7:2485", "myriad-x", "id 03e7:2485 is "),
    ],
)
def test_every_usb_id_of_a_stick(world: World, catalog: Catalog, ids: str, model: str, says: str) -> None:
    (acc,) = detect(world(usb("1-1", ids)), catalog).accelerators
    assert model in acc.candidates
    assert acc.evidence[0].says.startswith(says)
    assert acc.link is not None
    assert acc.link.rate == 5e9


@pytest.mark.parametrize(
    "ids", ["18d1:4ee7", "18d1:4ee1", "18d1:5014", "1d6b:0003", "046d:c52b", "0955:7c18"]
)
def test_phones_and_hubs_are_not_accelerators(world: World, catalog: Catalog, ids: str) -> None:
    inventory = detect(world(usb("1-1", ids)), catalog)
    assert (inventory.accelerators, inventory.unknown) == ((), ())


def test_an_unlisted_device_of_an_accelerator_vendor_is_unknown(world: World, small: Catalog) -> None:
    (unknown,) = detect(world(usb("2-3.1", "bbbb:1234")), small).unknown
    assert (unknown.bus, unknown.ids, unknown.reason) == ("usb:2-3.1", "bbbb:1234", "made by Movidius")


def test_interfaces_are_not_devices(world: World, small: Catalog) -> None:
    files = usb("1-1", "aaaa:0001", driver="usbfs")
    files |= {f"{USB}/1-1:1.1/idVendor": "aaaa", f"{USB}/1-1:1.1/idProduct": "0001"}
    assert len(detect(world(files), small).accelerators) == 1


def test_a_stick_that_could_be_a_camera_has_no_model(world: World, catalog: Catalog) -> None:
    """A RealSense T265 shows the id of a Neural Compute Stick until its firmware is loaded."""
    (acc,) = detect(world(usb("1-1", "03e7:2150")), catalog).accelerators
    assert (acc.model, acc.candidates) == (None, ("ncs", "realsense-t265"))
    assert acc.confidence <= 0.5
    assert acc.peak == {}, "a camera runs no networks"

"""From sightings to accelerators: one accelerator for each physical device, whichever witness saw it."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.merge import join_bus_sightings, weigh_memory
from fairlead.detect.sighting import Sighting
from fairlead.inventory import Accelerator, Evidence
from fairlead.units import Bytes
from tests.worlds import Entry, Link, World, memory, pci, tree, usb


def sighting(small: Catalog, bus: str, *devices: str, address: str = "x") -> Sighting:
    """Return a sighting of catalog rows."""
    rows = tuple(small.devices[device] for device in devices)
    return Sighting(bus, address, rows, 0.6, (Evidence("dt", address, "was seen"),))


def summary(accelerators: tuple[Accelerator, ...]) -> list[tuple[str, str | None]]:
    """Return the bus address and the model of each accelerator."""
    return [(acc.bus, acc.model) for acc in accelerators]


@pytest.mark.parametrize(
    ("seen", "joined"),
    [
        ([("platform", "kit"), ("pci", "module")], [("pci", "kit")]),
        ([("platform", "kit"), ("pci", "card")], [("platform", "kit"), ("pci", "card")]),
        ([("platform", "kit"), ("pci", "module"), ("pci", "module")], [("pci", "kit"), ("pci", "module")]),
        ([("pci", "module")], [("pci", "module")]),
        ([("platform", "soc-npu"), ("usb", "stick")], [("platform", "soc-npu"), ("usb", "stick")]),
        ([], []),
    ],
)
def test_a_soc_device_and_its_sighting_on_a_bus_are_one(
    small: Catalog, seen: list[tuple[str, str]], joined: list[tuple[str, str]]
) -> None:
    sightings = [sighting(small, bus, device, address=f"{n}") for n, (bus, device) in enumerate(seen)]
    result = join_bus_sightings(sightings)
    assert [(item.bus, item.devices[0].id) for item in result] == joined
    evidence = [says for item in result for says in item.evidence]
    assert sorted(evidence, key=str) == sorted(
        (says for item in sightings for says in item.evidence), key=str
    )


def test_a_board_and_its_own_tpu_are_one_and_a_second_tpu_is_another(world: World, small: Catalog) -> None:
    board = tree("acme,kit", "x,soc")
    own = pci("0000:01:00.0", "aaaa:3000", driver="acme")
    assert summary(detect(world(board | own), small).accelerators) == [("pci:0000:01:00.0", "kit")]


def test_a_card_without_its_board_is_a_card(world: World, small: Catalog) -> None:
    (acc,) = detect(world(pci("0000:01:00.0", "aaaa:3000")), small).accelerators
    assert acc.model == "module"


@pytest.mark.parametrize(
    ("devices", "gib", "kept"),
    [
        (["board-small", "board-big"], 3.9, ["board-small"]),
        (["board-small", "board-big"], 15.6, ["board-big"]),
        (["board-small", "board-big"], 60, ["board-small", "board-big"]),
        (["board-small", "board-big"], None, ["board-small", "board-big"]),
        (["board-small"], 60, ["board-small"]),
        (
            ["twin-a", "twin-b"],
            3.9,
            ["twin-a", "twin-b"],
        ),  # they have memory of their own: the machine's is no evidence
    ],
)
def test_memory_excludes_candidates(
    small: Catalog, devices: list[str], gib: float | None, kept: list[str]
) -> None:
    total = None if gib is None else Bytes(round(gib * 2**30))
    result = weigh_memory(sighting(small, "platform", *devices), total)
    assert [device.id for device in result.devices] == kept
    assert (len(result.evidence) == 2) == (len(kept) < len(devices))


def test_two_devices_of_one_model_are_two(world: World, small: Catalog) -> None:
    files = usb("1-1", "aaaa:0001") | usb("1-2", "aaaa:0002", number=3) | pci("0000:01:00.0", "aaaa:1000")
    inventory = detect(world(files | pci("0000:02:00.0", "aaaa:1000")), small)
    assert [acc.id for acc in inventory.accelerators] == [
        "pci-0000-01-00-0",
        "pci-0000-02-00-0",
        "usb-1-1-acme",
        "usb-1-2-acme",
    ]


def test_a_stick_that_re_enumerates_keeps_its_id(world: World, small: Catalog) -> None:
    before = detect(world(usb("1-1.4", "aaaa:0001", number=4)), small).accelerators[0]
    host = world({})
    for name, text in (("idProduct", "0002\n"), ("devnum", "17\n")):
        with open(f"{host.root}/sys/devices/usb1/1-1.4/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    after = detect(host, small).accelerators[0]
    assert after.id == before.id == "usb-1-1-4-acme"
    assert "waiting for its firmware" in before.evidence[0].says
    assert "firmware loaded" in after.evidence[0].says


def test_a_board_with_a_stick_and_a_card_has_three(world: World, small: Catalog) -> None:
    files = {
        **tree("acme,small", "acme,soc", nodes={"gpu@17": "acme,igpu"}),
        **usb("1-1", "aaaa:0001"),
        **pci("0000:01:00.0", "aaaa:1000"),
        **memory(3.9),
    }
    inventory = detect(world(files), small)
    assert summary(inventory.accelerators) == [
        ("platform:17.gpu", "board-small"),
        ("pci:0000:01:00.0", "card"),
        ("usb:1-1", "stick"),
    ]
    assert inventory.total_memory() == inventory.machine.memory + 8 * 2**20  # type: ignore[operator]  # memory is given


def test_the_version_of_a_driver_is_its_module_s(world: World, small: Catalog) -> None:
    files = pci("0000:01:00.0", "aaaa:1000", driver="acme") | pci(
        "0000:02:00.0", "aaaa:2000", driver="acme-x"
    )
    versions: dict[str, Entry] = {
        "/sys/module/acme/version": "4.20.0\n",
        "/sys/bus/pci/drivers/acme-x/module": Link("../../../../module/acme_core"),
        "/sys/module/acme_core/version": "5.0\n",
    }
    accelerators = detect(world(files | versions), small).accelerators
    assert [acc.driver_version for acc in accelerators] == ["4.20.0", "5.0"]

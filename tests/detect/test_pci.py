"""The PCI bus: listed ids, families, shapes of accelerators, and decoys."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from tests.worlds import Entry, Files, Link, World, pci

ADDRESS = "0000:01:00.0"


@pytest.mark.parametrize(
    ("ids", "options", "model", "candidates"),
    [
        ("1e60:2864", {}, None, ["hailo-8", "hailo-8l"]),
        ("1ac1:089a", {"kind": "0x0000ff"}, "coral-pcie", ["coral-pcie"]),
        ("10de:2335", {"kind": "0x030200"}, "h200", ["h200"]),
        ("10de:1eb8", {"kind": "0x030200"}, "t4", ["t4"]),
    ],
)
def test_listed_ids(
    world: World,
    catalog: Catalog,
    ids: str,
    options: dict[str, str],
    model: str | None,
    candidates: list[str],
) -> None:
    (acc,) = detect(world(pci(ADDRESS, ids, **options)), catalog).accelerators
    assert (acc.model, list(acc.candidates)) == (model, candidates)
    assert (acc.confidence > 0.9) == (model is not None)


NEGATIVE = [
    *(
        (f"10de:{device}", "0x060400")
        for device in ("229a", "229c", "229e", "0fae", "1ad0", "1ad1", "1ad2", "22d8")
    ),
    ("10de:22a3", "0x068000"),
    ("10de:1af1", "0x068000"),
    ("10de:22ba", "0x040300"),
    ("10de:10f0", "0x040300"),
    ("8086:7e4c", "0x088000"),
    ("8086:464f", "0x088000"),
    ("8086:774c", "0x088000"),
    ("8086:37c8", "0x0b4000"),
    ("8086:461d", "0x118000"),
    ("1d87:3588", "0x060400"),
    ("1d87:0100", "0x060400"),
    ("1a03:2000", "0x030000"),
    ("1013:00b8", "0x030000"),
    ("102b:0532", "0x030000"),
    ("1af4:1050", "0x030000"),
    ("1af4:1050", "0x038000"),
    ("10ee:5000", "0x120000"),
    ("10ee:9038", "0x120000"),
    ("10ee:b03f", "0x120000"),
    ("10ee:50b5", "0x120000"),
    *((f"8086:{device}", "0x0b4000") for device in ("0435", "18ee", "4940", "4941", "4948", "2714")),
    ("177d:a018", "0x120000"),
    ("19e5:a250", "0x120000"),
    ("1014:044b", "0x120000"),
    ("13a3:0020", "0x0b4000"),
]
"""Devices that look like accelerators but are not: ports, switches, sound, QAT, crypto, BMCs, bare FPGAs."""


@pytest.mark.parametrize(("ids", "kind"), NEGATIVE)
def test_decoys_are_neither_accelerators_nor_unknown(
    world: World, catalog: Catalog, ids: str, kind: str
) -> None:
    inventory = detect(world(pci(ADDRESS, ids, kind=kind)), catalog)
    assert inventory.accelerators == ()
    assert inventory.unknown == ()


@pytest.mark.parametrize(
    ("ids", "kind", "says"),
    [
        ("8086:225c", "0x0b4000", "Xeon Phi"),
        ("8086:225e", "0x0b4000", "Xeon Phi"),
        ("8086:ffff", "0x0b4000", "PCI class 0b40"),
        ("10ee:50ff", "0x120000", "PCI class 1200"),
        ("177d:a092", "0x120000", "PCI class 1200"),
        ("19e5:d999", "0x120000", "PCI class 1200"),
    ],
)
def test_a_decoy_does_not_hide_other_devices_of_its_vendor(
    world: World, catalog: Catalog, ids: str, kind: str, says: str
) -> None:
    inventory = detect(world(pci(ADDRESS, ids, kind=kind)), catalog)
    assert inventory.accelerators == ()
    (unknown,) = inventory.unknown
    assert unknown.ids == ids
    assert says in unknown.reason


def test_a_quickassist_of_a_new_id_is_recognised_by_its_driver(world: World, catalog: Catalog) -> None:
    inventory = detect(world(pci(ADDRESS, "8086:ffff", kind="0x0b4000", driver="420xx")), catalog)
    assert (inventory.accelerators, inventory.unknown) == ((), ())


def test_an_alveo_v80_is_one_card_of_three_functions(world: World, catalog: Catalog) -> None:
    functions = {"0000:01:00.0": "10ee:50b4", "0000:01:00.1": "10ee:50b5", "0000:01:00.2": "10ee:50b6"}
    files = {path: item for at, ids in functions.items() for path, item in pci(at, ids).items()}
    inventory = detect(world(files), catalog)
    assert [(acc.model, acc.bus) for acc in inventory.accelerators] == [("alveo-v80", f"pci:{ADDRESS}")]
    assert inventory.unknown == ()


@pytest.mark.parametrize(
    ("files", "ids", "says"),
    [
        (pci(ADDRESS, "abcd:0001", kind="0x120000", driver="x"), "abcd:0001", "PCI class 1200"),
        (pci(ADDRESS, "1022:ffff", kind="0x118000", driver="amdxdna"), "1022:ffff", "newer than the catalog"),
    ],
)
def test_a_device_shaped_like_an_accelerator_is_unknown(
    world: World, small: Catalog, files: Files, ids: str, says: str
) -> None:
    inventory = detect(world(files), small)
    assert inventory.accelerators == ()
    (unknown,) = inventory.unknown
    assert (unknown.bus, unknown.ids) == (f"pci:{ADDRESS}", ids)
    assert says in unknown.reason


@pytest.mark.parametrize(
    "files",
    [
        pci(ADDRESS, "dead:0001", kind="0x120000"),  # a decoy comes before a shape
        pci(ADDRESS, "1022:ffff", kind="0x118000"),  # the shape requires the driver
        pci(ADDRESS, "abcd:0001", kind="0x020000"),
        pci(ADDRESS, "10de:1111", kind="0x040300"),  # a GPU's id on a sound card
        pci(ADDRESS, "10de:3333", kind="0x0c0330"),
        {f"/sys/bus/pci/devices/{ADDRESS}/vendor": "0xaaaa"},
        {f"/sys/bus/pci/devices/{ADDRESS}": Link("nowhere")},
        pci(ADDRESS, "aaaa:1000", vendor="junk"),
        pci(ADDRESS, "aaaa:1000", device="-0x1000"),
    ],
)
def test_other_devices_are_not_reported(world: World, small: Catalog, files: dict[str, Entry]) -> None:
    inventory = detect(world(files), small)
    assert (inventory.accelerators, inventory.unknown) == ((), ())


def test_an_unreadable_class_does_not_hide_a_listed_id(world: World, small: Catalog) -> None:
    inventory = detect(
        world(pci(ADDRESS, "10de:1111") | {f"/sys/devices/pci0000:00/{ADDRESS}/class": "?"}), small
    )
    assert [acc.model for acc in inventory.accelerators] == ["gpu-x"]

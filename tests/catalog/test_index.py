"""The index: which rows match the ids of a machine."""

import pytest

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.catalog.device import CpuKey, DeviceMatch
from fairlead.catalog.index import PciId
from fairlead.catalog.lookup import find_by_name
from fairlead.catalog.parse import parse_pci_key
from fairlead.errors import CatalogError


def device(name: str, *keys: str, kind: str = "npu") -> CatalogDevice:
    """Return a row with PCI keys."""
    return CatalogDevice(
        name, name, "V", kind, name, DeviceMatch(pci=tuple(parse_pci_key(key) for key in keys))
    )


CATALOG = Catalog.of(
    [
        device("range", "aaaa:0000-ffff"),
        device("exact", "aaaa:0001"),
        device("revision", "aaaa:0001 rev 10"),
        device("subsystem", "aaaa:0001 sub bbbb:0002"),
        device("both", "aaaa:0001 rev 11 sub bbbb:0002"),
        device("narrow-range", "cccc:0000-ffff rev 01"),
        device("gpu", "dddd:0001", kind="gpu"),
        device("gpu-range", "dddd:0000-ffff", kind="gpu"),
    ]
)


@pytest.mark.parametrize(
    ("pci", "names"),
    [
        (PciId(0xAAAA, 0x0009), ["range"]),
        (PciId(0xAAAA, 0x0001), ["exact"]),
        (PciId(0xAAAA, 0x0001, None, 0x00, (0xBBBB, 0x0009)), ["exact"]),
        (PciId(0xAAAA, 0x0001, None, 0x10), ["revision"]),
        (PciId(0xAAAA, 0x0001, None, 0x10, (0xBBBB, 0x0002)), ["subsystem"]),
        (PciId(0xAAAA, 0x0001, None, 0x11, (0xBBBB, 0x0002)), ["both"]),
        (PciId(0xCCCC, 0x0001, None, 0x01), ["narrow-range"]),
        (PciId(0xCCCC, 0x0001, None, 0x02), []),
        (PciId(0xCCCC, 0x0001), []),
        (PciId(0xDDDD, 0x0001, "0300"), ["gpu"]),
        (PciId(0xDDDD, 0x0001, "0302"), ["gpu"]),
        (PciId(0xDDDD, 0x0001, None), ["gpu"]),
        (PciId(0xDDDD, 0x0001, "0403"), []),  # the sound function of a GPU
        (PciId(0xDDDD, 0x0002, "0300"), ["gpu-range"]),
        (PciId(0xDDDD, 0x0002, None), []),  # a range without a class is not enough
        (PciId(0xEEEE, 0x0001), []),
    ],
)
def test_the_most_specific_key_wins(pci: PciId, names: list[str]) -> None:
    assert [row.id for row in CATALOG.by_pci(pci)] == names
    assert CATALOG.knows_pci(pci.vendor, pci.device) or not names


@pytest.mark.parametrize(
    ("arch", "flags", "name"),
    [
        ("x86_64", "fpu", "cpu-plain"),
        ("x86_64", "avx2", "cpu-plain"),
        ("x86_64", "avx2 fma sse4_2", "cpu-avx2"),
        ("aarch64", "asimd", None),
    ],
)
def test_a_processor_matches_the_row_with_the_most_flags(
    small: Catalog, arch: str, flags: str, name: str | None
) -> None:
    row = small.by_cpu(arch, frozenset(flags.split()))
    assert (row.id if row else None) == name


def test_every_shipped_processor_row_can_match(catalog: Catalog) -> None:
    for row in catalog.devices.values():
        if row.match.cpu:
            assert catalog.by_cpu(row.match.cpu.arch, row.match.cpu.flags) == row, row.id
    assert catalog.by_cpu("x86_64", frozenset()) is not None
    assert catalog.by_cpu("aarch64", frozenset({"asimd"})) is not None
    assert CpuKey("x86_64", frozenset({"b", "a"})).__str__() == "x86_64 a b"


def test_devices_are_found_by_id_and_alias(catalog: Catalog) -> None:
    assert catalog.get("coral-usb") is catalog.get("google-coral-tpu")


@pytest.mark.parametrize(
    "name",
    [
        "Jetson Nano Orin",
        "orin nano jetson",
        "NVIDIA Jetson Nano Orin",
        "Nano Orin Jetson",
        "ORIN-JETSON-NANO",
    ],
)
def test_the_words_of_a_name_may_stand_in_another_order(catalog: Catalog, name: str) -> None:
    assert catalog.get(name).id == "jetson-orin-nano"
    assert catalog.get("Nano Jetson").id == "jetson-nano"
    with pytest.raises(CatalogError, match="no device 'Orin'"):
        catalog.get("Orin")


def test_no_order_of_the_words_of_a_name_is_another_device(catalog: Catalog) -> None:
    for device in catalog.group("jetson"):
        found = find_by_name(catalog.devices.values(), " ".join(reversed(device.id.split("-"))))
        assert [row.id for row in found] == [device.id]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("jetson-nanoo", "did you mean jetson-nano"),
        ("hailo8", "did you mean hailo-8"),
        ("google-coral-tpuu", "did you mean google-coral-tpu"),
        ("%%%%", "see: fairlead catalog list"),
        ("", "see: fairlead catalog list"),
    ],
)
def test_the_error_for_an_unknown_name_lists_similar_ones(catalog: Catalog, name: str, hint: str) -> None:
    with pytest.raises(CatalogError, match="in the catalog") as caught:
        catalog.get(name)
    assert caught.value.hint.startswith(hint)


def test_nodes_are_matched_by_their_most_specific_entry(small: Catalog) -> None:
    assert [d.id for d in small.by_node(["x,unknown", "acme,npu"], "any")] == ["soc-npu"]
    assert [d.id for d in small.by_node(["common,gc"], "npu")] == ["soc-npu"]
    assert small.by_node(["common,gc"], "gpu") == []
    assert small.by_node([], "npu") == []

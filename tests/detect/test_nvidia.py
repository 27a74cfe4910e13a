"""The NVIDIA driver as witness: its /proc files and NVML, joined with the bus by address."""

import tempfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import Host
from fairlead.nvml import Gpu, sysfs_address
from fairlead.units import Bytes, Watts
from tests import catalogs, strategies
from tests.soundness import assert_sound
from tests.worlds import Files, World, build, pci, tree

ADDRESS = "0000:03:00.0"
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
CARD = pci(ADDRESS, "10de:1111", kind="0x030200", driver="nvidia")
NVML = Gpu(0, ADDRESS, "NVIDIA X", UUID, Bytes(16 * 2**30), Watts(250), "550.54.15", 0)


def information(model: str, minor: str = "3", uuid: str = UUID) -> Files:
    """Return the files that the driver writes below /proc."""
    text = f"Model: \t\t {model}\nIRQ:   \t\t 12\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
    return {f"/proc/driver/nvidia/gpus/{ADDRESS}/information": text}


@pytest.mark.parametrize(
    ("files", "gpus", "model", "name", "confidence"),
    [
        (CARD, [], "gpu-x", "GPU X", 0.98),
        (CARD, [NVML], "gpu-x", "GPU X", 0.99),
        (CARD, [replace(NVML, name="NVIDIA X 32GB", memory=Bytes(32 * 2**30))], "gpu-x", "GPU X 32GB", 0.99),
        (CARD, [replace(NVML, memory=Bytes(32 * 2**30))], "gpu-x", "GPU X 32GB", 0.99),
        (CARD, [replace(NVML, name="Quantum Nine")], "gpu-x", "GPU X", 0.98),
        # NVML names another product than the PCI id: the driver wins, with a lower confidence.
        (CARD, [replace(NVML, name="NVIDIA Y")], "gpu-y", "GPU Y", 0.8),
        (CARD | dict(information("NVIDIA X")), [], "gpu-x", "GPU X", 0.99),
        (CARD | dict(information("NVIDIA X 32GB")), [], "gpu-x", "GPU X 32GB", 0.99),
        (CARD | dict(information("NVIDIA Y")), [], "gpu-y", "GPU Y", 0.8),
        # A family: the driver's product name is more specific than the catalog.
        (pci(ADDRESS, "10de:3456", kind="0x030000", driver="nvidia"), [], "gpu-family", "NVIDIA GPU", 0.9),
        (
            pci(ADDRESS, "10de:3456", kind="0x030000", driver="nvidia"),
            [replace(NVML, name="Quantum Nine")],
            "gpu-family",
            "Quantum Nine",
            0.9,
        ),
        (pci(ADDRESS, "10de:3456", kind="0x030000", driver="nvidia"), [NVML], "gpu-x", "GPU X", 0.99),
        # Nothing on the bus, as inside a container or under WSL.
        ({}, [NVML], "gpu-x", "GPU X", 0.95),
    ],
)
def test_the_witness_that_names_the_gpu(
    world: World, small: Catalog, files: Files, gpus: list[Gpu], model: str, name: str, confidence: float
) -> None:
    (acc,) = detect(world(files), small, gpus).accelerators
    assert (acc.model, acc.name) == (model, name)
    assert acc.confidence == pytest.approx(confidence)
    assert acc.bus == f"pci:{ADDRESS}"


def test_a_contradiction_is_listed_as_evidence(world: World, small: Catalog) -> None:
    (acc,) = detect(world(CARD), small, [replace(NVML, name="NVIDIA Y")]).accelerators
    assert acc.evidence[1].source == "nvml"
    assert acc.evidence[1].says == "product name 'NVIDIA Y', but the PCI id is GPU X: they disagree"


def test_the_figures_of_nvml_are_used(world: World, small: Catalog) -> None:
    gpu = replace(NVML, memory=Bytes(15 * 2**30))
    (acc,) = detect(world(CARD), small, [gpu]).accelerators
    assert (acc.memory, acc.power, acc.driver_version, acc.uuid) == (
        gpu.memory,
        gpu.power_limit,
        "550.54.15",
        UUID,
    )


def test_each_gpu_is_joined_by_its_own_address(world: World, small: Catalog) -> None:
    other = pci("0000:04:00.0", "10de:1111", kind="0x030200", driver="nvidia")
    gpus = [
        replace(NVML, index=0, address="0000:04:00.0", uuid="second"),
        replace(NVML, index=1, uuid="first"),
    ]
    accelerators = detect(world(CARD | other), small, gpus).accelerators
    assert [(acc.bus, acc.uuid) for acc in accelerators] == [
        (f"pci:{ADDRESS}", "first"),
        ("pci:0000:04:00.0", "second"),
    ]


def test_an_integrated_gpu_has_no_address(world: World, small: Catalog) -> None:
    gpu = replace(NVML, address="", name="Orin (nvgpu)", memory=None)
    (acc,) = detect(world(tree("acme,small", "acme,soc")), small, [gpu]).accelerators
    assert (acc.model, acc.uuid, acc.bus) == ("board-small", UUID, "platform:board-small")


@pytest.mark.parametrize(
    ("files", "ids"), [({}, "10de"), (pci(ADDRESS, "10de:9999", kind="0x120000"), "10de:9999")]
)
def test_a_gpu_without_a_row_is_unknown_once(world: World, small: Catalog, files: Files, ids: str) -> None:
    inventory = detect(world(files), small, [replace(NVML, name="Quantum Nine")])
    assert inventory.accelerators == ()
    (unknown,) = inventory.unknown
    assert (unknown.bus, unknown.ids) == (f"pci:{ADDRESS}", ids)
    assert "'Quantum Nine'" in unknown.reason


def test_a_product_name_identifies_an_unlisted_id(world: World, small: Catalog) -> None:
    inventory = detect(world(pci(ADDRESS, "10de:9999", kind="0x120000", driver="nvidia")), small, [NVML])
    assert [acc.model for acc in inventory.accelerators] == ["gpu-x"]
    assert inventory.unknown == ()


@pytest.mark.parametrize(
    ("minor", "uuid", "node", "shown"),
    [
        ("3", UUID, "/dev/nvidia3", UUID),
        ("three", UUID, None, UUID),  # of two nodes none is chosen
        ("1234567", UUID, None, UUID),
        ("7", UUID, None, UUID),
        ("3", "GPU-????????-????-????-????-????????????", "/dev/nvidia3", None),
        ("3", "GPU-\x1b[2J", "/dev/nvidia3", None),
    ],
)
def test_the_driver_files_below_proc(
    world: World, small: Catalog, minor: str, uuid: str, node: str | None, shown: str | None
) -> None:
    nodes = {"/dev/nvidia0": "", "/dev/nvidia3": ""}
    host = world(CARD | dict(information("NVIDIA X", minor, uuid)) | nodes)
    (acc,) = detect(host, small).accelerators
    assert (acc.node, acc.uuid) == (node, shown)


@pytest.mark.parametrize(
    ("address", "sysfs"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00010000:0A:00.0", "0000:0a:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("1:02:03.4", "0001:02:03.4"),
        ("", ""),
        ("junk", ""),
    ],
)
def test_addresses_as_sysfs_spells_them(address: str, sysfs: str) -> None:
    assert sysfs_address(address) == sysfs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "7",
        '"text"',
        "{}",
        '{"a": 1}',
        "[1]",
        "[[]]",
        "[{}]",
        "[null]",
        "[" * 60_000,
        '[{"index": 0}]',
        "\xff",
        '[{"index": "x", "address": 1, "name": 2, "uuid": 3, "memory": [], "power_limit": {},'
        '"driver_version": 4, "ecc_errors": "a"}]',
    ],
)
def test_an_invalid_nvml_file_is_a_problem_of_the_host(world: World, text: str) -> None:
    host = world({"/fairlead/nvml.json": text.encode("latin-1")})
    assert read_gpus(host) == []
    assert len(host.problems) == (1 if text and text != "{}" else 0)


def test_implausible_values_of_a_gpu_are_dropped(world: World) -> None:
    text = (
        '[{"index": 3, "address": "a\\nb", "name": "\\ud800", "uuid": "", "memory": Infinity,'
        '"power_limit": NaN, "driver_version": 5, "ecc_errors": -1}]'
    )
    (gpu,) = read_gpus(world({"/fairlead/nvml.json": text}))
    assert gpu == Gpu(3, "a\ufffdb", "\ufffd", "", None, None, "5", None)


@given(st.lists(strategies.gpus(), max_size=4))
def test_any_nvml_data_gives_a_valid_inventory(gpus: list[Gpu]) -> None:
    with tempfile.TemporaryDirectory() as root:
        build(root, CARD | dict(information("NVIDIA X")))
        for known in (catalogs.shipped(), catalogs.small()):
            assert_sound(detect(Host(root), known, gpus), known)

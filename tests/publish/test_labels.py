"""Labels: valid for any inventory, and the original set for the devices that it supported."""

import pytest
from hypothesis import given

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.inventory import Inventory
from fairlead.publish.labels import (
    LEGACY_KEYS,
    RESTRICTED,
    is_own_label,
    label_value,
    labels,
    legacy_labels,
    model_name,
    restricted_labels,
)
from tests import strategies
from tests.soundness import assert_labels
from tests.worlds import Files, World, memory, pci, tree, usb

R32 = {
    "/etc/nv_tegra_release": "# R32 (release), REVISION: 4.3, GCID: 21589087, BOARD: t186ref, EABI: aarch64\n"
}
R36 = {"/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64\n"}


@given(strategies.inventories())
def test_any_inventory_gives_valid_labels(inventory: Inventory) -> None:
    assert_labels(labels(inventory), prefix="fairlead.dev/")
    assert_labels(restricted_labels(inventory), prefix=RESTRICTED)
    assert_labels(legacy_labels(inventory), prefix="")
    assert all(is_own_label(key) for key in (*labels(inventory), *restricted_labels(inventory)))
    assert set(legacy_labels(inventory)) <= LEGACY_KEYS
    assert all(model_name(acc) for acc in inventory.accelerators)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NVIDIA Jetson Nano Developer Kit", "NVIDIA-Jetson-Nano-Developer-Kit"),
        ("nvidia,tegra210", "nvidia-tegra210"),
        ("--x--", "x"),
        ("é", ""),
        ("a" * 62 + "..." + "b", "a" * 62),
        ("", ""),
    ],
)
def test_a_label_value(text: str, value: str) -> None:
    assert label_value(text) == value


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            tree("nvidia,p2371-2180", "nvidia,tegra210", model="jetson_tx1") | R32,
            {"gpu.model": "Jetson-TX1", "gpu.driver": "R32.4.3", "gpu.resource": "tegrastats"},
        ),
        (
            tree("nvidia,quill", "nvidia,tegra186", model="quill") | R32,
            {"gpu.model": "Jetson-TX2", "gpu.driver": "R32.4.3", "gpu.resource": "tegrastats"},
        ),
        (
            tree("nvidia,p3449-0000-b00+p3448-0000-b00", "nvidia,jetson-nano", "nvidia,tegra210") | R32,
            {"gpu.model": "Jetson-Nano", "gpu.driver": "R32.4.3", "gpu.resource": "tegrastats"},
        ),
        (
            tree("nvidia,p2972-0000", "nvidia,tegra194", model="Jetson-AGX") | R32,
            {"gpu.model": "Jetson-AGX", "gpu.driver": "R32.4.3", "gpu.resource": "tegrastats"},
        ),
        (
            usb("1-1", "1a6e:089a"),
            {"gpu.model": "Google-Coral-TPU", "gpu.vendor.id": "1a6e", "gpu.product.id": "089a"},
        ),
        (
            usb("1-1", "18d1:9302"),
            {"gpu.model": "Google-Coral-TPU", "gpu.vendor.id": "18d1", "gpu.product.id": "9302"},
        ),
        # The full release distinguishes R32.4.3 and R36.4.3, which the original did not.
        (
            tree("nvidia,p3737-0000+p3701-0005", "nvidia,tegra234") | R36,
            {"gpu.model": "Jetson-AGX-Orin-64GB", "gpu.driver": "R36.4.3", "gpu.resource": "tegrastats"},
        ),
        # A Jetson with a stick keeps its own name and has the stick's ids.
        (
            tree("nvidia,jetson-nano", "nvidia,tegra210") | R32 | usb("1-1", "18d1:9302"),
            {
                "gpu.model": "Jetson-Nano",
                "gpu.driver": "R32.4.3",
                "gpu.resource": "tegrastats",
                "gpu.vendor.id": "18d1",
                "gpu.product.id": "9302",
            },
        ),
        (
            pci("0000:01:00.0", "10de:1eb8", kind="0x030200", driver="nvidia")
            | {"/sys/module/nvidia/version": "550.54.15\n"}
            | {"/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: Tesla T4\n"},
            {"gpu.model": "TeslaT4", "gpu.driver": "550.54.15", "gpu.resource": "nvidia-smi"},
        ),
        ({}, {}),
    ],
)
def test_the_original_set(world: World, catalog: Catalog, files: Files, expected: dict[str, str]) -> None:
    assert legacy_labels(detect(world(files), catalog)) == expected


def test_the_labels_of_a_node(world: World, small: Catalog) -> None:
    files = {
        **tree("acme,small", "acme,soc", model="Acme Small Kit"),
        **usb("1-1", "aaaa:0001"),
        **usb("1-2", "aaaa:0001", number=3, authorized="0\n"),
        **usb("1-3", "bbbb:0001", number=4),
        **memory(3.9),
        **R32,
    }
    assert labels(detect(world(files), small)) == {
        "fairlead.dev/board": "Acme-Small-Kit",
        "fairlead.dev/soc": "acme-soc",
        "fairlead.dev/release": "R32.4.3",
        "fairlead.dev/unknown.count": "1",
        "fairlead.dev/gpu.count": "1",
        "fairlead.dev/tpu.count": "2",
        "fairlead.dev/board-small.count": "1",
        "fairlead.dev/board-small.usable": "0",
        "fairlead.dev/board-small.state": "present",
        "fairlead.dev/board-small.kind": "gpu",
        "fairlead.dev/board-small.vendor": "NVIDIA",
        "fairlead.dev/board-small.memory-mib": "3993",
        "fairlead.dev/board-small.unified-memory": "true",
        "fairlead.dev/stick.count": "2",
        "fairlead.dev/stick.usable": "1",
        "fairlead.dev/stick.state": "present",
        "fairlead.dev/stick.kind": "tpu",
        "fairlead.dev/stick.vendor": "Acme",
        "fairlead.dev/stick.memory-mib": "8",
        "fairlead.dev/stick.int8-gops": "4000",
    }


def test_an_ambiguous_model_is_labelled_by_its_candidates(world: World, small: Catalog) -> None:
    found = labels(detect(world(pci("0000:01:00.0", "aaaa:2000")), small))
    assert found["fairlead.dev/twin-a-or-twin-b.count"] == "1"


def test_restricted_labels_count_allocatable_accelerators(world: World, small: Catalog) -> None:
    files = {
        **tree("acme,small", "acme,soc", model="Acme Small Kit"),  # without a driver
        **usb("1-1", "aaaa:0001"),
        **usb("1-2", "aaaa:0001", number=3),
        **usb("1-3", "aaaa:0001", number=4, authorized="0\n"),
    }
    assert restricted_labels(detect(world(files), small)) == {
        "fairlead.node-restriction.kubernetes.io/stick": "2",
        "fairlead.node-restriction.kubernetes.io/vendor.Acme": "2",
    }


@pytest.mark.parametrize(
    "key",
    [
        "fairlead.dev/test",
        "fairlead.dev/pool",
        "fairlead.dev/.count",
        "fairlead.dev/count",
        "fairlead.dev/t4.colour",
        "gpu.count",
        "gpu.model",
        "node-restriction.kubernetes.io/t4",
        "kubernetes.io/arch",
    ],
)
def test_labels_of_other_writers_are_not_ours(key: str) -> None:
    assert not is_own_label(key)

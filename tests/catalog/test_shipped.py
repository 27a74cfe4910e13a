"""The shipped catalog: it parses, it is valid, it has the required devices and matches no decoy."""

import os
import re

import pytest

from fairlead.catalog import Catalog, lint
from fairlead.catalog.index import PciId
from fairlead.catalog.load import SHIPPED, read_file
from tests.detect.test_pci import NEGATIVE

FOUNDING = [
    *(f"jetson-{name}" for name in ("tx1", "tx2", "tx2-nx", "nano", "xavier-nx", "agx-xavier")),
    *(f"jetson-{name}" for name in ("orin-nano", "orin-nx", "agx-orin", "agx-thor")),
    *("coral-usb", "coral-pcie", "coral-dev-board", "hailo-8", "hailo-8l", "hailo-10h", "rk3588-npu"),
]


@pytest.mark.parametrize("name", sorted(os.listdir(SHIPPED)))
def test_every_file_parses(name: str) -> None:
    devices, shapes = read_file(os.path.join(SHIPPED, name))
    assert devices or shapes
    assert all(device.origin == name for device in devices)


def test_it_is_valid(catalog: Catalog) -> None:
    assert lint(catalog) == []


def test_it_knows_enough_devices_of_every_kind(catalog: Catalog) -> None:
    devices = catalog.devices.values()
    assert len(devices) >= 50
    assert {device.kind for device in devices} >= {"cpu", "gpu", "tpu", "npu", "vpu", "dsp"}


@pytest.mark.parametrize("name", FOUNDING)
def test_founding_devices_keep_their_names(catalog: Catalog, name: str) -> None:
    device = catalog.devices[name]
    assert catalog.get(name) is device
    assert device.peak
    assert device.drivers


@pytest.mark.parametrize(("ids", "kind"), NEGATIVE)
def test_no_key_matches_a_decoy(catalog: Catalog, ids: str, kind: str) -> None:
    vendor, device = (int(part, 16) for part in ids.split(":"))
    assert catalog.by_pci(PciId(vendor, device, kind[2:6], 0, (vendor, 0))) == []


def test_figures_are_plausible(catalog: Catalog) -> None:
    """An error by a factor of a thousand gives a figure beyond any built device."""
    for device in catalog.devices.values():
        for name, rate in (*device.peak.items(), *(item for v in device.variants for item in v.peak.items())):
            assert 1e9 <= rate <= 5e16, (device.id, name)
        for memory in (device.memory, *(variant.memory for variant in device.variants)):
            assert memory is None or 2**10 <= memory <= 2**40, device.id
        assert device.power is None or 0.05 <= device.power <= 3000, device.id
        assert device.clock is None or 1e8 <= device.clock <= 6e9, device.id
        assert device.bandwidth is None or 1e9 <= device.bandwidth <= 3e13, device.id


def test_sparse_is_more_than_dense(catalog: Catalog) -> None:
    for device in catalog.devices.values():
        for name, rate in device.peak.items():
            if (dense := device.peak.get(name.removesuffix("-sparse"))) and name.endswith("-sparse"):
                assert rate > dense, (device.id, name)


def test_names_are_for_people(catalog: Catalog) -> None:
    for device in catalog.devices.values():
        assert device.name.isprintable(), device.id
        assert device.name == device.name.strip(), device.id
        assert len(device.id) <= 40, device.id
        assert all(device.note == re.sub(r"\s+", " ", device.note).strip() for _ in device.note[:1]), (
            device.id
        )
        assert device.family, device.id


def test_variants_of_unified_devices_can_be_selected(catalog: Catalog) -> None:
    for device in catalog.devices.values():
        if device.unified and device.variants:
            assert any(v.memory or v.module or v.board or v.pci or v.nvml for v in device.variants), device.id

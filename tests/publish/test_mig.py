"""What a node publishes of a GPU that is split: its instances, and never the GPU beside them."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.annotations import parse_devices
from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import Host
from fairlead.inventory import Inventory, MigPartition
from fairlead.offer import DeviceNode, Form, Holder, Holding
from fairlead.publish.access import grant
from fairlead.publish.devices import devices
from fairlead.publish.labels import is_own_label, labels, restricted_labels
from fairlead.publish.ledger import Ledger, Refusal, admit, held_mebibytes
from fairlead.publish.offers import OfferPlan, offers
from fairlead.publish.parts import resource_name
from fairlead.publish.slices import slices
from tests.accelerators import accelerator

HOST = Host(str(Path(__file__).parent.parent / "hosts/server-h200-mig/root"))
SPLIT, EMPTY = "pci-0000-1b-00-0", "pci-0000-43-00-0"
LARGE, MEDIUM, SMALL, OTHER = (
    f"{SPLIT}-mig-{end}" for end in ("3g-71gb-2-0", "2g-35gb-3-0", "1g-18gb-9-0", "1g-18gb-10-0")
)
POD = Holder("default", "web", "main")


@pytest.fixture
def inventory(catalog: Catalog) -> Inventory:
    return detect(HOST, catalog, read_gpus(HOST))


def test_instances_are_offered_by_profile_and_by_memory_and_their_gpu_is_not(inventory: Inventory) -> None:
    listed = {offer.resource: offer for offer in offers(inventory, (), OfferPlan())}
    wholes = {
        name.removeprefix("fairlead.dev/"): {block.accelerator: block.healthy for block in offer.blocks}
        for name, offer in listed.items()
        if name != "fairlead.dev/gpu-mem"
    }
    assert wholes == {
        "h200": {EMPTY: False},  # MIG is enabled: it is listed, and unhealthy, until it has instances
        "h200-mig-1g.18gb": {SMALL: True, OTHER: True},
        "h200-mig-2g.35gb": {MEDIUM: True},
        "h200-mig-3g.71gb": {LARGE: True},
    }
    memory = {
        block.accelerator: block.count for block in listed["fairlead.dev/gpu-mem"].blocks if block.healthy
    }
    assert memory == {LARGE: 71424, MEDIUM: 33280, SMALL: 16384, OTHER: 16384}


def test_the_annotation_the_labels_and_the_memory_leave_the_split_gpu_out(inventory: Inventory) -> None:
    listed = parse_devices(devices(inventory, ())) or ()
    assert {each.id: (each.model, each.mebibytes, each.healthy) for each in listed} == {
        LARGE: ("h200-mig-3g.71gb", 71424, True),
        MEDIUM: ("h200-mig-2g.35gb", 33280, True),
        SMALL: ("h200-mig-1g.18gb", 16384, True),
        OTHER: ("h200-mig-1g.18gb", 16384, True),
        EMPTY: ("h200", 143771, False),
    }
    counted = restricted_labels(inventory)
    assert counted["fairlead.node-restriction.kubernetes.io/h200-mig-1g.18gb"] == "2"
    assert "fairlead.node-restriction.kubernetes.io/h200" not in counted
    assert all(is_own_label(key) for key in labels(inventory))
    assert SPLIT not in held_mebibytes((), inventory)
    ram = inventory.machine.memory or 0
    assert inventory.total_memory() - ram == ((71424 + 33280 + 2 * 16384) << 20) + 150754820096


def test_the_devices_of_the_slice_name_profile_and_parent(inventory: Inventory) -> None:
    listed = [device for body in slices("n", "", inventory, (), 1) for device in body["spec"]["devices"]]
    assert sorted(device["name"] for device in listed) == sorted([LARGE, MEDIUM, SMALL, OTHER])
    small = next(device for device in listed if device["name"] == SMALL)
    assert small["attributes"]["model"] == {"string": "h200-mig-1g.18gb"}
    assert small["attributes"]["profile"] == {"string": "1g.18gb"}
    assert small["attributes"]["parentUUID"] == {"string": "GPU-00000000-0000-0000-0000-000000000001"}
    assert small["attributes"]["uuid"] == {"string": "MIG-00000000-0000-5000-8000-000000000009"}
    assert small["capacity"]["memory"]["value"] == "16Gi"
    assert len(small["attributes"]) + len(small["capacity"]) <= 32


def test_a_container_gets_the_instance_and_only_its_own_capabilities(inventory: Inventory) -> None:
    grants = {acc.id: grant(acc, HOST, resource=resource_name(acc)) for acc in inventory.accelerators}
    small = grants[SMALL]
    assert small.env == {
        "FAIRLEAD_DEVICE": SMALL,
        "FAIRLEAD_DEVICE_H200_MIG_1G_18GB": SMALL,
        "FAIRLEAD_MODEL": "h200-mig-1g.18gb",
        "NVIDIA_VISIBLE_DEVICES": "MIG-00000000-0000-5000-8000-000000000009",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    paths = [f"/dev/nvidia-caps/nvidia-cap{number}" for number in (84, 85)]
    assert small.nodes == tuple(DeviceNode(path, path) for path in paths)
    nodes = [node for granted in grants.values() for node in granted.nodes]
    assert len(set(nodes)) == len(nodes) == 8, "no two instances share a node"
    acc = next(acc for acc in inventory.accelerators if acc.id == SMALL)
    by_cdi = grant(acc, HOST, resource=resource_name(acc), nvidia="cdi", device_root="/host")
    assert by_cdi.cdi == ("nvidia.com/gpu=MIG-00000000-0000-5000-8000-000000000009",)
    assert [node.host for node in by_cdi.nodes] == [f"/host{path}" for path in paths]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        (SMALL, ""),
        (SPLIT, "only driver-bound: split into 4 MIG instances"),
        (EMPTY, "only driver-bound: MIG is enabled but no instance exists"),
    ],
)
def test_the_ledger_admits_an_instance_and_not_its_gpu(inventory: Inventory, name: str, refused: str) -> None:
    answer = admit(Ledger(), inventory, Holding(name, Form.WHOLE, POD))
    if refused:
        assert isinstance(answer, Refusal)
        assert refused in answer.reason
    else:
        assert isinstance(answer, Ledger)
        assert isinstance(admit(answer, inventory, Holding(OTHER, Form.WHOLE, POD)), Ledger)


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("1g.18gb", "t4-mig-1g.18gb"),
        ("1c.3g.71gb", "t4-mig-1c.3g.71gb"),
        ("1g.18gb+me", "t4-mig-1g.18gb.me"),
        ("1g.24gb-me", "t4-mig-1g.24gb-me"),
        ("", "t4-mig"),
        ("/" * 90, "t4-mig"),
    ],
)
def test_the_model_of_an_instance_is_a_valid_name(profile: str, name: str) -> None:
    acc = replace(accelerator(model="t4"), mig=MigPartition(profile, 9, 0, "pci", "GPU-1"))
    assert resource_name(acc) == f"fairlead.dev/{name}"
    long = replace(acc, model="x" * 90)
    assert len(resource_name(long).partition("/")[2]) <= 40
    assert resource_name(long).endswith(name.removeprefix("t4"))

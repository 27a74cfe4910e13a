"""ResourceSlices: valid for any inventory, and reduced by what containers hold."""

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from fairlead.annotations import allocated_text
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.keys import ALLOCATED, DIGEST
from fairlead.offer import Form, Holder, Holding
from fairlead.publish.labels import labels, restricted_labels
from fairlead.publish.offers import OfferPlan, offers
from fairlead.publish.slices import MOST_DEVICES, slices, spec_digest
from fairlead.units import Bytes, Ops, Watts
from tests import strategies
from tests.accelerators import accelerator, node
from tests.labs import RealCluster

HOSTS = Path(__file__).parent.parent / "hosts"
POD = Holder("default", "web", "main")
GPU = accelerator("pci:0000:3b:00.0", mebibytes=100, driver="nvidia", uuid="GPU-1", model="t4")


def devices(inventory: Inventory, *holdings: Holding) -> list[dict[str, Any]]:
    bodies = slices("n1", "uid-1", inventory, holdings, 1)
    return [device for body in bodies for device in body["spec"]["devices"]]


def mib(quantity: str) -> int:
    found = re.fullmatch(r"([0-9]+)([MGTPE])i", quantity)
    assert found
    return int(found[1]) << 10 * "MGTPE".index(found[2])


def assert_sound(device: dict[str, Any]) -> None:
    """Check a device as validation.go of the API does."""
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", device["name"])
    capacity = device.get("capacity", {})
    assert len(device["attributes"]) + len(capacity) <= 32
    for name, value in device["attributes"].items():
        assert re.fullmatch(r"(resource\.kubernetes\.io/)?[A-Za-z_][A-Za-z0-9_]{0,31}", name)
        ((kind, content),) = value.items()
        assert kind in ("string", "version", "int", "bool")
        assert kind not in ("string", "version") or 0 < len(content.encode()) <= 64
        assert kind != "int" or abs(content) < 2**63
    assert ("requestPolicy" in capacity.get("memory", {})) is device.get("allowMultipleAllocations", False)
    if device.get("allowMultipleAllocations"):
        memory = capacity["memory"]
        span = memory["requestPolicy"]["validRange"]
        assert mib(span["min"]) + mib(span.get("step", "0Mi")) <= mib(memory["value"]) < 2**43
        assert mib(memory["requestPolicy"]["default"]) == mib(memory["value"])


@given(strategies.held_nodes())
def test_any_inventory_gives_valid_slices(
    found: tuple[Inventory, tuple[Holding, ...]],
) -> None:
    inventory, holdings = found
    for body in slices("n1", "uid-1", inventory, holdings, 3):
        for device in body["spec"]["devices"]:
            assert_sound(device)
        json.dumps(body, allow_nan=False).encode()
    listed = [device["name"] for device in devices(inventory, *holdings)]
    able = {acc.id for acc in inventory.accelerators if acc.kind != "cpu" and acc.state.allocatable}
    assert set(listed) <= able
    assert listed == sorted(set(listed))


def test_a_slice() -> None:
    acc = replace(
        GPU,
        effective={"int8": Ops(130e12), "fp16": Ops(65e12)},
        power=Watts(70.0),
        driver_version="550.54.15",
        product="Tesla T4",
    )
    (body,) = slices("n1", "uid-1", node(acc, accelerator("cpu:0", kind="cpu")), [], 7)
    assert body["metadata"] == {
        "name": "n1-fairlead-0",
        "annotations": {DIGEST: spec_digest(body)},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1", "controller": True}
        ],
    }
    assert body["spec"] == {
        "driver": "fairlead.dev",
        "pool": {"name": "n1", "generation": 7, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [
            {
                "name": "pci-0000-3b-00-0",
                "attributes": {
                    "model": {"string": "t4"},
                    "name": {"string": "Test Device"},
                    "vendor": {"string": "Test"},
                    "kind": {"string": "npu"},
                    "state": {"string": "healthy"},
                    "driver": {"string": "nvidia"},
                    "driverVersion": {"version": "550.54.15"},
                    "product": {"string": "Tesla T4"},
                    "uuid": {"string": "GPU-1"},
                    "bus": {"string": "pci:0000:3b:00.0"},
                    "resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"},
                    "unifiedMemory": {"bool": False},
                    "shareable": {"bool": True},
                    "int8Gops": {"int": 130000},
                    "fp16Gops": {"int": 65000},
                    "powerMilliwatts": {"int": 70000},
                },
                "allowMultipleAllocations": True,
                "capacity": {
                    "memory": {
                        "value": "100Mi",
                        "requestPolicy": {"default": "100Mi", "validRange": {"min": "1Mi", "step": "1Mi"}},
                    }
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("holding", "left"),
    [
        (Holding(GPU.id, Form.MEMORY, POD, 30, ((0, 29),)), 70),
        (Holding(GPU.id, Form.MEMORY, POD, 99, ((0, 98),)), 1),
        (Holding(GPU.id, Form.MEMORY, POD, 100, ((0, 99),)), None),
        (Holding(GPU.id, Form.WHOLE, POD), None),
        # The scheduler itself subtracts what claims hold.
        (Holding(GPU.id, Form.CLAIM, POD, 30), 100),
        (Holding(GPU.id, Form.CLAIM, POD), 100),
    ],
)
def test_what_is_left_for_claims(holding: Holding, left: int | None) -> None:
    found = [device["capacity"]["memory"]["value"] for device in devices(node(GPU), holding)]
    assert found == ([] if left is None else [f"{left}Mi"])


def test_an_accelerator_that_cannot_be_shared_goes_to_one_claim() -> None:
    stick = accelerator("usb:1-1")
    with_memory = replace(stick, memory=Bytes(8 << 20))
    assert "capacity" not in devices(node(stick))[0]
    assert devices(node(with_memory))[0]["capacity"] == {"memory": {"value": "8Mi"}}
    assert devices(node(stick), Holding(stick.id, Form.WHOLE, POD)) == []
    assert devices(node(replace(stick, state=State.PRESENT))) == []
    assert slices("n1", "uid-1", node(), [], 1) == []


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("550.54.15", "version"),
        ("1.2.3-rc.1+build.07", "version"),
        ("570.124.06", "string"),
        ("4.20", "string"),
        ("1.2.3-01", "string"),
        ("1.2.3\n", "string"),
        ("é" * 40, "string"),
    ],
)
def test_only_a_semantic_version_is_a_version_attribute(version: str, kind: str) -> None:
    ((found, _),) = devices(node(replace(GPU, driver_version=version)))[0]["attributes"][
        "driverVersion"
    ].items()
    assert found == kind


@pytest.mark.parametrize(
    ("amount", "quantity"),
    [
        (1, "1Mi"),
        (1023, "1023Mi"),
        (1024, "1Gi"),
        (143771, "143771Mi"),
        (2**20, "1Ti"),
        (2**43, "8796093022207Mi"),
    ],
)
def test_an_amount_has_the_canonical_form_of_the_server(amount: int, quantity: str) -> None:
    acc = replace(GPU, memory=Bytes(amount << 20))
    assert devices(node(acc))[0]["capacity"]["memory"]["value"] == quantity


def test_rates_are_integers_with_valid_names() -> None:
    acc = replace(
        GPU, effective={f"{name}{more}": Ops(2e9) for name in "abcdefghij" for more in ("-sparse", "")}
    )
    found = [name for name in devices(node(acc))[0]["attributes"] if name.endswith("Gops")]
    assert found == [f"{name}Gops" for name in "abcdefghij"] + [f"{name}SparseGops" for name in "abcdef"]


def many(count: int) -> Inventory:
    return node(*(accelerator(f"pci:{n:04x}:01:00.0") for n in range(count)))


def test_more_devices_than_fit_in_one_slice() -> None:
    bodies = slices("n1", "uid-1", many(MOST_DEVICES + 1), [], 2)
    assert [len(body["spec"]["devices"]) for body in bodies] == [MOST_DEVICES, 1]
    assert [body["metadata"]["name"] for body in bodies] == ["n1-fairlead-0", "n1-fairlead-1"]
    assert {body["spec"]["pool"]["resourceSliceCount"] for body in bodies} == {2}


def test_names_of_slices_fit() -> None:
    long = f"{'a' * 200}.{'b' * 52}"
    other = f"{long[:-1]}c"
    names = [slices(name, "", node(GPU), [], 1)[0]["metadata"]["name"] for name in (long, other)]
    assert len(set(names)) == 2
    assert all(len(name) <= 253 and re.fullmatch(r"[a-z0-9.-]+-fairlead-0", name) for name in names)
    assert "ownerReferences" not in slices("n1", "", node(GPU), [], 1)[0]["metadata"]


def test_a_digest_changes_with_the_content() -> None:
    def one(acc: Accelerator, generation: int = 1) -> str:
        return spec_digest(slices("n1", "uid-1", node(acc), [], generation)[0])

    assert one(GPU) == one(GPU, generation=2)
    assert one(GPU) != one(replace(GPU, state=State.USABLE))


# On a real API server


def inventories(catalog: Catalog) -> dict[str, Inventory]:
    """Return the inventory of every test host."""
    found = {}
    for folder in sorted(HOSTS.glob("*/root")):
        host = Host(str(folder))
        found[folder.parent.name] = detect(host, catalog, read_gpus(host))
    return found


def arbitrary_nodes() -> Iterable[tuple[Inventory, tuple[Holding, ...]]]:
    """Return inventories with arbitrary texts, and holdings of parts of them."""
    found: list[tuple[Inventory, tuple[Holding, ...]]] = []

    @settings(max_examples=30, database=None)
    @given(strategies.held_nodes())
    def collect(each: tuple[Inventory, tuple[Holding, ...]]) -> None:
        found.append(each)

    collect()
    return found


def published(
    name: str, inventory: Inventory, holdings: tuple[Holding, ...]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the path and body of everything that a node publishes."""
    units = {
        offer.resource: str(min(offer.units, 2**62)) for offer in offers(inventory, holdings, OfferPlan())
    }
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels(inventory), **restricted_labels(inventory)},
            "annotations": {ALLOCATED: allocated_text(holdings)},
        },
        "status": {"capacity": units, "allocatable": units},
    }
    bodies = slices(name, "0b5c8a52-0000-4000-8000-000000000001", inventory, holdings, 1)
    return [("/api/v1/nodes", body), *(("/apis/resource.k8s.io/v1/resourceslices", each) for each in bodies)]


def test_a_real_server_accepts_what_every_host_publishes(real_cluster: RealCluster, catalog: Catalog) -> None:
    async def ask() -> int:
        bodies = [
            *(each for name, found in inventories(catalog).items() for each in published(name, found, ())),
            *(
                each
                for n, (found, held) in enumerate(arbitrary_nodes())
                for each in published(f"n{n}", found, held)
            ),
            *published("crowded", many(MOST_DEVICES + 1), ()),
        ]
        async with real_cluster.connect() as client:
            answers = [await _dry(client, path, body) for path, body in bodies]
        if real_cluster.api.lab is not None:  # an older server drops unknown fields
            kept = [sent["spec"] == came["spec"] for sent, came in answers if sent["kind"] == "ResourceSlice"]
            assert all(kept)
        return len(answers)

    assert asyncio.run(ask()) > 100


async def _dry(client: Client, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = await client.request("POST", path, query=query, body=json.dumps(body).encode())
    return body, json.loads(answer)

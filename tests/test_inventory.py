"""The inventory: the document of the contract, and RAM counted once."""

import json

from hypothesis import given

from fairlead.inventory import Accelerator, Engine, Evidence, Inventory, Link, Machine, State, Unknown
from fairlead.units import BitsPerSecond, Bytes, Ops, Watts
from tests import strategies

FULL = Accelerator(
    id="pci-0000-01-00-0",
    model="card",
    name="Card",
    vendor="Acme",
    kind="npu",
    state=State.USABLE,
    reason="no vital sign",
    confidence=0.98123,
    candidates=("card",),
    bus="pci:0000:01:00.0",
    memory=Bytes(1024),
    peak={"int8": Ops(1e12 / 3)},
    effective={"int8": Ops(1e11)},
    power=Watts(2.5),
    driver="acme",
    driver_version="1.0",
    uuid="GPU-1",
    link=Link(BitsPerSecond(1e9), BitsPerSecond(2e9)),
    engines=(Engine("dla0", "npu", State.PRESENT),),
    shareable=True,
    path="/sys/x",
    node="/dev/acme0",
    evidence=(Evidence("pci", "/sys/x", "is Card"),),
)


def test_the_document_of_an_accelerator() -> None:
    document = FULL.to_json()
    assert document["confidence"] == 0.98
    assert document["peak_ops"] == {"int8": 333333333333}
    assert document["link"] == {"bits_per_second": 10**9, "best_bits_per_second": 2 * 10**9}
    assert document["engines"] == [{"name": "dla0", "kind": "npu", "state": "present"}]
    assert document["evidence"] == [{"source": "pci", "path": "/sys/x", "says": "is Card"}]
    assert "path" not in document  # the path in sysfs is internal


def test_ram_is_counted_once() -> None:
    own = FULL
    shared = Accelerator(
        "gpu", "b", "B", "V", "gpu", State.HEALTHY, "", 0.9, ("b",), "platform:gpu", Bytes(4096), True
    )
    unsized = Accelerator("x", "c", "C", "V", "tpu", State.HEALTHY, "", 0.9, ("c",), "usb:1")
    assert Inventory(Machine(memory=Bytes(4096)), (own, shared, unsized)).total_memory() == 4096 + 1024
    assert Inventory(Machine()).total_memory() == 0


def test_the_document_of_an_empty_machine() -> None:
    assert Inventory(Machine()).to_json() == {
        "host": {
            "arch": None,
            "board": None,
            "compatible": [],
            "cpus": 0,
            "memory_bytes": None,
            "release": None,
            "problems": [],
        },
        "accelerators": [],
        "unknown": [],
    }


@given(strategies.inventories())
def test_any_inventory_is_a_json_document(inventory: Inventory) -> None:
    document = inventory.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["accelerators"]) == len(inventory.accelerators)


def test_the_document_of_an_unknown_device() -> None:
    unknown = Unknown("pci:0000:05:00.0", "abcd:0001", None, "class 1200")
    assert unknown.to_json() == {
        "bus": "pci:0000:05:00.0",
        "ids": "abcd:0001",
        "driver": None,
        "reason": "class 1200",
    }

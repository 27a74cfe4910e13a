"""CDI specs: what the specification allows, and how a runtime applies them."""

import json
import re
from pathlib import Path

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.host import Host
from fairlead.offer import DeviceNode, Grant
from fairlead.publish.access import ENVIRONMENT, grant
from fairlead.publish.cdi import (
    accelerator_device,
    accelerators_spec,
    canonical,
    claim_device,
    claim_spec,
    digest,
)
from tests.accelerators import accelerator

HOSTS = Path(__file__).parent.parent / "hosts"
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def assert_valid(document: dict[str, object]) -> None:
    """Check the rules of the specification, and that only nodes and environment are set."""
    assert set(document) == {"cdiVersion", "kind", "devices"}
    devices = document["devices"]
    assert isinstance(devices, list)
    host_paths = False
    for device in devices:
        assert set(device) == {"name", "containerEdits"}
        assert _NAME.fullmatch(device["name"])
        edits = device["containerEdits"]
        assert edits.get("env") or edits.get("deviceNodes"), "a device without edits is refused"
        assert set(edits) <= {"env", "deviceNodes"}
        for text in edits.get("env", ()):
            name, _, value = text.partition("=")
            assert any(re.fullmatch(pattern, name) for pattern in ENVIRONMENT)
            assert value.isprintable()
        for node in edits.get("deviceNodes", ()):
            assert set(node) - {"hostPath", "type", "major", "minor"} == {"path", "permissions"}
            assert node["path"].startswith("/dev/")
            host_paths |= "hostPath" in node
    assert document["cdiVersion"] == ("0.5.0" if host_paths else "0.3.0")


def test_every_machine(catalog: Catalog) -> None:
    for folder in sorted(HOSTS.glob("*/root")):
        host = Host(str(folder))
        real = [acc for acc in detect(host, catalog).accelerators if acc.kind != "cpu"]
        for root in ("", "/host"):
            granted = {acc.id: grant(acc, host, resource="fairlead.dev/x", device_root=root) for acc in real}
            document = accelerators_spec(granted)
            assert_valid(document)
            assert [device["name"] for device in document["devices"]] == sorted(granted)
            assert_valid(claim_spec("0b5c", granted))


def test_accelerators() -> None:
    apex = Grant({"FAIRLEAD_MODEL": "coral-pcie"}, (DeviceNode("/dev/apex_0", "/dev/apex_0"),))
    stick = Grant({"FAIRLEAD_MODEL": "coral-usb"}, (DeviceNode("/dev/bus/usb/001/002", "/h/dev/x", 189, 0),))
    assert accelerators_spec({"usb-1-1": stick, "pci-1": apex}) == {
        "cdiVersion": "0.5.0",
        "kind": "fairlead.dev/accelerator",
        "devices": [
            {
                "name": "pci-1",
                "containerEdits": {
                    "env": ["FAIRLEAD_ACCELERATOR_PCI_1=coral-pcie"],
                    "deviceNodes": [{"path": "/dev/apex_0", "permissions": "rw"}],
                },
            },
            {
                "name": "usb-1-1",
                "containerEdits": {
                    "env": ["FAIRLEAD_ACCELERATOR_USB_1_1=coral-usb"],
                    "deviceNodes": [
                        {
                            "path": "/dev/bus/usb/001/002",
                            "hostPath": "/h/dev/x",
                            "type": "c",
                            "major": 189,
                            "minor": 0,
                            "permissions": "rw",
                        }
                    ],
                },
            },
        ],
    }
    assert accelerator_device("pci-1") == "fairlead.dev/accelerator=pci-1"


def test_a_claim() -> None:
    uid = "3f1c8a52-0000-4000-8000-000000000001"
    entries = {"gpu/big one": Grant({"FAIRLEAD_SHARE": "s", "FAIRLEAD_MEMORY_MIB": "5"})}
    document = claim_spec(uid, entries)
    assert document["devices"] == [
        {
            "name": f"claim-{uid}-gpu-big-one",
            "containerEdits": {"env": ["FAIRLEAD_MEMORY_MIB=5", "FAIRLEAD_SHARE=s"]},
        }
    ]
    assert claim_device(uid, "gpu/big one") == f"fairlead.dev/claim=claim-{uid}-gpu-big-one"
    assert document["cdiVersion"] == "0.3.0"


def test_the_same_content_is_the_same_bytes() -> None:
    one, other = {"a": 1, "b": [2]}, {"b": [2], "a": 1}
    assert canonical(one) == canonical(other) == b'{"a":1,"b":[2]}\n'
    assert digest(one) == digest(other) != digest({})
    assert json.loads(canonical(one)) == one
    assert accelerators_spec({accelerator().id: Grant()})["devices"]

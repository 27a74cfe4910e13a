"""Every host below tests/hosts, replayed, and compared with the expected result beside it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capture import RecordingHost, open_capture, read_gpus, write_capture
from fairlead.host import Host
from fairlead.inventory import Inventory, State
from fairlead.publish.labels import labels, legacy_labels
from tests.soundness import without_evidence

HOSTS = Path(__file__).parent / "hosts"
NAMES = sorted(entry.name for entry in HOSTS.iterdir() if (entry / "expected.json").exists())
LARGEST = 512 * 1024
"""Bytes of files in one host: the files that discovery reads, and nothing else."""

ABOUT = {"about", "source", "accelerators", "unknown", "labels_have", "legacy_labels"}
BOUNDS = {"confidence_min", "confidence_max", "reason_has", "evidence_has"}


def look(name: str, catalog: Catalog) -> Inventory:
    host = Host(str(HOSTS / name / "root"))
    return detect(host, catalog, read_gpus(host))


def expected(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HOSTS / name / "expected.json").read_text())
    assert set(document) <= ABOUT, "a misspelt key would check nothing"
    return document


def differences(device: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return how a device differs from the expected one."""
    assert set(wanted) - BOUNDS <= set(device), "a misspelt key would check nothing"
    says = " | ".join(f"{item['path']}: {item['says']}" for item in device.get("evidence", ()))
    faults = [
        f"{key} is {device[key]!r}" for key in wanted if key in device and not same(device[key], wanted[key])
    ]
    if device.get("confidence", 0) < wanted.get("confidence_min", 0):
        faults.append(f"confidence is only {device['confidence']}")
    if device.get("confidence", 0) > wanted.get("confidence_max", 1):
        faults.append(f"confidence is as much as {device['confidence']}")
    if wanted.get("reason_has", "") not in device["reason"]:
        faults.append(f"reason is {device['reason']!r}")
    return faults + [
        f"{text!r} is not in {says}" for text in wanted.get("evidence_has", ()) if text not in says
    ]


def same(value: object, wanted: object) -> bool:
    """Compare two values; of a table, only the expected entries."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(key in value and same(value[key], item) for key, item in wanted.items())
    return value == (pytest.approx(wanted) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("name", NAMES)
def test_the_inventory_of_the_host(name: str, catalog: Catalog) -> None:
    wanted = expected(name)
    document = look(name, catalog).to_json()
    cpus = any(acc.get("kind") == "cpu" for acc in wanted["accelerators"])
    accelerators = [acc for acc in document["accelerators"] if cpus or acc["kind"] != "cpu"]

    assert [acc["id"] for acc in accelerators] == [acc["id"] for acc in wanted["accelerators"]]
    assert [item["ids"] for item in document["unknown"]] == [item["ids"] for item in wanted["unknown"]]
    pairs = zip(
        [*accelerators, *document["unknown"]], [*wanted["accelerators"], *wanted["unknown"]], strict=True
    )
    assert [fault for one, other in pairs for fault in differences(one, other)] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_labels_of_the_host(name: str, catalog: Catalog) -> None:
    wanted = expected(name)
    inventory = look(name, catalog)
    node_labels = labels(inventory)

    assert {key: node_labels.get(key) for key in wanted.get("labels_have", {})} == wanted.get(
        "labels_have", {}
    )
    assert legacy_labels(inventory) == wanted.get("legacy_labels", legacy_labels(inventory))


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_host_replays_identically(name: str, catalog: Catalog, tmp_path: Path) -> None:
    first = RecordingHost(str(HOSTS / name / "root"))
    tarball = str(tmp_path / "host.tar.gz")
    gpus = read_gpus(first)
    write_capture(tarball, lambda host: detect(host, catalog, gpus), first, gpus)
    with open_capture(tarball) as root:
        again = Host(root)
        replayed = detect(again, catalog, read_gpus(again))

    assert _without_uuids(replayed) == _without_uuids(look(name, catalog))


def _without_uuids(inventory: Inventory) -> Inventory:
    """Return an inventory without the UUIDs that a capture scrubs."""
    bare = without_evidence(inventory)
    return replace(
        bare,
        accelerators=tuple(
            replace(acc, uuid=None, mig=replace(acc.mig, parent_uuid="") if acc.mig else None)
            for acc in bare.accelerators
        ),
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_host_is_small_and_has_a_source(name: str) -> None:
    wanted = expected(name)
    assert wanted["about"].endswith(".")
    assert wanted["source"].startswith(("written by hand after ", "captured on "))
    size = 0
    for folder, folders, files in os.walk(HOSTS / name):
        assert folders or files, f"git would drop the empty folder {folder}"
        size += sum(os.lstat(os.path.join(folder, file)).st_size for file in files)
    assert size < LARGEST


def test_a_coral_stick_keeps_its_id_when_its_firmware_is_loaded(catalog: Catalog) -> None:
    before = look("coral-usb-before-firmware", catalog).accelerators[0]
    after = look("coral-usb-after-firmware", catalog).accelerators[0]

    assert before.node != after.node, "the stick re-enumerates"
    assert before.id == after.id


def test_the_hosts_cover_all_four_states(catalog: Catalog) -> None:
    states = [name for name in NAMES if name.startswith("coral-pcie-") and name[11].isdecimal()]

    assert [look(name, catalog).accelerators[0].state for name in states] == list(State)
    assert len({look(name, catalog).accelerators[0].id for name in states}) == 1

"""The accelerators of a node: its agent's list decides, whatever the slices leave out."""

from dataclasses import replace
from typing import Any

import msgspec

from fairlead.inventory import MigPartition
from fairlead.keys import DEVICES
from fairlead.manifest.node.state import read_node
from fairlead.manifest.types import kubernetes
from fairlead.manifest.types.dra import Slice
from fairlead.publish.devices import devices
from fairlead.publish.labels import labels
from fairlead.publish.slices import slices
from fairlead.units import Bytes
from tests import accelerators
from tests.manifest.worlds import CATALOG

T4 = [
    accelerators.accelerator(
        f"pci:0000:0{bus}:00.0", kind="gpu", vendor="NVIDIA", model="t4", mebibytes=15360
    )
    for bus in (1, 2)
]
INVENTORY = accelerators.node(*T4)


def manifest(annotations: dict[str, str], **labels: str) -> kubernetes.Node:
    document: dict[str, Any] = {"metadata": {"name": "n", "annotations": annotations, "labels": labels}}
    return msgspec.convert(document, kubernetes.Node)


def listed(*bodies: dict[str, Any]) -> list[Slice]:
    return [msgspec.convert(body, Slice) for body in bodies]


def test_the_list_of_an_agent_takes_precedence_over_slices() -> None:
    (part,) = listed(*slices("n", "", accelerators.node(T4[0]), (), 1))
    devices_ = read_node("n", manifest({DEVICES: devices(INVENTORY, ())}), [part], CATALOG).devices
    assert [(each.id, each.model, each.memory >> 20, each.shareable) for each in devices_] == [
        (each.id, "t4", 15360, True) for each in T4
    ]


def test_with_an_empty_or_invalid_list_the_slices_decide() -> None:
    whole = listed(*slices("n", "", INVENTORY, (), 1))
    for text in ("[]", "nonsense"):
        devices_ = read_node("n", manifest({DEVICES: text}), whole, CATALOG).devices
        assert [each.id for each in devices_] == [each.id for each in T4]


def test_labels_that_count_more_than_a_slice_names_add_nothing_to_it() -> None:
    whole = listed(*slices("n", "", accelerators.node(T4[1]), (), 1))
    state = read_node("n", manifest({}, **labels(INVENTORY)), whole, CATALOG)
    assert ([device.id for device in state.devices], state.counted) == ([T4[1].id], False)
    state = read_node("n", manifest({}, **labels(INVENTORY)), [], CATALOG)
    assert ([device.id for device in state.devices], state.counted) == (["t4-0", "t4-1"], True)


def test_a_mig_instance_is_a_model_of_its_own_with_the_precisions_of_its_gpu() -> None:
    mig = MigPartition("1g.2gb", 9, 0, T4[0].id, "GPU-1", 1 / 7, 1 / 8)
    part = replace(T4[0], id=f"{T4[0].id}-mig-1g-2gb-9-0", mig=mig, memory=Bytes(2 << 30))
    inventory = accelerators.node(replace(T4[0], mig_instances=1), part)
    whole = listed(*slices("n", "", accelerators.node(part), (), 1))
    for annotations, node_labels, slices_ in (
        ({DEVICES: devices(inventory, ())}, {}, []),
        ({}, {}, whole),
        ({}, labels(inventory), []),
    ):
        (device,) = read_node("n", manifest(annotations, **node_labels), slices_, CATALOG).devices
        assert (device.model, device.memory, device.shareable) == ("t4-mig-1g.2gb", 2 << 30, True)
        assert "fp16" in device.precisions
        assert "Gops" not in device.offered  # the rates of the whole GPU are not those of the instance

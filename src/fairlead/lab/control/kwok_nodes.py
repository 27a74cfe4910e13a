"""The Node manifests of a fleet, for kwok: each group's inventory, its labels and its resources."""

from datetime import datetime
from typing import Any, Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.compat.times import UTC
from fairlead.inventory import Accelerator, Engine, Inventory, Machine, State
from fairlead.keys import GPU_MEM, PREFIX
from fairlead.lab.control.commands import KWOK_ANNOTATION
from fairlead.lab.control.fleet import ARCHITECTURES, Fleet, FleetDevice, NodeGroup
from fairlead.publish.labels import labels
from fairlead.units import Bytes

_ADDRESS: Final = "10.0.0.1"
"""The address that kwok gives to all of its nodes; no kubelet listens there."""
_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
)
_INFO: Final = {
    "bootID": "",
    "containerRuntimeVersion": "kwok",
    "kernelVersion": "kwok",
    "kubeProxyVersion": "",
    "kubeletVersion": "kwok",
    "machineID": "",
    "osImage": "kwok",
    "systemUUID": "",
}


def inventory(group: NodeGroup, catalog: Catalog) -> Inventory:
    """Return the inventory that discovery would find on a node of the group, with every device healthy."""
    accelerators = [
        _accelerator(fleet_device, index, group.memory)
        for fleet_device in group.devices
        for index in range(fleet_device.count)
    ]
    cpu = catalog.by_cpu(group.arch, frozenset())
    if cpu is not None and not any(accelerator.kind == "cpu" for accelerator in accelerators):
        accelerators.append(_accelerator(FleetDevice(cpu, 1), 0, group.memory))
    machine = Machine(arch=group.arch, board=group.board or None, cpus=group.cpu, memory=group.memory)
    return Inventory(machine, tuple(accelerators))


def _accelerator(fleet_device: FleetDevice, index: int, ram: Bytes) -> Accelerator:
    device = fleet_device.device
    bus, address = _bus_address(device, index)
    return Accelerator(
        id=f"{bus}-{device.id}-{index}",
        model=device.id,
        name=device.name,
        vendor=device.vendor,
        kind=device.kind,
        state=State.HEALTHY,
        reason="",
        confidence=0.99,
        candidates=(device.id,),
        bus=f"{bus}:{address}",
        memory=fleet_device.memory or (ram if device.unified else device.memory),
        unified_memory=device.unified,
        peak=device.peak,
        effective=device.peak,
        power=device.power,
        driver=next((driver.name for driver in device.drivers if driver.name), None),
        engines=tuple(
            Engine(f"{engine.name}{number}", engine.kind, State.USABLE)
            for engine in device.engines
            for number in range(engine.count)
        ),
        shareable=device.shareable,
    )


def _bus_address(device: CatalogDevice, index: int) -> tuple[str, str]:
    """Return a bus on which the device could sit, and an address there."""
    if device.kind == "cpu":
        return "cpu", str(index)
    if device.match.usb:
        return "usb", f"1-1.{index + 1}"
    if device.match.pci:
        return "pci", f"0000:{index + 1:02x}:00.0"
    return "platform", f"{index}.{device.kind}"


def resources(inventory: Inventory) -> dict[str, int]:
    """Return the extended resources of a node: whole devices by model, and shareable memory in MiB."""
    totals: dict[str, int] = {}
    for acc in inventory.accelerators:
        if acc.kind == "cpu" or not acc.state.allocatable:
            continue
        totals[f"{PREFIX}{acc.model}"] = totals.get(f"{PREFIX}{acc.model}", 0) + 1
        if acc.shareable and acc.memory:
            totals[GPU_MEM] = totals.get(GPU_MEM, 0) + (acc.memory >> 20)
    return totals


def manifests(fleet: Fleet, catalog: Catalog, now: datetime | None = None) -> list[dict[str, Any]]:
    """Return the Node manifest of every node of a fleet.

    The nodes are created ready: kwok would set their conditions, too, but takes half a minute for 5,000.
    """
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, status, reason in _CONDITIONS
    ]
    return [manifest for group in fleet.groups for manifest in _nodes(group, catalog, conditions)]


def _nodes(group: NodeGroup, catalog: Catalog, conditions: list[dict[str, str]]) -> list[dict[str, Any]]:
    node_inventory = inventory(group, catalog)
    arch = ARCHITECTURES[group.arch]
    common = _labels(group, arch, node_inventory)
    more = {**resources(node_inventory), **group.resources}
    amounts = {
        "cpu": str(group.cpu),
        "memory": str(group.memory),
        "pods": str(group.pods),
        **{name: str(amount) for name, amount in more.items()},
    }
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": conditions,
        "nodeInfo": {"architecture": arch, "operatingSystem": "linux", **_INFO},
    }
    return [_node(name, common, status) for name in group.node_names()]


def _labels(group: NodeGroup, arch: str, node_inventory: Inventory) -> dict[str, str]:
    return {
        "kubernetes.io/arch": arch,
        "kubernetes.io/os": "linux",
        # If these are missing, the controller manager adds them: one more write for each node.
        "beta.kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "type": "kwok",
        **labels(node_inventory),
        **group.labels,
    }


def _node(name: str, common: dict[str, str], status: dict[str, Any]) -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": _ADDRESS}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": dict([KWOK_ANNOTATION]),
            "labels": {**common, "kubernetes.io/hostname": name},
        },
        "status": {**status, "addresses": addresses},
    }

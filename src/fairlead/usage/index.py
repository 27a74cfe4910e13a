"""Which accelerator and which pod a series is about: labels of any exporter to our keys. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.annotations import MIG
from fairlead.units import Bytes
from fairlead.use import DeviceKey

_UNKNOWN: Final = Bytes(0)
_NO_NAMES: Final[Mapping[str, str]] = {}
_NO_PODS: Final[Mapping[tuple[str, str], str]] = {}
_PCI: Final = "pci-"


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """An accelerator of the cluster, with the names that exporters give it."""

    key: DeviceKey
    uuid: str = ""
    pci: str = ""
    """The PCI address in any spelling; empty: taken from the id, if that is one."""
    vendor: str = ""
    memory: Bytes = _UNKNOWN
    """0: unknown."""


class DeviceIndex:
    """The accelerators and pods that the caller knows."""

    def __init__(
        self,
        devices: Iterable[KnownDevice] = (),
        hosts: Mapping[str, str] = _NO_NAMES,
        pods: Mapping[tuple[str, str], str] = _NO_PODS,
        *,
        known_only: bool = True,
    ) -> None:
        """`hosts`: nodes by other names and addresses; `pods`: uids of pods that hold shares, by their names.

        Without `known_only`, an unknown accelerator keeps the node and id that its series carry.
        """
        self._hosts = hosts
        self._pods = pods
        self._known_only = known_only
        self._keys: dict[tuple[str, str], DeviceKey] = {}
        self._by_uuid: dict[str, DeviceKey] = {}
        self._memory: dict[DeviceKey, int] = {}
        self._nodes: set[str] = set()
        nvidia: dict[str, list[tuple[str, DeviceKey]]] = {}
        for device in devices:
            self._add(device, nvidia)
        for node, gpus in nvidia.items():  # NVML numbers the GPUs of a machine by their PCI addresses
            for number, (_, key) in enumerate(sorted(set(gpus))):
                self._keys[node, f"gpu {number}"] = key

    def __len__(self) -> int:
        return len(self._memory)

    def _add(self, device: KnownDevice, nvidia: dict[str, list[tuple[str, DeviceKey]]]) -> None:
        key = device.key
        self._nodes.add(key.node)
        self._memory[key] = device.memory
        self._keys[key] = key
        if device.uuid:
            self._by_uuid[device.uuid] = key
        parent, mig, instance = key.device.partition(MIG)
        address = pci_id(device.pci) or (parent if parent.startswith(_PCI) else "")
        if address and mig:
            self._keys[key.node, f"{address} gi {gpu_instance(instance)}"] = key
            nvidia.setdefault(key.node, []).append((address, DeviceKey(key.node, parent)))
        elif address:
            self._keys[key.node, address] = key
            if device.vendor in ("", "NVIDIA"):
                nvidia.setdefault(key.node, []).append((address, key))

    def node(self, *names: str) -> str:
        """Return the node that the first known name stands for; empty: none is known."""
        for name in names:
            if name:
                if name in self._nodes:
                    return name
                host = name.rpartition(":")[0] if name.rpartition(":")[2].isdecimal() else name
                node = self._hosts.get(host.strip("[]"))
                if node is not None:
                    return node
                if host in self._nodes:
                    return host
        return "" if self._known_only else next(filter(None, names), "")

    def device(
        self, node: str, identity: str, pci: str = "", number: str = "", instance: str = ""
    ) -> DeviceKey | None:
        """Return the accelerator of an id or UUID, a PCI address, or NVML's number; None: it is unknown.

        `instance` is the number of a GPU instance: where its MIG instance is a device of its own, that one.
        """
        key = self._instance(node, pci, number, instance) if instance else None
        key = key or self._keys.get((node, identity)) or self._by_uuid.get(identity)
        if key is None and node:
            key = (pci and self._keys.get((node, pci_id(pci)))) or (
                (number and self._keys.get((node, f"gpu {number}"))) or None
            )
        if key is None and not self._known_only and identity:
            return DeviceKey(node, identity)
        return key if key in self._memory else None

    def _instance(self, node: str, pci: str, number: str, instance: str) -> DeviceKey | None:
        gpu = self._keys.get((node, f"gpu {number}"))
        address = pci_id(pci) or (gpu.device if gpu else "")
        return self._keys.get((node, f"{address} gi {instance}"))

    def pod(self, namespace: str, name: str) -> str:
        """Return the uid of a pod that holds shares of accelerators; empty: it is unknown."""
        return self._pods.get((namespace, name), "")

    def memory(self, key: DeviceKey) -> int:
        """Return the memory of an accelerator; 0: unknown."""
        return self._memory.get(key, 0)


def gpu_instance(end: str) -> str:
    """Return the number of the GPU instance from the end of an id, `1g-18gb-9-0`: 9."""
    return end.rpartition("-")[0].rpartition("-")[2]


def pci_id(address: str) -> str:
    """Return a PCI address as the id of an accelerator: `00000000:3B:00.0` is `pci-0000-3b-00-0`."""
    parts = (
        address.lower().removeprefix("pci:").removeprefix(_PCI).replace(".", ":").replace("-", ":").split(":")
    )
    if len(parts) == 3:
        parts.insert(0, "0")
    if len(parts) != 4:
        return ""
    try:
        domain, bus, slot, function = (int(part, 16) for part in parts)
    except ValueError:
        return ""
    return f"{_PCI}{domain:04x}-{bus:02x}-{slot:02x}-{function:x}"

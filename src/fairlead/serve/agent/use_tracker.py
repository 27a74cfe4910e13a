"""The use of accelerators by pod: read from the attribution program, with names and peaks added."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.attribution import NVMAP, USE_SOCKET
from fairlead.attribution.client import ContainerShare, DeviceShares, read_use
from fairlead.errors import AttributionError
from fairlead.inventory import Accelerator, Inventory
from fairlead.serve.agent.container_names import LINKS, ContainerName, container_names
from fairlead.units import Bytes
from fairlead.use import AttributedUse, ContainerUse

_INSTANCE: Final = "MIG-"
"""What the UUID of a MIG instance begins with."""
_UNNAMED: Final = ContainerName("", "", "")


@dataclass(frozen=True, slots=True)
class _Peak:
    """The largest use of a container, and the pod's name, by which the end of the pod is seen."""

    memory: Bytes
    name: ContainerName


class UseTracker:
    """Reads the use at every sample, and keeps the peak of each container while its pod lives."""

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        links: Path = LINKS,
        read: Callable[[Path], Sequence[DeviceShares]] = read_use,
    ) -> None:
        self._socket = folder / USE_SOCKET
        self._links = links
        self._read = read
        self._say = say
        self._problem = ""
        self._peaks: dict[tuple[str, str, str], _Peak] = {}
        """By the pod's uid, the container's name and the accelerator."""

    def use(self, inventory: Inventory) -> AttributedUse:
        """Return the present use; a reading that fails returns none, and the peaks stay."""
        try:
            devices = self._read(self._socket)
        except AttributionError as error:
            self._log(f"the use by pod cannot be read: {error}; {error.hint}")
            return AttributedUse()
        self._log("")
        names = container_names(self._links)
        uses: list[ContainerUse] = []
        foreign: dict[str, Bytes] = {}
        for device in devices:
            acc = accelerator_of(device, inventory)
            if acc is None:
                continue
            if device.foreign is not None:
                foreign[acc.id] = device.foreign
            uses += [self._container_use(acc, row, name) for row, name in _named(device.containers, names)]
        self._forget(names, uses)
        return AttributedUse(up=True, containers=tuple(uses), foreign=foreign)

    def _container_use(self, acc: Accelerator, row: ContainerShare, name: ContainerName) -> ContainerUse:
        key = (row.pod, name.container, acc.id)
        before = self._peaks.get(key)
        if row.memory is not None:
            largest = row.memory if before is None else max(row.memory, before.memory)
            before = self._peaks[key] = _Peak(largest, name)
        peak = None if before is None else before.memory
        return ContainerUse(row.pod, acc.id, *name, memory=row.memory, peak=peak, busy=row.busy)

    def _forget(self, names: Mapping[str, ContainerName], uses: Sequence[ContainerUse]) -> None:
        """Drop the peaks of pods that have ended, or that another pod of the same name replaces."""
        present = {use.pod_uid for use in uses}
        replaced = {(use.namespace, use.pod) for use in uses}
        alive = {(name.namespace, name.pod) for name in names.values()} - replaced
        self._peaks = {
            key: peak
            for key, peak in self._peaks.items()
            if key[0] in present or (peak.name.namespace, peak.name.pod) in alive
        }

    def _log(self, problem: str) -> None:
        """Log a problem once, and its end."""
        if problem != self._problem:
            self._say(problem or "the use by pod is read again")
        self._problem = problem


def accelerator_of(device: DeviceShares, inventory: Inventory) -> Accelerator | None:
    """Return the accelerator that a device is: by its uuid, by its address, or a Jetson's one GPU."""
    accs = inventory.accelerators
    by_uuid = [acc for acc in accs if device.uuid and acc.uuid == device.uuid]
    instance = device.uuid.startswith(_INSTANCE)  # one that is not in the inventory yet is not its GPU
    by_bus = [acc for acc in accs if acc.bus == device.bus and not acc.mig and not instance]
    in_soc = [acc for acc in accs if acc.vendor == "NVIDIA" and acc.kind == "gpu" and acc.unified_memory]
    return next(iter([*by_uuid, *by_bus, *(in_soc if device.bus == NVMAP else [])]), None)


def _named(
    rows: Sequence[ContainerShare], names: Mapping[str, ContainerName]
) -> list[tuple[ContainerShare, ContainerName]]:
    """Return each container with its names; what the names do not tell apart is added up.

    A process outside the pod's containers has only the names of the pod.
    """
    by_pod = {row.pod: names[row.container] for row in rows if row.container in names}
    sums: dict[tuple[str, ContainerName], ContainerShare] = {}
    for row in rows:
        name = names.get(row.container) or by_pod.get(row.pod, _UNNAMED)._replace(container="")
        before = sums.get((row.pod, name))
        sums[row.pod, name] = _added(before, row) if before else row
    return [(row, name) for (_, name), row in sums.items()]


def _added(one: ContainerShare, other: ContainerShare) -> ContainerShare:
    """Return the sum; what is not measured of one is not measured of both."""
    memory = None if one.memory is None or other.memory is None else Bytes(one.memory + other.memory)
    busy = None if one.busy is None or other.busy is None else min(1.0, one.busy + other.busy)
    return one._replace(memory=memory, busy=busy)

"""LocalMachine: the accelerators, cores and RAM of this machine, as they are at each call."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory
from fairlead.ledger.liveness import seconds_since_boot
from fairlead.local.machine import inventory_cache
from fairlead.local.machine.inventory_cache import DRIVER_SIGNS, GPUS, CachedInventory
from fairlead.local.machine.limits import CpuReading, read_cpu, read_ram, used_between
from fairlead.local.view import DeviceView, MachineView
from fairlead.units import Bytes

if TYPE_CHECKING:
    from fairlead.local.machine.devices import DeviceReader
    from fairlead.local.machine.nvml_process import NvmlAnswer, NvmlProcess
    from fairlead.nvml import Gpu

_SHORTEST: Final = 0.5
"""Seconds between two readings of the cores' time: the kernel counts it in hundredths of a second."""
_OLDEST: Final = 600.0
"""Seconds for which a scan counts: its signs do not show everything, such as a chip's temperature."""
_OLDEST_FAULTY: Final = 10.0
"""Seconds for which a scan counts that NVML did not help with, or that found a faulty GPU."""


class PrivateFolder(Protocol):
    """The part of a state directory that the machine uses."""

    @property
    def private(self) -> str:
        """The user's own folder."""


class LocalMachine:
    """The machine of this process; NVML and counters stay open between two calls."""

    def __init__(
        self,
        host: Host,
        place: PrivateFolder | None,
        environ: Mapping[str, str] | None = None,
        nvml: "NvmlProcess | None" = None,
    ) -> None:
        """Read nothing yet; without `nvml` the system's library is used."""
        self._host, self._nvml = host, nvml
        self._environ = os.environ if environ is None else environ
        self._cache = os.path.join(place.private, inventory_cache.FILE) if place else ""
        self._cached: CachedInventory | None = None
        self._reader: DeviceReader | None = None
        self._cpu: tuple[float, CpuReading] | None = None
        self._cpu_used: int | None = None

    def prepare(self) -> bool:
        """Let NVML start in its own process, while this one does other work; False: no driver needs it."""
        return self._ask() is not None

    def inventory(self) -> Inventory:
        """Return what the machine has, its processor included: from the user's cache, or from a scan."""
        return self._inventory(self._answer())

    def view(self) -> MachineView:
        """Return the machine as it is now."""
        at = seconds_since_boot()
        answer = self._answer()
        inventory = self._inventory(answer)
        accelerators = [acc for acc in inventory.accelerators if acc.kind != "cpu"]
        ram, cpu = read_ram(self._host), read_cpu(self._host, inventory.machine.cpus)
        return MachineView(
            at=at,
            machine=inventory.machine,
            devices=self._devices(accelerators, answer),
            cpu=cpu.cpu,
            cpu_used=self._measure_cpu(cpu, at),
            memory=ram.total,
            memory_available=ram.available,
            problems=tuple(_problems(accelerators, answer)),
        )

    def held(
        self, devices: Collection[str], members: Callable[[], Collection[int]]
    ) -> Mapping[str, Mapping[int, Bytes]]:
        """Return the memory of processes on accelerators, by their ids: far less work than a view.

        An accelerator whose processes are not known now is absent; before the first view, all are. `members`
        are the processes whose files are read where a driver lists none.
        """
        known = self._cached.inventory.accelerators if self._cached else ()
        accelerators = [acc for acc in known if acc.id in devices]
        names = [acc.uuid or acc.bus for acc in _by_nvml(accelerators)]
        listed = self._nvml.processes(names) if names and self._nvml else None
        if names and listed is None:
            accelerators = [acc for acc in accelerators if acc.driver != "nvidia"]
        return self._open().held(accelerators, listed or (), members) if accelerators else {}

    def close(self) -> None:
        """Release the drivers."""
        if self._nvml:
            self._nvml.close()

    def _answer(self) -> "NvmlAnswer | None":
        """Return NVML's report; None where the NVIDIA driver is not loaded, which NVML would load."""
        nvml = self._ask()
        if nvml is None:
            return None
        self._open()  # its imports take as long as NVML's own process needs for its start
        return nvml.read()

    def _ask(self) -> "NvmlProcess | None":
        if not self._host.here or not any(self._host.exists(sign) for sign in DRIVER_SIGNS):
            return None
        from fairlead.local.machine.nvml_process import NvmlProcess  # noqa: PLC0415  # not for CPUs alone

        self._nvml = self._nvml or NvmlProcess()
        self._nvml.ask(self._host.names(GPUS))
        return self._nvml

    def _inventory(self, answer: "NvmlAnswer | None") -> Inventory:
        if self._cached is None and self._cache:
            self._cached = inventory_cache.load(self._cache)
        signs = inventory_cache.machine_signs(self._host, self._environ)
        if self._cached is not None and self._is_true(self._cached, signs, answer):
            return self._cached.inventory
        inventory = self._scan(answer.gpus if answer else None)
        signs = (*signs, *inventory_cache.device_signs(self._host, inventory))
        self._cached = CachedInventory(seconds_since_boot(), signs, inventory)
        if self._cache and _is_lasting(answer):
            inventory_cache.store(self._cache, self._cached)
        return inventory

    def _is_true(self, cached: CachedInventory, signs: Sequence[str], answer: "NvmlAnswer | None") -> bool:
        age = seconds_since_boot() - cached.at
        oldest = _OLDEST if _is_lasting(answer) else _OLDEST_FAULTY
        if not 0 <= age < oldest or not _has_all(cached.inventory, answer):
            return False
        return cached.signs == (*signs, *inventory_cache.device_signs(self._host, cached.inventory))

    def _scan(self, gpus: "Sequence[Gpu] | None") -> Inventory:
        from fairlead.local.machine.scan import scan  # noqa: PLC0415  # a scan is rare, and its imports are slow

        return inventory_cache.plain(scan(self._host, gpus))

    def _open(self) -> "DeviceReader":
        if self._reader is None:
            from fairlead.local.machine.devices import DeviceReader  # noqa: PLC0415  # slow; not for CPUs alone

            self._reader = DeviceReader(self._host)
        return self._reader

    def _devices(
        self, accelerators: Sequence[Accelerator], answer: "NvmlAnswer | None"
    ) -> tuple[DeviceView, ...]:
        return self._open().views(accelerators, answer) if accelerators else ()

    def _measure_cpu(self, now: CpuReading, at: float) -> int | None:
        if self._cpu is None or at - self._cpu[0] >= _SHORTEST:
            if self._cpu is not None:
                self._cpu_used = used_between(self._cpu[1], now, at - self._cpu[0])
            self._cpu = at, now
        return self._cpu_used


def _problems(accelerators: Sequence[Accelerator], answer: "NvmlAnswer | None") -> list[str]:
    """Return what NVML does not tell; the GPU of a Jetson is measured without it."""
    if answer is None or answer.failure is None or (accelerators and not _by_nvml(accelerators)):
        return []
    return [answer.failure.reason]


def _by_nvml(accelerators: Sequence[Accelerator]) -> list[Accelerator]:
    return [acc for acc in accelerators if acc.driver == "nvidia"]


def _has_all(inventory: Inventory, answer: "NvmlAnswer | None") -> bool:
    """Say whether an inventory has the GPUs and MIG instances that NVML reports now, and no others."""
    if answer is None or answer.failure:
        return True
    unlisted = {device.bus for device in inventory.unknown}
    gpus = {gpu.uuid for gpu in answer.gpus if gpu.uuid and f"pci:{gpu.address}" not in unlisted}
    instances = {instance.uuid for gpu in answer.gpus for instance in gpu.instances}
    known = inventory.accelerators
    return gpus <= {acc.uuid for acc in known} and instances == {acc.uuid for acc in known if acc.mig}


def _is_lasting(answer: "NvmlAnswer | None") -> bool:
    """Say whether a scan may count for later commands: not one with a fault that a reset can heal."""
    if answer is None:
        return True
    return answer.failure is None and not any(gpu.fault for gpu in answer.gpus)

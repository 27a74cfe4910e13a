"""An open session with NVML."""

import ctypes
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from fairlead.nvml.health import XidEvents, read_health, remap_failed, uncorrected_errors
from fairlead.nvml.library import Handle, NvmlLibrary, Pci, Utilization, read_memory
from fairlead.nvml.mig import instance_place, is_instance, read_mig, read_mig_handle
from fairlead.nvml.processes import read_busy, read_processes
from fairlead.nvml.types import Gpu, GpuProcess, GpuReading, Health, ProcessBusy
from fairlead.units import Celsius, Hertz, Watts

LIBRARY: Final = "libnvidia-ml.so.1"
DRIVER_SIGNS: Final = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
"""One of these exists where the driver is loaded, which NVML would load otherwise; the last is Windows' GPU
inside WSL."""
_TEMPERATURE_GPU: Final = 0
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_COMPUTE_PROHIBITED: Final = 2
"""NVML_COMPUTEMODE_PROHIBITED."""
_NOTHING: Final = GpuReading(None, None, None, None, None, None, None, None, None, None)
_LOST: Final = replace(_NOTHING, health=Health(lost=True))


class Nvml:
    """An open session with NVML."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = NvmlLibrary(library)
        self._events: XidEvents | None = None

    def gpus(self, expected: Collection[str] = ()) -> list[Gpu]:
        """Return every GPU, and those of `expected` (the addresses that the driver has) that are lost."""
        version = self.library.text("nvmlSystemGetDriverVersion") or ""
        listed = [self._gpu(index, handle, version) for index, handle in self._handles().items()]
        gpus = [
            gpu for gpu in listed if gpu.address or not gpu.lost
        ]  # NVML may not know a lost one's address
        missing = sorted(set(expected) - {gpu.address for gpu in gpus})
        lost = [address for address in missing if self._is_lost(address)]
        return gpus + [Gpu(-1, address, "", "", None, None, version, None, lost=True) for address in lost]

    def reading(self, index: int) -> GpuReading | None:
        """Return the present measurements of one GPU or MIG instance; None if it is gone."""
        self.library.lost = False
        handle = self._handle(index)
        if handle is None:
            return _LOST if self.library.lost else None
        reading = self._read_instance(handle) if is_instance(index) else self._read(handle)
        return replace(reading, health=replace(reading.health, lost=self.library.lost))

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        """Return the processes on one GPU or MIG instance; None if they are not reported.

        A GPU that is split reports the processes of all its instances.
        """
        handle = self._handle(index)
        return None if handle is None else read_processes(self.library, handle)

    def busy(self, index: int, since: int) -> ProcessBusy | None:
        """Return how busy processes kept one GPU since an earlier reading; None if that is not reported.

        NVML does not report it of a MIG instance.
        """
        handle = None if is_instance(index) else self._handle(index)
        return None if handle is None else read_busy(self.library, handle, since)

    def xids(self) -> dict[int, list[int]]:
        """Return the XIDs since the last call, of every GPU that can report any.

        An XID of one MIG instance is listed under the number of that instance, and not under its GPU's.
        The first call starts the watch: earlier XIDs are in the kernel's log only.
        """
        if self._events is None:
            self._events = XidEvents(self.library, self._handles())
        return self._events.read()

    def close(self) -> None:
        """End the session."""
        if self._events is not None:
            self._events.close()
        self.library.call("nvmlShutdown")

    def _read(self, handle: Handle) -> GpuReading:
        library = self.library
        memory, busy = read_memory(library, handle), Utilization()
        used = library.call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy))
        energy = library.number("nvmlDeviceGetTotalEnergyConsumption", handle, wide=True)
        temperature = library.number("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU)
        return GpuReading(
            memory_used=None if memory is None else memory[0],
            memory_free=None if memory is None else memory[1],
            memory_total=None if memory is None else memory[2],
            busy_percent=float(busy.gpu) if used else None,
            memory_busy_percent=float(busy.memory) if used else None,
            power=_watts(library.number("nvmlDeviceGetPowerUsage", handle)),
            energy_joules=None if energy is None else energy / 1000,
            temperature=None if temperature is None else Celsius(temperature),
            sm_clock=_megahertz(library.number("nvmlDeviceGetClockInfo", handle, _CLOCK_SM)),
            memory_clock=_megahertz(library.number("nvmlDeviceGetClockInfo", handle, _CLOCK_MEMORY)),
            memory_reserved=None if memory is None else memory[3],
            health=read_health(library, handle),
        )

    def _read_instance(self, handle: Handle) -> GpuReading:
        """Read an instance's memory: what else a driver returns for its handle is of the whole GPU."""
        memory = read_memory(self.library, handle)
        if memory is None:
            return _NOTHING
        return replace(
            _NOTHING,
            memory_used=memory[0],
            memory_free=memory[1],
            memory_total=memory[2],
            memory_reserved=memory[3],
        )

    def _gpu(self, index: int, handle: Handle, driver_version: str) -> Gpu:
        pci, library = Pci(), self.library
        library.lost = False
        known = library.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        memory, mig = read_memory(library, handle), read_mig(library, index, handle)
        return Gpu(
            index=index,
            address=sysfs_address(pci.address.decode("ascii", "replace")) if known else "",
            name=library.text("nvmlDeviceGetName", handle) or "",
            uuid=library.text("nvmlDeviceGetUUID", handle) or "",
            memory=None if memory is None else memory[2],
            power_limit=_watts(library.number("nvmlDeviceGetEnforcedPowerLimit", handle)),
            driver_version=driver_version,
            ecc_errors=uncorrected_errors(library, handle),
            remap_failed=remap_failed(library, handle),
            lost=library.lost,
            mig_enabled=mig.enabled,
            instances=mig.instances,
            multiprocessors=mig.multiprocessors,
            most_instances=mig.most_instances,
            prohibited=library.number("nvmlDeviceGetComputeMode", handle) == _COMPUTE_PROHIBITED,
        )

    def _handles(self) -> dict[int, Handle]:
        count = self.library.number("nvmlDeviceGetCount_v2") or 0
        handles = ((index, self._handle(index)) for index in range(count))
        return {index: handle for index, handle in handles if handle is not None}

    def _handle(self, index: int) -> Handle | None:
        if is_instance(index):
            gpu, ids = instance_place(index)
            parent = self._handle(gpu)
            return None if parent is None else read_mig_handle(self.library, parent, ids)
        handle = Handle()
        call = ("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle if self.library.call(*call) else None

    def _is_lost(self, address: str) -> bool:
        """Return whether NVML reports that a GPU is lost; one that it may not see is not."""
        self.library.lost, handle = False, Handle()
        self.library.call("nvmlDeviceGetHandleByPciBusId_v2", address.encode(), ctypes.byref(handle))
        return self.library.lost


def sysfs_address(address: str) -> str:
    """Turn NVML's `00000000:01:00.0` into the `0000:01:00.0` of sysfs."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}" if rest else ""


@contextmanager
def open_session(library: str = LIBRARY) -> Iterator[Nvml | None]:
    """Open a session with NVML; yield None if there is no library or no driver."""
    try:
        nvml: Nvml | None = Nvml(ctypes.CDLL(library))
    except OSError:
        nvml = None
    if nvml is None or not nvml.library.call("nvmlInit_v2"):
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.close()


def _watts(milliwatts: int | None) -> Watts | None:
    return None if milliwatts is None else Watts(milliwatts / 1000)


def _megahertz(value: int | None) -> Hertz | None:
    return None if value is None else Hertz(value * 1e6)

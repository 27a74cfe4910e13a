"""The one door to NVIDIA's management library: the few calls this program makes, through ctypes.

The library is opened only when it is there. Every call may be unsupported (on a Jetson Orin most are), and
then reads as None.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fairlead.units import Bytes, Celsius, Hertz, Watts

LIBRARY: Final = "libnvidia-ml.so.1"
_TEXT: Final = 96
_TEMPERATURE_GPU: Final = 0
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_ECC_UNCORRECTED, _ECC_VOLATILE = 1, 0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML knows it."""

    index: int
    address: str
    """The PCI address as sysfs spells it; empty where the GPU has none."""
    name: str
    uuid: str
    memory: Bytes | None
    power_limit: Watts | None
    driver_version: str
    ecc_errors: int | None
    """Uncorrected errors since the driver was loaded."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What NVML measures of one GPU now."""

    memory_used: Bytes | None
    memory_free: Bytes | None
    memory_total: Bytes | None
    busy_percent: float | None
    memory_busy_percent: float | None
    power: Watts | None
    energy_joules: float | None
    temperature: Celsius | None
    sm_clock: Hertz | None
    memory_clock: Hertz | None


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _MemoryV2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("address", ctypes.c_char * 32),
    )


class Nvml:
    """An open session with NVML."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def gpus(self) -> list[Gpu]:
        """Return every GPU that NVML can open."""
        count = ctypes.c_uint()
        if not self._call("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return []
        version = self._text("nvmlSystemGetDriverVersion") or ""
        handles = ((index, self._handle(index)) for index in range(count.value))
        return [self._gpu(index, handle, version) for index, handle in handles if handle is not None]

    def reading(self, index: int) -> Reading | None:
        """Return what is measured of one GPU now; None when it is gone."""
        handle = self._handle(index)
        if handle is None:
            return None
        memory, busy = self._memory(handle), _Utilization()
        used = self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy))
        energy = self._number("nvmlDeviceGetTotalEnergyConsumption", handle, wide=True)
        temperature = self._number("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU)
        return Reading(
            memory_used=None if memory is None else memory[0],
            memory_free=None if memory is None else memory[1],
            memory_total=None if memory is None else memory[2],
            busy_percent=float(busy.gpu) if used else None,
            memory_busy_percent=float(busy.memory) if used else None,
            power=_watts(self._number("nvmlDeviceGetPowerUsage", handle)),
            energy_joules=None if energy is None else energy / 1000,
            temperature=None if temperature is None else Celsius(temperature),
            sm_clock=_megahertz(self._number("nvmlDeviceGetClockInfo", handle, _CLOCK_SM)),
            memory_clock=_megahertz(self._number("nvmlDeviceGetClockInfo", handle, _CLOCK_MEMORY)),
        )

    def close(self) -> None:
        """End the session."""
        self._call("nvmlShutdown")

    def _gpu(self, index: int, handle: ctypes.c_void_p, driver_version: str) -> Gpu:
        pci = _Pci()
        known = self._call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        memory = self._memory(handle)
        return Gpu(
            index=index,
            address=sysfs_address(pci.address.decode("ascii", "replace")) if known else "",
            name=self._text("nvmlDeviceGetName", handle) or "",
            uuid=self._text("nvmlDeviceGetUUID", handle) or "",
            memory=None if memory is None else memory[2],
            power_limit=_watts(self._number("nvmlDeviceGetEnforcedPowerLimit", handle)),
            driver_version=driver_version,
            ecc_errors=self._ecc_errors(handle),
        )

    def _handle(self, index: int) -> ctypes.c_void_p | None:
        handle = ctypes.c_void_p()
        found = self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle if found else None

    def _memory(self, handle: ctypes.c_void_p) -> tuple[Bytes, Bytes, Bytes] | None:
        """Return used, free and total; the second version leaves the driver's reserve out of used."""
        newer = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        if self._call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(newer)):
            return Bytes(newer.used), Bytes(newer.free), Bytes(newer.total)
        older = _Memory()
        if self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(older)):
            return Bytes(older.used), Bytes(older.free), Bytes(older.total)
        return None

    def _ecc_errors(self, handle: ctypes.c_void_p) -> int | None:
        errors = ctypes.c_ulonglong()
        asked = self._call(
            "nvmlDeviceGetTotalEccErrors", handle, _ECC_UNCORRECTED, _ECC_VOLATILE, ctypes.byref(errors)
        )
        return errors.value if asked else None

    def _text(self, function: str, *args: object) -> str | None:
        buffer = ctypes.create_string_buffer(_TEXT)
        if not self._call(function, *args, buffer, ctypes.c_uint(_TEXT)):
            return None
        return buffer.value.decode("utf-8", "replace")

    def _number(self, function: str, *args: object, wide: bool = False) -> int | None:
        value = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        return value.value if self._call(function, *args, ctypes.byref(value)) else None

    def _call(self, function: str, *args: object) -> bool:
        try:
            return bool(getattr(self._library, function)(*args) == 0)
        except AttributeError:
            return False


def sysfs_address(address: str) -> str:
    """Turn NVML's `00000000:01:00.0` into the `0000:01:00.0` of sysfs."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}" if rest else ""


@contextmanager
def session(library: str = LIBRARY) -> Iterator[Nvml | None]:
    """Open NVML for a while; None where there is no library or no driver behind it."""
    try:
        nvml: Nvml | None = Nvml(ctypes.CDLL(library))
    except OSError:
        nvml = None
    if nvml is None or not nvml._call("nvmlInit_v2"):
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

"""Calls into NVML, its return codes, and the structs of nvml.h."""

import ctypes
from typing import Final

from fairlead.units import Bytes

SUCCESS, NO_FUNCTION = 0, 13
_UNREACHABLE: Final = (15, 16)
"""NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED."""
_TEXT: Final = 96
Handle = ctypes.c_void_p


class NvmlLibrary:
    """NVML, called by function name; a function that the library lacks counts as unsupported."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.lost = False
        """Whether a call since this was last set to False returned that the GPU is lost."""

    def code(self, function: str, *args: object) -> int:
        """Call a function and return its return code."""
        try:
            code = int(getattr(self._library, function)(*args))
        except AttributeError:
            return NO_FUNCTION
        self.lost = self.lost or code in _UNREACHABLE
        return code

    def call(self, function: str, *args: object) -> bool:
        """Call a function and return whether it succeeded."""
        return self.code(function, *args) == SUCCESS

    def text(self, function: str, *args: object) -> str | None:
        """Return the text that a function writes."""
        buffer = ctypes.create_string_buffer(_TEXT)
        if not self.call(function, *args, buffer, ctypes.c_uint(_TEXT)):
            return None
        return buffer.value.decode("utf-8", "replace")

    def number(self, function: str, *args: object, wide: bool = False) -> int | None:
        """Return the number that a function writes into its last argument."""
        value = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        return value.value if self.call(function, *args, ctypes.byref(value)) else None


def read_memory(library: NvmlLibrary, handle: Handle) -> tuple[Bytes, Bytes, Bytes, Bytes | None] | None:
    """Return used, free, total and reserved; version 1 counts the driver's reserve as used."""
    newer = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
    if library.call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(newer)):
        return Bytes(newer.used), Bytes(newer.free), Bytes(newer.total), Bytes(newer.reserved)
    older = Memory()
    if library.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(older)):
        return Bytes(older.used), Bytes(older.free), Bytes(older.total), None
    return None


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Utilization(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("address", ctypes.c_char * 32),
    )


class Attributes(ctypes.Structure):
    """nvmlDeviceAttributes_t of nvmlDeviceGetAttributes_v2."""

    _fields_ = (
        ("multiprocessors", ctypes.c_uint),
        ("copy_engines", ctypes.c_uint),
        ("decoders", ctypes.c_uint),
        ("encoders", ctypes.c_uint),
        ("jpeg_engines", ctypes.c_uint),
        ("ofa_engines", ctypes.c_uint),
        ("gpu_slices", ctypes.c_uint),
        ("compute_slices", ctypes.c_uint),
        ("memory_mebibytes", ctypes.c_ulonglong),
    )


class EventData(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t; the value is a union of eight bytes."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )

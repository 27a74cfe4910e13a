"""The processes on a GPU: their memory, and their share of its multiprocessors.

NVML names processes by the process ids of the caller's pid namespace, so only a caller in the host's
namespace can look them up.
"""

import ctypes
from collections.abc import Iterator
from typing import Final

from fairlead.nvml.library import NO_FUNCTION, SUCCESS, Handle, NvmlLibrary
from fairlead.nvml.types import GpuProcess, ProcessBusy
from fairlead.units import Bytes

MOST_PROCESSES: Final = 4096
"""Processes of one GPU; a GPU with more of them is not measured."""
_FIRST_GUESS: Final = 64
_ATTEMPTS: Final = 4
"""Calls for one list: processes start between the count and the list."""
_INSUFFICIENT_SIZE: Final = 7
_NOT_FOUND: Final = 6
"""NVML_ERROR_NOT_FOUND: no process was busy since the time that the caller names."""
_NOT_AVAILABLE: Final = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE."""
_FULL: Final = 100
"""Percent; drivers return larger numbers for samples without a meaning."""
_COMPUTE: Final = "nvmlDeviceGetComputeRunningProcesses"
_OTHERS: Final = (
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_v2_t; nvmlProcessInfo_t of version 3 is the same."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class ProcessInfoV1(ctypes.Structure):
    """nvmlProcessInfo_v1_t."""

    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


class ProcessUtilizationSample(ctypes.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("timestamp", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


_VERSIONS: Final = (("_v2", ProcessInfo), ("_v3", ProcessInfo), ("", ProcessInfoV1))
"""Version 2 comes first: drivers 535.43 to 535.86 fill the list of version 3 with a longer struct."""


def read_processes(library: NvmlLibrary, handle: Handle) -> tuple[GpuProcess, ...] | None:
    """Return the processes on a GPU; None if it does not report them.

    A process with compute and graphics contexts is in several lists, with the same memory in each.
    """
    compute = _read_list(library, handle, _COMPUTE)
    if compute is None:
        return None
    lists = [compute, *(_read_list(library, handle, function) for function in _OTHERS)]
    memory: dict[int, Bytes | None] = {}
    for listed in lists:
        for pid, used in listed or ():
            memory[pid] = _larger(memory.get(pid), used)
    return tuple(GpuProcess(pid, memory[pid]) for pid in sorted(memory) if pid)


def read_busy(library: NvmlLibrary, handle: Handle, since: int) -> ProcessBusy | None:
    """Return the busy shares of processes since a time of NVML's clock; None if it does not report them.

    A process that is not listed was idle.
    """
    size, function = _FIRST_GUESS, "nvmlDeviceGetProcessUtilization"
    for _ in range(_ATTEMPTS):
        samples, count = (ProcessUtilizationSample * size)(), ctypes.c_uint(size)
        arguments = (handle, samples, ctypes.byref(count), ctypes.c_ulonglong(since))
        code = library.code(function, *arguments)
        if code == _NOT_FOUND:
            return ProcessBusy(since, {})
        if code == SUCCESS:
            return _busy(samples[: min(count.value, size)], since)
        if code != _INSUFFICIENT_SIZE or not size < count.value <= MOST_PROCESSES:
            return None
        size = count.value
    return None


def _busy(samples: "list[ProcessUtilizationSample]", since: int) -> ProcessBusy:
    """Return the mean of each process' samples; what is not newer than `since` was returned before."""
    percents: dict[int, list[int]] = {}
    newest = since
    for sample in samples:
        if sample.pid and sample.timestamp > since and sample.sm <= _FULL:
            percents.setdefault(sample.pid, []).append(sample.sm)
            newest = max(newest, sample.timestamp)
    shares = {pid: sum(values) / len(values) / _FULL for pid, values in percents.items()}
    return ProcessBusy(newest, shares)


def _read_list(library: NvmlLibrary, handle: Handle, function: str) -> list[tuple[int, Bytes | None]] | None:
    """Return one list by the first version of the call that the library has."""
    for version, struct in _VERSIONS:
        size, code = _FIRST_GUESS, NO_FUNCTION
        for _ in range(_ATTEMPTS):
            infos, count = (struct * size)(), ctypes.c_uint(size)
            code = library.code(f"{function}{version}", handle, ctypes.byref(count), infos)
            if code == SUCCESS:
                return list(_rows(infos[: min(count.value, size)]))
            if code != _INSUFFICIENT_SIZE or count.value > MOST_PROCESSES:
                break
            size = max(count.value, size) + _FIRST_GUESS
        if code != NO_FUNCTION:
            return None
    return None


def _rows(infos: "list[ProcessInfo] | list[ProcessInfoV1]") -> Iterator[tuple[int, Bytes | None]]:
    for info in infos:
        yield info.pid, None if info.used == _NOT_AVAILABLE else Bytes(info.used)


def _larger(one: Bytes | None, other: Bytes | None) -> Bytes | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)

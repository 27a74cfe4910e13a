"""MIG: a GPU that is split into instances, each with multiprocessors and memory of its own.

A MIG device is a compute instance inside a GPU instance. NVML reads its name, memory and processes by a
handle of its own; it reports neither utilisation nor power nor errors of one.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.nvml.library import Attributes, Handle, NvmlLibrary, read_memory
from fairlead.nvml.types import MigInstance

ANY_COMPUTE_INSTANCE: Final = 0xFF
"""The compute instance of an event that concerns a whole GPU instance."""
WHOLE_GPU: Final = 0xFFFFFFFF
"""nvml.h: the instance ids of an event that concerns the whole GPU."""
_MOST_HANDLES: Final = 64
"""Instances of one GPU; today's have at most 7."""
_INSTANCE_BITS: Final = 16
_CORES_OF_AMPERE: Final = 64
_CORES: Final = 128
"""CUDA cores of a multiprocessor, since compute capability 8.6."""


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether a GPU is split, and how."""

    enabled: bool = False
    instances: tuple[MigInstance, ...] = ()
    multiprocessors: int | None = None
    most_instances: int | None = None


def read_mig(library: NvmlLibrary, index: int, handle: Handle) -> MigMode:
    """Return the instances of a GPU; of one without MIG, or where it is disabled, nothing else is read."""
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    call = ("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
    if not library.call(*call) or current.value != 1:
        return MigMode()
    instances = [_instance(library, index, ids, mig) for ids, mig in _handles(library, handle)]
    return MigMode(
        enabled=True,
        instances=tuple(sorted(instances, key=lambda each: each.index)),
        multiprocessors=_multiprocessors(library, handle),
        most_instances=library.number("nvmlDeviceGetMaxMigDeviceCount", handle),
    )


def read_mig_handle(library: NvmlLibrary, handle: Handle, place: tuple[int, int]) -> Handle | None:
    """Return the handle of the instance with these two ids; None if it is gone.

    A handle is not kept: after an instance is destroyed, NVML may give it to another one.
    """
    return next((mig for ids, mig in _handles(library, handle) if ids == place), None)


def instance_index(gpu: int, gpu_instance: int, compute_instance: int) -> int:
    """Return the number by which a session reads an instance."""
    return (gpu + 1) << _INSTANCE_BITS | (gpu_instance & 0xFF) << 8 | compute_instance & 0xFF


def is_instance(index: int) -> bool:
    """Say whether a number is that of an instance, and not of a GPU."""
    return index >> _INSTANCE_BITS > 0


def instance_place(index: int) -> tuple[int, tuple[int, int]]:
    """Return the index of an instance's GPU, and the ids of its GPU instance and compute instance."""
    return (index >> _INSTANCE_BITS) - 1, (index >> 8 & 0xFF, index & 0xFF)


def gpu_index(index: int) -> int:
    """Return the index of the GPU that the number of a GPU or of an instance belongs to."""
    return instance_place(index)[0] if is_instance(index) else index


def xids_of(index: int, xids: Mapping[int, Sequence[int]]) -> list[int] | None:
    """Return the XIDs that concern a GPU or an instance; None where its GPU cannot report any.

    An instance is concerned by its own, by those of its GPU instance and by those of the whole GPU.
    """
    gpu = gpu_index(index)
    if gpu not in xids:
        return None
    if gpu == index:
        return list(xids[gpu])
    shared = instance_index(gpu, instance_place(index)[1][0], ANY_COMPUTE_INSTANCE)
    return [xid for place in (index, shared, gpu) for xid in xids.get(place, ())]


def _handles(library: NvmlLibrary, handle: Handle) -> Iterator[tuple[tuple[int, int], Handle]]:
    """Yield every instance of a GPU: its two ids and its handle. Numbers without an instance are skipped."""
    most = library.number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    for number in range(min(most, _MOST_HANDLES)):
        mig = Handle()
        call = ("nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(number), ctypes.byref(mig))
        if not library.call(*call):
            continue
        gpu_instance = library.number("nvmlDeviceGetGpuInstanceId", mig)
        compute_instance = library.number("nvmlDeviceGetComputeInstanceId", mig)
        if gpu_instance is not None and compute_instance is not None:
            yield (gpu_instance, compute_instance), mig


def _instance(library: NvmlLibrary, gpu: int, ids: tuple[int, int], handle: Handle) -> MigInstance:
    memory, attributes = read_memory(library, handle), Attributes()
    known = library.call("nvmlDeviceGetAttributes_v2", handle, ctypes.byref(attributes))
    return MigInstance(
        index=instance_index(gpu, *ids),
        uuid=library.text("nvmlDeviceGetUUID", handle) or "",
        name=library.text("nvmlDeviceGetName", handle) or "",
        gpu_instance=ids[0],
        compute_instance=ids[1],
        memory=None if memory is None else memory[2],
        multiprocessors=attributes.multiprocessors if known else None,
        slices=attributes.compute_slices if known else None,
    )


def _multiprocessors(library: NvmlLibrary, handle: Handle) -> int | None:
    """Return the multiprocessors of a whole GPU, for which NVML has only its CUDA cores."""
    cores = library.number("nvmlDeviceGetNumGpuCores", handle)
    major, minor = ctypes.c_int(), ctypes.c_int()
    call = ("nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    if not cores or not library.call(*call):
        return None
    return cores // (_CORES_OF_AMPERE if (major.value, minor.value) == (8, 0) else _CORES)

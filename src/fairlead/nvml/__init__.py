"""The door to NVIDIA's management library: the few calls that this program makes, through ctypes.

The library is loaded only if it exists. Every call may be unsupported (on a Jetson Orin most are), and then
reads as None, never as zero.

types.py      Gpu, MigInstance, GpuReading, Health, GpuProcess: what NVML reports of one GPU
library.py    calls, return codes and the structs of nvml.h
health.py     reads Health; the event set in which XIDs arrive
processes.py  the processes on a GPU
mig.py        the instances of a GPU that is split, and the numbers by which a session reads them
session.py    an open session
"""

from fairlead.nvml.mig import (
    ANY_COMPUTE_INSTANCE,
    gpu_index,
    instance_index,
    instance_place,
    is_instance,
    xids_of,
)
from fairlead.nvml.session import DRIVER_SIGNS, LIBRARY, Nvml, open_session, sysfs_address
from fairlead.nvml.types import Gpu, GpuProcess, GpuReading, Health, MigInstance, ProcessBusy

__all__ = [
    "ANY_COMPUTE_INSTANCE",
    "DRIVER_SIGNS",
    "LIBRARY",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Health",
    "MigInstance",
    "Nvml",
    "ProcessBusy",
    "gpu_index",
    "instance_index",
    "instance_place",
    "is_instance",
    "open_session",
    "sysfs_address",
    "xids_of",
]

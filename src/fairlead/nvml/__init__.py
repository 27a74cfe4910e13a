"""The door to NVIDIA's management library: the few calls that this program makes, through ctypes.

The library is loaded only if it exists. Every call may be unsupported (on a Jetson Orin most are), and then
reads as None, never as zero.

types.py      Gpu, GpuReading, Health, GpuProcess: what NVML reports of one GPU
library.py    calls, return codes and the structs of nvml.h
health.py     reads Health; the event set in which XIDs arrive
processes.py  the processes on a GPU
session.py    an open session
"""

from fairlead.nvml.session import DRIVER_SIGNS, LIBRARY, Nvml, open_session, sysfs_address
from fairlead.nvml.types import Gpu, GpuProcess, GpuReading, Health, ProcessBusy

__all__ = [
    "DRIVER_SIGNS",
    "LIBRARY",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Health",
    "Nvml",
    "ProcessBusy",
    "open_session",
    "sysfs_address",
]

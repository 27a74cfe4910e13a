"""The one door to NVIDIA's management library: the few calls this program makes, through ctypes.

The library is opened only when it is there. Every call may be unsupported (on a Jetson Orin most are), and
then reads as None, never as zero.

types.py    Gpu, Reading, Health: what NVML says of one GPU
library.py  calls, return codes and the structs of nvml.h
health.py   reads Health; the event set that XIDs arrive in
session.py  an open session
"""

from fairlead.nvml.session import LIBRARY, Nvml, open_session, sysfs_address
from fairlead.nvml.types import Gpu, GpuReading, Health

__all__ = [
    "LIBRARY",
    "Gpu",
    "GpuReading",
    "Health",
    "Nvml",
    "open_session",
    "sysfs_address",
]

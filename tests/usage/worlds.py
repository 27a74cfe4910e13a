"""A small cluster for tests of measured use, and what servers answer about it."""

import json
from collections.abc import Mapping
from typing import Any

from fairlead.units import Bytes
from fairlead.usage.index import DeviceIndex, KnownDevice
from fairlead.use import DeviceKey, PodDeviceKey, UseSample

NOW = 1_700_000_000.0
MIB, GIB = 2**20, 2**30
GPU = DeviceKey("box", "pci-0000-3b-00-0")
SECOND = DeviceKey("box", "pci-0000-86-00-0")
WEB = PodDeviceKey("uid-web", *GPU)
UUID = "GPU-11111111-2222-3333-4444-555555555555"
OURS_MEMORY, OURS_BUSY = "fairlead_accelerator_memory_used_bytes", "fairlead_accelerator_busy_ratio"
POD_MEMORY, POD_BUSY = "fairlead_pod_accelerator_memory_used_bytes", "fairlead_pod_accelerator_busy_ratio"
FOREIGN = "fairlead_accelerator_foreign_bytes"
OLD_MEMORY, OLD_BUSY = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"
NEW_MEMORY, NEW_BUSY = "DCGM_FI_DEV_FB_USED_BYTES", "DCGM_FI_DEV_GPU_UTIL_RATIO"

INDEX = DeviceIndex(
    (
        KnownDevice(GPU, uuid=UUID, vendor="NVIDIA", memory=Bytes(16 * GIB)),
        KnownDevice(SECOND, vendor="NVIDIA", memory=Bytes(16 * GIB)),
    ),
    hosts={"10.0.0.7": "box"},
    pods={("shop", "web"): "uid-web", ("shop", "other"): "uid-other"},
)


def matrix(*series: tuple[Mapping[str, str], list[tuple[float, str]]]) -> bytes:
    """Return an answer to a range selector."""
    rows = [{"metric": labels, "values": points} for labels, points in series]
    return answer({"resultType": "matrix", "result": rows})


def vector(at: float, value: object) -> bytes:
    """Return an answer with one value, or with none."""
    rows = [] if value is None else [{"metric": {}, "value": [at, str(value)]}]
    return answer({"resultType": "vector", "result": rows})


def answer(data: Mapping[str, Any]) -> bytes:
    """Return a successful answer."""
    return json.dumps({"status": "success", "data": data}).encode()


def sample(memory: int | None = None, busy: float | None = None, at: float = NOW) -> UseSample:
    """Return a sample of now."""
    return UseSample(at, None if memory is None else Bytes(memory), busy)

"""Why a session with NVML cannot be opened, in one line, and whether CUDA programs fail for it too."""

import ctypes
from collections.abc import Mapping
from typing import Final

from fairlead.faults import NvmlFailure
from fairlead.nvml.library import SUCCESS
from fairlead.nvml.session import LIBRARY, Nvml

_NODES: Final = "let this user open /dev/nvidiactl and /dev/nvidia*, and this container too"
_REASONS: Final[Mapping[int, str]] = {
    4: f"the NVIDIA driver refuses this user: {_NODES}",  # NVML_ERROR_NO_PERMISSION
    9: f"NVML cannot reach the NVIDIA driver: {_NODES}",  # NVML_ERROR_DRIVER_NOT_LOADED
    18: "driver mismatch: the NVIDIA libraries and the loaded kernel driver have different versions; "
    "reload the driver or reboot",  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
}


def connect(library: str = LIBRARY) -> Nvml | NvmlFailure:
    """Open a session, which the caller closes; else return why there is none."""
    try:
        nvml = Nvml(ctypes.CDLL(library))
    except OSError:
        text = (
            f"NVML is missing although the NVIDIA driver is loaded: install {LIBRARY}, a part of the driver"
        )
        return NvmlFailure(f"{text}; until then no GPU's memory is measured", for_cuda=False)
    code = nvml.library.code("nvmlInit_v2")
    if code == SUCCESS:
        return nvml
    return NvmlFailure(_REASONS.get(code, f"NVML does not start: its error {code}"), for_cuda=True)

"""PyTorch: the limit of its caching allocator, where the environment does not set it.

Version 2.10 and later read `per_process_memory_fraction` of PYTORCH_ALLOC_CONF. For others the limit is set
when the program first uses the GPU: CUDA must not be initialised by an import.
"""

import os

from . import version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SETTING = "per_process_memory_fraction"
_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def limit(torch: "Any", _: int, fraction: float) -> None:
    """Limit the allocator of each GPU once CUDA or ROCm is initialised; the program can replace the limit."""
    if version_of(torch) >= (2, 10) and any(_SETTING in os.environ.get(name, "") for name in _VARIABLES):
        return
    cuda = torch.cuda
    if not hasattr(cuda, "set_per_process_memory_fraction"):
        return  # before 1.8

    def set_limits() -> None:
        try:
            for device in range(cuda.device_count()):
                cuda.set_per_process_memory_fraction(fraction, device)
        except Exception:  # noqa: BLE001, S110  # PyTorch would fail to initialise
            pass

    cuda._lazy_call(set_limits)

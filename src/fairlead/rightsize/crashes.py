"""Containers that ended because an allocation on an accelerator failed, by their last message.

A kubelet's reason `OOMKilled` is about the memory of the node and says nothing about an accelerator. A
framework that gets no memory of its accelerator raises an error and exits; the error is in the container's
termination message where its `terminationMessagePolicy` is `FallbackToLogsOnError`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.manifest.types.live import LivePod

_FAILED_ALLOCATION: Final = re.compile(
    r"(?i)\b(?:CUDA|HIP|GPU|device|NVML)\b[^\n]{0,80}out of memory"
    r"|out of memory[^\n]{0,80}\b(?:CUDA|HIP|GPU|device)\b"
    r"|torch\.\S{0,30}OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|RESOURCE_EXHAUSTED|OOM when allocating"
)
"""What PyTorch, TensorFlow, JAX, ONNX Runtime and TensorRT write."""
Crashes = Mapping[tuple[str, str], Mapping[str, int]]
"""By namespace and name of a pod: the restarts of each container."""


def crashes_of(pods: Iterable[LivePod]) -> Crashes:
    """Return the restarts by a failed allocation; of earlier restarts than the last nothing is known."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for pod in pods:
        for container in pod.status.container_statuses:
            states = (container.state, container.last_state)
            ends = [state.terminated for state in states if state.terminated is not None]
            count = sum(bool(end.exit_code) and is_failed_allocation(end.message) for end in ends)
            if count:
                found.setdefault(pod.key, {})[container.name] = count
    return found


def is_failed_allocation(message: str) -> bool:
    """Return whether a termination message says that an allocation on an accelerator failed."""
    return _FAILED_ALLOCATION.search(message) is not None

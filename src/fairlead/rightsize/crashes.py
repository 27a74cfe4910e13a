"""Containers that ended because an allocation on an accelerator failed, by their last message.

A kubelet's reason `OOMKilled` is about the memory of the node and says nothing about an accelerator. A
framework that gets no memory of its accelerator raises an error and exits; the error is in the container's
termination message where its `terminationMessagePolicy` is `FallbackToLogsOnError`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart

_FAILED_ALLOCATION: Final = re.compile(
    r"(?i)\b(?:CUDA|HIP|GPU|device|NVML)\b[^\n]{0,80}out of memory"
    r"|out of memory[^\n]{0,80}\b(?:CUDA|HIP|GPU|device)\b"
    r"|torch\.\S{0,30}OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|RESOURCE_EXHAUSTED|OOM when allocating"
)
"""What PyTorch, TensorFlow, JAX, ONNX Runtime and TensorRT write."""
Crashes = Mapping[tuple[str, str], Mapping[str, int]]
"""By namespace and name of a pod: the restarts of each container."""


class EndedContainer(ObjectPart, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    message: str = ""


class EndedState(ObjectPart, frozen=True):
    """The state of a container, where it has ended."""

    terminated: EndedContainer = EndedContainer()


class ContainerEnds(ObjectPart, frozen=True):
    """How a container ended, now and before its last restart."""

    name: str = ""
    restart_count: int = 0
    state: EndedState = EndedState()
    last_state: EndedState = EndedState()


class PodEnds(ObjectPart, frozen=True):
    """The ends of a pod's containers."""

    container_statuses: tuple[ContainerEnds, ...] = ()


class RestartedPod(Object, frozen=True):
    """A pod, as far as the ends of its containers go."""

    status: PodEnds = PodEnds()


RESTARTED_PODS: Final = Kind("", "v1", "pods", True, RestartedPod, "Pod")


def crashes_of(pods: Iterable[RestartedPod]) -> Crashes:
    """Return the restarts by a failed allocation; of earlier restarts than the last nothing is known."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for pod in pods:
        for container in pod.status.container_statuses:
            ends = (container.state.terminated, container.last_state.terminated)
            count = sum(bool(end.exit_code) and is_failed_allocation(end.message) for end in ends)
            if count:
                found.setdefault(pod.key, {})[container.name] = count
    return found


def is_failed_allocation(message: str) -> bool:
    """Return whether a termination message says that an allocation on an accelerator failed."""
    return _FAILED_ALLOCATION.search(message) is not None

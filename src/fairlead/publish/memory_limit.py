"""The variables by which a framework stays inside its share of an accelerator. Pure.

An elastic allocator takes what it finds free unless its own settings limit it. A variable that some version
of its framework refuses is left out: the reasons are beside the rows. Where the container sets a variable of
a framework itself, none of that framework's is set.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import floor
from typing import Final

from fairlead.inventory import Accelerator
from fairlead.limiter import mps
from fairlead.units import Bytes

MEMORY_BYTES: Final = "FAIRLEAD_ACCELERATOR_MEMORY_BYTES"
MEMORY_FRACTION: Final = "FAIRLEAD_ACCELERATOR_MEMORY_FRACTION"
ALLOCATOR_BYTES: Final = "FAIRLEAD_ACCELERATOR_ALLOCATOR_BYTES"
"""What an allocator may take: the limit without the context. The hook of Python programs reads it too."""
MPS_CLIENT: Final = mps.PIPE
"""A container that sets it is a client of CUDA's Multi-Process Service."""
MPS_LIMIT: Final = mps.MEMORY_LIMIT
CONTEXT: Final = Bytes(640 << 20)
"""What a process holds beside its allocator: its context and libraries. On an H200 with CUDA 13, PyTorch
2.11 holds 621 MiB and JAX 0.11 holds 559 MiB. Of a small limit at most half is left for it."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The memory that a container may take of each of its accelerators."""

    size: Bytes
    own: frozenset[str] = frozenset()
    """The variables that the container sets itself."""


@dataclass(frozen=True, slots=True)
class _Framework:
    """The variables of one framework."""

    variables: Mapping[str, str]
    """`{fraction}` stands for the part of the accelerator's memory, `{size}` for the same in bytes."""
    yields_to: frozenset[str] = frozenset()
    """Other variables of the container, beside which these are not set."""
    vendors: frozenset[str] = frozenset()
    """The accelerators for which they are set; empty: all GPUs."""


FRAMEWORKS: Final[Mapping[str, _Framework]] = {
    # The newer name, XLA_CLIENT_MEM_FRACTION, is unknown to older versions. Beside both names, JAX raises an
    # error or computes on the CPU. The fraction holds with and without preallocation.
    "jax": _Framework(
        {"XLA_PYTHON_CLIENT_MEM_FRACTION": "{fraction}"}, frozenset({"XLA_CLIENT_MEM_FRACTION"})
    ),
    # No variable limits TensorFlow; without this one it takes the whole accelerator at once.
    "tensorflow": _Framework({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
    # In PYTORCH_CUDA_ALLOC_CONF, versions before 2.10 refuse the option and end; they ignore this variable.
    # Only the allocators for CUDA and ROCm know the option.
    "pytorch": _Framework(
        {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:{fraction}"},
        frozenset({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}),
        frozenset({"NVIDIA", "AMD"}),
    ),
    "cupy": _Framework({"CUPY_GPU_MEMORY_LIMIT": "{size}"}, vendors=frozenset({"NVIDIA", "AMD"})),
}
VARIABLES: Final = (*(name for row in FRAMEWORKS.values() for name in row.variables), MPS_LIMIT)
"""The variables of frameworks that a container can receive."""


def limit_variables(limit: MemoryLimit, accelerators: Sequence[Accelerator]) -> dict[str, str]:
    """Return the variables for a container with a share of each of these accelerators."""
    variables = {MEMORY_BYTES: str(limit.size)}
    fraction = min((_fraction(limit.size, acc) for acc in accelerators), default=0.0)
    if fraction:
        # Rounded down: a framework must not get more than its share.
        text = f"{max(1, floor(fraction * 10_000)) / 10_000:.4f}"
        variables[MEMORY_FRACTION] = text
        if all(acc.kind == "gpu" for acc in accelerators):
            variables[ALLOCATOR_BYTES] = str(_allocator_size(limit.size))
            variables |= _framework_variables(limit, text, {acc.vendor for acc in accelerators})
    if MPS_CLIENT in limit.own:
        variables[MPS_LIMIT] = mps.memory_limit(limit.size, len(accelerators))
    return {name: value for name, value in variables.items() if name not in limit.own}


def _framework_variables(limit: MemoryLimit, fraction: str, vendors: Set[str]) -> dict[str, str]:
    return {
        name: value.format(fraction=fraction, size=_allocator_size(limit.size))
        for framework in FRAMEWORKS.values()
        if not limit.own & (framework.yields_to | framework.variables.keys())
        and (not framework.vendors or vendors <= framework.vendors)
        for name, value in framework.variables.items()
    }


def _fraction(limit: Bytes, acc: Accelerator) -> float:
    """Return the part of an accelerator's memory for an allocator; 0 where its memory is unknown, or less."""
    if not acc.memory or limit >= acc.memory:
        return 0.0
    return _allocator_size(limit) / acc.memory


def _allocator_size(limit: Bytes) -> int:
    return limit - min(CONTEXT, limit // 2)

"""Which variables a framework receives with a share of an accelerator."""

import pytest

from fairlead.publish.memory_limit import (
    ALLOCATOR_BYTES,
    CONTEXT,
    FRAMEWORKS,
    MEMORY_BYTES,
    MEMORY_FRACTION,
    MPS_CLIENT,
    MPS_LIMIT,
    MemoryLimit,
    limit_variables,
)
from fairlead.units import Bytes
from tests.accelerators import accelerator

GIB = 1 << 30
GPU = accelerator(kind="gpu", vendor="NVIDIA", mebibytes=16 << 10)
LARGER = accelerator("pci:0000:02:00.0", kind="gpu", vendor="NVIDIA", mebibytes=32 << 10)
INTEL = accelerator(kind="gpu", vendor="Intel", mebibytes=16 << 10)
NPU = accelerator(kind="npu", mebibytes=16 << 10)
UNKNOWN = accelerator(kind="gpu")


def variables(size: int, *own: str, on: tuple[object, ...] = (GPU,)) -> dict[str, str]:
    """Return the variables of a container with a limit and variables of its own."""
    return limit_variables(MemoryLimit(Bytes(size), frozenset(own)), on)  # type: ignore[arg-type]


def test_each_framework_gets_the_share_less_the_context_of_its_process() -> None:
    fraction = f"{(4 * GIB - CONTEXT) / (16 * GIB):.4f}"
    assert fraction == "0.2109"
    assert variables(4 * GIB) == {
        MEMORY_BYTES: str(4 * GIB),
        MEMORY_FRACTION: fraction,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "PYTORCH_ALLOC_CONF": f"per_process_memory_fraction:{fraction}",
        ALLOCATOR_BYTES: str(4 * GIB - CONTEXT),
        "CUPY_GPU_MEMORY_LIMIT": str(4 * GIB - CONTEXT),
    }


@pytest.mark.parametrize(
    ("size", "fraction"),
    [(GIB, "0.0312"), (1, "0.0001"), (16 * GIB - 1, "0.9609")],
    ids=["half-of-a-small-limit", "never-zero", "just-below-whole"],
)
def test_the_fraction_is_rounded_down(size: int, fraction: str) -> None:
    assert variables(size)[MEMORY_FRACTION] == fraction


def test_of_several_accelerators_the_smallest_fraction_holds_for_all() -> None:
    assert (
        variables(4 * GIB, on=(GPU, LARGER))[MEMORY_FRACTION]
        == variables(4 * GIB, on=(LARGER,))[MEMORY_FRACTION]
    )


@pytest.mark.parametrize("on", [(UNKNOWN,), (accelerator(kind="gpu", mebibytes=4 << 10),)])
def test_without_a_fraction_only_the_bytes_are_set(on: tuple[object, ...]) -> None:
    assert variables(4 * GIB, on=on) == {MEMORY_BYTES: str(4 * GIB)}


def test_pytorch_and_cupy_get_nothing_where_their_allocators_do_not_run() -> None:
    missing = set(variables(4 * GIB)) - set(variables(4 * GIB, on=(INTEL,)))
    assert missing == {"PYTORCH_ALLOC_CONF", "CUPY_GPU_MEMORY_LIMIT"}


def test_frameworks_of_gpus_get_nothing_for_other_accelerators() -> None:
    assert set(variables(4 * GIB, on=(NPU,))) == {MEMORY_BYTES, MEMORY_FRACTION}


@pytest.mark.parametrize(
    ("own", "framework"),
    [
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "jax"),
        ("XLA_CLIENT_MEM_FRACTION", "jax"),
        ("PYTORCH_ALLOC_CONF", "pytorch"),
        ("PYTORCH_CUDA_ALLOC_CONF", "pytorch"),
        ("PYTORCH_HIP_ALLOC_CONF", "pytorch"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "tensorflow"),
    ],
)
def test_a_framework_that_the_container_configures_is_left_alone(own: str, framework: str) -> None:
    left_out = set(variables(4 * GIB)) - set(variables(4 * GIB, own))
    assert left_out == set(FRAMEWORKS[framework].variables)


def test_clients_of_mps_get_the_limit_of_each_device() -> None:
    assert MPS_LIMIT not in variables(4 * GIB)
    assert variables(4 * GIB, MPS_CLIENT, on=(GPU, LARGER))[MPS_LIMIT] == "0=4096M,1=4096M"
    assert MPS_LIMIT not in variables(4 * GIB, MPS_CLIENT, MPS_LIMIT)

"""Which accelerators can be calibrated and through which provider: a table of machines."""

from dataclasses import replace

import pytest

from fairlead.calibrate.targets import CalibrationTarget, targets
from fairlead.inventory import Accelerator, MigPartition, State
from tests.accelerators import accelerator

CPU = accelerator("cpu:0", vendor="Intel", kind="cpu", model="cpu-x86-64-avx2")
NVIDIA = accelerator(vendor="NVIDIA", kind="gpu", model="l4", uuid="GPU-1")
CORAL = accelerator("usb:1-1", vendor="Google", kind="tpu", model="coral-usb")
BROKEN = accelerator(vendor="NVIDIA", kind="gpu", model="l4", state=State.PRESENT)
INSTANCE = replace(NVIDIA, mig=MigPartition("1g.6gb", 9, 0, NVIDIA.id, "GPU-1"))

MACHINES: list[tuple[Accelerator, set[str], list[str], str]] = [
    (CPU, {"cpu"}, ["cpu"], ""),
    (NVIDIA, {"cpu", "cuda"}, ["cuda"], ""),
    (NVIDIA, {"cpu", "cuda", "tensorrt"}, ["cuda", "tensorrt"], ""),
    (NVIDIA, {"cpu"}, [], "this ONNX Runtime was built without cuda and tensorrt"),
    (CORAL, {"cpu"}, [], "ONNX Runtime has no provider for it"),
    (BROKEN, {"cpu", "cuda"}, [], "it is present only: not yet"),
    (INSTANCE, {"cpu", "cuda"}, [], "it is a MIG instance: a profile holds for a whole GPU"),
]


@pytest.mark.parametrize(("acc", "available", "providers", "reason"), MACHINES)
def test_providers_and_reasons(
    acc: Accelerator, available: set[str], providers: list[str], reason: str
) -> None:
    reachable, skipped = targets([acc], available)
    assert [target.provider for target in reachable] == providers
    assert [accelerator.reason for accelerator in skipped] == ([reason] if reason else [])


def test_a_setup_name_has_runtime_precision_and_threads() -> None:
    cpu = CalibrationTarget(CPU, "cpu").setup("onnxruntime", "1.2", "fp32", 4)
    gpu = CalibrationTarget(NVIDIA, "cuda").setup("onnxruntime", "1.2", "fp16", 4)
    assert cpu.name == "cpu-x86-64-avx2-onnxruntime-cpu-fp32-4t"
    assert gpu.name == "l4-onnxruntime-cuda-fp16"
    assert (cpu.threads, gpu.threads) == (4, 0)


def test_only_nvidia_gpus_have_a_uuid() -> None:
    assert CalibrationTarget(NVIDIA, "cuda").gpu == "GPU-1"
    assert CalibrationTarget(CPU, "cpu").gpu == ""

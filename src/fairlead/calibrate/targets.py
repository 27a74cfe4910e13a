"""Which accelerators of a machine can be calibrated, and through which provider; why the others cannot."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.calibration import Setup
from fairlead.inventory import Accelerator

_PROVIDERS: Final = {
    ("cpu", ""): ("cpu",),
    ("gpu", "NVIDIA"): ("cuda", "tensorrt"),
    ("gpu", "AMD"): ("migraphx", "rocm"),
    ("gpu", "Intel"): ("openvino",),
    ("npu", "Intel"): ("openvino",),
}
"""By kind and vendor (empty: any), the providers of ONNX Runtime that reach an accelerator."""


@dataclass(frozen=True, slots=True)
class CalibrationTarget:
    """An accelerator and the provider that reaches it."""

    accelerator: Accelerator
    provider: str

    @property
    def gpu(self) -> str:
        """Its UUID in NVML and CUDA; empty for other accelerators."""
        return self.accelerator.uuid or "" if self.provider in ("cuda", "tensorrt") else ""

    def setup(self, runtime: str, version: str, precision: str, threads: int) -> Setup:
        """Return the setup that its measurements hold for."""
        acc = self.accelerator
        return Setup(
            device=acc.model or acc.candidates[0],
            runtime=f"{runtime}-{self.provider}",
            version=version,
            precision=precision,
            threads=threads if self.provider == "cpu" else 0,
            effective_ops=acc.effective.get(precision),
            link_bits_per_second=acc.link.rate if acc.link else None,
            power=acc.power if self.provider != "cpu" else None,
        )


@dataclass(frozen=True, slots=True)
class SkippedAccelerator:
    """An accelerator that cannot be calibrated here."""

    accelerator: Accelerator
    reason: str


def targets(
    accelerators: Iterable[Accelerator], available: Iterable[str]
) -> tuple[list[CalibrationTarget], list[SkippedAccelerator]]:
    """Return every provider of every accelerator, and the accelerators without one."""
    reachable: list[CalibrationTarget] = []
    skipped: list[SkippedAccelerator] = []
    for acc in accelerators:
        providers = _PROVIDERS.get((acc.kind, "")) or _PROVIDERS.get((acc.kind, acc.vendor)) or ()
        installed = [provider for provider in providers if provider in set(available)]
        reason = _skip_reason(acc, providers, installed)
        if reason:
            skipped.append(SkippedAccelerator(acc, reason))
        else:
            reachable += [CalibrationTarget(acc, provider) for provider in installed]
    return reachable, skipped


def _skip_reason(acc: Accelerator, providers: tuple[str, ...], installed: list[str]) -> str:
    if not acc.state.allocatable:
        return f"it is {acc.state.value} only: {acc.reason}"
    if acc.mig:
        return "it is a MIG instance: a profile holds for a whole GPU"
    if not acc.candidates and not acc.model:
        return "it is not in the catalog"
    if not providers:
        return "ONNX Runtime has no provider for it"
    if not installed:
        return f"this ONNX Runtime was built without {' and '.join(providers)}"
    return ""

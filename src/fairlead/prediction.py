"""What is expected of a model on a device, and how far to trust it."""

from dataclasses import dataclass
from typing import Any, Final

from fairlead.units import Bytes, Seconds, Watts

CONFIDENCES: Final = ("high", "medium", "low")
BASES: Final = ("measured", "calibrated", "similar", "data sheet")
"""What an estimate rests on, the surest first."""
Z90: Final = 1.2816
"""Standard deviations below which nine of ten normal errors lie."""
_HIGH: Final = 0.15
_MEDIUM: Final = 0.35
"""Spreads up to which confidence is high, and medium."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One model on one device; figures are None where they are not known."""

    device: str
    """As it was asked for: a catalog id with link, power mode and share, or an accelerator's own id."""
    model: str
    runtime: str = ""
    precision: str = ""
    """That it would compute in."""
    batch: int = 1
    runs: bool = True
    fits: bool = True
    """Its memory is there, as far as that is known."""
    needs: tuple[str, ...] = ()
    """What must be done to the file first; empty: it runs as it is."""
    reasons: tuple[str, ...] = ()
    """Why it does not run or fit."""
    seconds: Seconds | None = None
    """Of one run, of the whole batch: as likely too high as too low."""
    p90: Seconds | None = None
    """What nine of ten runs stay below."""
    memory: Bytes | None = None
    """That it takes on the device, its runtime with it."""
    available: Bytes | None = None
    """Memory of the device, or of the share of it."""
    watts: Watts | None = None
    """Of the device while it is busy."""
    joules: float | None = None
    """Of one run."""
    confidence: str = "low"
    basis: str = "data sheet"
    meets_slo: bool | None = None
    """Whether nine of ten runs meet the latency that was asked for; None where none was."""

    @property
    def good(self) -> bool:
        """Whether it runs, fits and is fast enough."""
        return self.runs and self.fits and self.meets_slo is not False

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "device": self.device,
            "model": self.model,
            "runtime": self.runtime,
            "precision": self.precision,
            "batch": self.batch,
            "runs": self.runs,
            "fits": self.fits,
            "needs": list(self.needs),
            "reasons": list(self.reasons),
            "seconds": self.seconds,
            "p90_seconds": self.p90,
            "memory_bytes": self.memory,
            "available_bytes": self.available,
            "watts": self.watts,
            "joules": self.joules,
            "confidence": self.confidence,
            "basis": self.basis,
            "meets_slo": self.meets_slo,
        }


def confidence(spread: float) -> str:
    """Return the class of a spread: of the logarithm of real times around predicted ones."""
    return "high" if spread <= _HIGH else "medium" if spread <= _MEDIUM else "low"


def sort_key(estimate: Estimate) -> tuple[bool, bool, float, str]:
    """Sort what runs and fits by its latency, and put the rest behind it."""
    seconds = float("inf") if estimate.seconds is None else estimate.seconds
    return (not estimate.runs, not estimate.fits, seconds, estimate.device)

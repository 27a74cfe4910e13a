"""The estimate of a model on a device, and how far to trust it."""

from dataclasses import dataclass
from typing import Any, Final

from fairlead.units import Bytes, Seconds, Watts

CONFIDENCES: Final = ("high", "medium", "low")
BASES: Final = ("measured", "calibrated", "similar", "data sheet")
"""The bases of an estimate, the most reliable first."""
Z90: Final = 1.2816
"""Nine of ten normal errors lie below this number of standard deviations."""
_HIGH: Final = 0.15
_MEDIUM: Final = 0.35
"""The largest spreads of high and of medium confidence."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One model on one device; figures are None where they are not known."""

    device: str
    """As the user names it: a catalog id with link, power mode and share, or an accelerator's own id."""
    model: str
    runtime: str = ""
    precision: str = ""
    """The precision it would compute in."""
    batch: int = 1
    runs: bool = True
    fits: bool = True
    """The device has the memory that it needs, as far as that is known."""
    needs: tuple[str, ...] = ()
    """Conversions that the file needs first; empty: it runs as it is."""
    reasons: tuple[str, ...] = ()
    """Why it does not run or fit."""
    seconds: Seconds | None = None
    """Of one run of the whole batch: as likely too high as too low."""
    p90: Seconds | None = None
    """Nine of ten runs stay below it."""
    memory: Bytes | None = None
    """Memory that the model takes on the device, the runtime included."""
    available: Bytes | None = None
    """Memory of the device, or of the share of it."""
    watts: Watts | None = None
    """Of the device while it is busy."""
    joules: float | None = None
    """Of one run."""
    confidence: str = "low"
    basis: str = "data sheet"
    meets_slo: bool | None = None
    """Whether nine of ten runs meet the requested latency; None without one."""

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
    """Return the class of a spread: the standard deviation of the logarithm of real over predicted times."""
    return "high" if spread <= _HIGH else "medium" if spread <= _MEDIUM else "low"


def sort_key(estimate: Estimate) -> tuple[bool, bool, float, str]:
    """Return the key that sorts estimates: those that run and fit by latency, then the others."""
    seconds = float("inf") if estimate.seconds is None else estimate.seconds
    return (not estimate.runs, not estimate.fits, seconds, estimate.device)

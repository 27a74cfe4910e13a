"""The estimate of a model on a device, and how far to trust it."""

from dataclasses import dataclass
from typing import Any, Final

from fairlead.units import Bytes, Seconds, Watts

CONFIDENCES: Final = ("high", "medium", "low")
BASES: Final = ("measured", "calibrated", "similar", "data sheet")
"""The bases of an estimate, the most reliable first."""
STATES: Final = ("runs", "not known", "does not fit", "does not run")
"""The answers of an estimate, in the order of a list."""
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
    runs: bool | None = True
    """None: its speed on the device is not known, and nothing that is known speaks against it."""
    fits: bool = True
    """The device has the memory that it needs, as far as that is known."""
    needs: tuple[str, ...] = ()
    """Conversions that the file needs first; empty: it runs as it is."""
    reasons: tuple[str, ...] = ()
    """Why it does not run or fit, or why that is not known."""
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
    scope: str = ""
    """What one run is, where that is less than it seems: a language model's forward pass. Else empty."""
    doubt: str = ""
    """Why its confidence is low, beside its spread. Else empty."""

    @property
    def good(self) -> bool:
        """Whether it is known to run, to fit and to be fast enough."""
        return self.runs is True and self.fits and self.meets_slo is not False

    @property
    def state(self) -> str:
        """One of `STATES`: what is known against the device counts more than what is not known."""
        if self.runs is False:
            return "does not run"
        if not self.fits:
            return "does not fit"
        return "not known" if self.runs is None else "runs"

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
            "state": self.state,
            "scope": self.scope,
            "doubt": self.doubt,
        }


def confidence(spread: float) -> str:
    """Return the class of a spread: the standard deviation of the logarithm of real over predicted times."""
    return "high" if spread <= _HIGH else "medium" if spread <= _MEDIUM else "low"


def sort_key(estimate: Estimate) -> tuple[int, float, str]:
    """Return the key that sorts estimates: by state, those that run by latency."""
    seconds = float("inf") if estimate.seconds is None else estimate.seconds
    return (STATES.index(estimate.state), seconds, estimate.device)

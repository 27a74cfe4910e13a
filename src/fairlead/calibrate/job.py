"""What a child process is asked to do and what it answers, as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.calibrate.timing import RunSample
from fairlead.units import Bytes, Watts


@dataclass(frozen=True, slots=True)
class TrialJob:
    """One model, to be run for a while."""

    model: str
    """Its name in the zoo."""
    file: str
    """Where it lies as ONNX."""
    runtime: str
    precision: str = "fp32"
    batch: int = 1
    threads: int = 1
    budget: float = 1.0
    """Seconds of running it, beside loading and warming up."""
    gpu: str = ""
    """The UUID of the GPU that its power and memory are read from; empty for a CPU."""

    def to_text(self) -> str:
        """Return it as a line."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "TrialJob":
        """Read a line."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What one child found, or why it found nothing."""

    samples: tuple[RunSample, ...] = ()
    version: str = ""
    """Of the runtime."""
    peak: Bytes | None = None
    base: Bytes | None = None
    watts: Watts | None = None
    reason: str = ""

    def to_text(self) -> str:
        """Return it as a line."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "TrialOutcome":
        """Read a line; ValueError where it is not one."""
        found: dict[str, Any] = json.loads(text)
        try:
            samples = tuple(RunSample(**each) for each in found.pop("samples"))
            return cls(samples=samples, **found)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not an outcome: {error}") from None

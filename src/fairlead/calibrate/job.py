"""The job of a child process and its outcome, as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.calibrate.timing import RunSample
from fairlead.units import Bytes, Watts


@dataclass(frozen=True, slots=True)
class TrialJob:
    """One model to run for a while."""

    model: str
    """Its name in the zoo."""
    file: str
    """The path of its ONNX file."""
    runtime: str
    precision: str = "fp32"
    batch: int = 1
    threads: int = 1
    budget: float = 1.0
    """Seconds of running it, without loading and warm-up."""
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
    """The measurements of one child process, or why there are none."""

    samples: tuple[RunSample, ...] = ()
    version: str = ""
    """Of the runtime."""
    peak: Bytes | None = None
    base: Bytes | None = None
    watts: Watts | None = None
    reason: str = ""
    load: float | None = None
    """The share of the time in which any program of the machine waited for a CPU."""

    def to_text(self) -> str:
        """Return it as a line."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "TrialOutcome":
        """Read a line; ValueError where it is not one."""
        fields: dict[str, Any] = json.loads(text)
        try:
            samples = tuple(RunSample(**sample) for sample in fields.pop("samples"))
            return cls(samples=samples, **fields)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not an outcome: {error}") from None

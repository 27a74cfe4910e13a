"""What runs gave, by job and arrangement."""

from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class JobRunFigures:
    """One run."""

    inputs: int
    seconds: float
    """From the moment at which all workers are ready until the last result."""
    cpu: float | None = None
    """Seconds of the processors of all workers; None: not measured."""
    device_share: float | None = None
    """The share of the inputs that the device did; None: there is one side."""

    @property
    def rate(self) -> float:
        """Inputs a second."""
        return self.inputs / self.seconds


@dataclass(slots=True)
class RunBook:
    """All runs."""

    runs: dict[tuple[str, str], list[JobRunFigures]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """By arrangement: why it was not measured any more."""

    def add(self, job: str, name: str, figures: JobRunFigures) -> None:
        """Take a run."""
        self.runs.setdefault((job, name), []).append(figures)

    def rate(self, job: str, name: str) -> float:
        """Return the median rate of an arrangement."""
        return median(each.rate for each in self.runs[job, name])

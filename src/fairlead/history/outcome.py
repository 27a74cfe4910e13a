"""JobOutcome: what one job used from its start to its end; what the history learns from."""

from dataclasses import dataclass
from typing import Final

from fairlead.series import Series
from fairlead.units import Bytes, Seconds

NO_SERIES: Final = Series()


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What a job used. Times of its series are seconds since its start."""

    seconds: Seconds
    """From the start of the command to its end."""
    memory: Series = NO_SERIES
    """RAM, in bytes."""
    gpu_memory: Series = NO_SERIES
    """Of the accelerator of which it held the most, in bytes; empty: it held none, or it was not measured."""
    cpu_mean: int = 0
    """Thousandths of a core."""
    cpu_high: int = 0
    """Thousandths of a core: nineteen of twenty samples lie below."""
    busy: float | None = None
    """The mean busy share of its accelerators, 0 to 1; None: not reported."""
    joules: float | None = None
    """Its share of the energy of its accelerators, or without any of the processor; None: not measured."""
    used_accelerator: bool | None = None
    """None: its accelerators do not report their processes, or it had none."""
    settled: bool = False
    """It had stopped growing when it ended."""
    device_memory: Bytes | None = None
    """The memory of the accelerator that it was given; None: it had none, or unknown."""

    @property
    def peak_memory(self) -> Bytes:
        """The most RAM."""
        return Bytes(round(max(self.memory.values, default=0)))

    @property
    def peak_gpu_memory(self) -> Bytes:
        """The most memory of one accelerator."""
        return Bytes(round(max(self.gpu_memory.values, default=0)))

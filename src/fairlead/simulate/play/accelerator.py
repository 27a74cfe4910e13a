"""The real state of an accelerator: its jobs, their memory, its load and its power draw."""

from dataclasses import dataclass, field

from fairlead.placement import DeviceState
from fairlead.schedule.filter.interference import Slowdown
from fairlead.simulate.trace.job import PowerCurve


@dataclass(slots=True)
class SimulatedAccelerator:
    """One accelerator during a simulation."""

    node: str
    state: DeviceState
    power: PowerCurve | None
    held: dict[str, int] = field(default_factory=dict)
    """Bytes that each job at work holds."""
    loads: dict[str, float] = field(default_factory=dict)
    memory: int = 0
    load: float = 0.0

    def enter(self, job: str, load: float) -> None:
        """Start a job here; it holds no memory yet."""
        self.held[job], self.loads[job] = 0, load
        self.load = sum(self.loads.values())

    def leave(self, job: str) -> None:
        """End a job here."""
        self.memory -= self.held.pop(job, 0)
        self.loads.pop(job, None)
        self.load = sum(self.loads.values())

    def hold(self, job: str, memory: int) -> bool:
        """Set the memory that a job holds; False: there is not enough, and nothing changes."""
        grown = self.memory - self.held[job] + memory
        if memory > self.held[job] and grown > self.state.memory > 0:
            return False
        self.held[job], self.memory = memory, grown
        return True

    def slowdown(self, model: Slowdown) -> float:
        """Return the factor by which jobs here take longer than alone."""
        return model(len(self.loads), self.load)

    @property
    def busy(self) -> float:
        """The part of the accelerator that is at work, 0 to 1."""
        return min(1.0, self.load)

    @property
    def watts(self) -> float:
        """The current power draw."""
        return self.power.watts(len(self.loads), self.load) if self.power else 0.0

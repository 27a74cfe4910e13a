"""The real state of an accelerator: its jobs, their memory, its load and its power draw."""

from dataclasses import dataclass, field

from fairlead.placement import DeviceState
from fairlead.schedule.filter.interference import Slowdown
from fairlead.simulate.play.busy import busy_share
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
    outstanding: dict[str, float] = field(default_factory=dict)
    """Of jobs that state it: the share of time in which their context has work outstanding."""
    memory: int = 0
    load: float = 0.0
    overhead: int = 0
    """What the driver holds as long as any context is open."""

    def attach(self, job: str) -> None:
        """Open the context of a job here; it holds no memory yet, and does no work."""
        if not self.held:
            self.memory += self.overhead
        self.held[job] = 0

    def enter(self, job: str, load: float, outstanding: float | None = None) -> None:
        """Begin the work of a job here."""
        self.held.setdefault(job, 0)
        self.loads[job] = load
        if outstanding is not None:
            self.outstanding[job] = outstanding
        self.load = sum(self.loads.values())

    def leave(self, job: str) -> None:
        """End a job here."""
        if job in self.held and len(self.held) == 1:
            self.memory -= self.overhead
        self.memory -= self.held.pop(job, 0)
        self.loads.pop(job, None)
        self.outstanding.pop(job, None)
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
        if not self.outstanding:
            return min(1.0, self.load)
        return busy_share((load, self.outstanding.get(job, load)) for job, load in self.loads.items())

    @property
    def watts(self) -> float:
        """The current power draw."""
        if self.power is None:
            return 0.0
        if self.outstanding:
            return self.power.sliced_watts(self.busy)
        return self.power.watts(len(self.held), self.load)

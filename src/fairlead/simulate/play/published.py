"""The published policies in a simulation: their rules on simulated telemetry, in the authors' loop.

The authors' scheduler tries every waiting pod in one pass, sleeps half a second after each pass and some
seconds after each placement, and reads the memory of an accelerator from Prometheus at one sample a second.
Their exporter refreshed its values every 6 and 8 s in turn, so that seven samples show one value.
"""

from dataclasses import dataclass, field
from typing import Final

from fairlead.placement import Decision, Reason, Rejection
from fairlead.request import Request
from fairlead.schedule import decide
from fairlead.series import Series
from fairlead.share import DeviceShare
from fairlead.simulate.play.runs import RunningJobs
from fairlead.simulate.play.world import World
from fairlead.sizing.published import LEAST_WINDOW, measured_free
from fairlead.units import Bytes

WINDOW: Final = 600.0
"""The most seconds of telemetry that a rule reads."""


@dataclass(frozen=True, slots=True)
class SchedulerLoop:
    """The times of a scheduler that polls."""

    every: float = 0.8
    """Seconds of one pass: half a second of sleep, and the requests to the API server (from the log)."""
    rest: float = 5.0
    """Seconds without a pass after a placement."""
    refresh: float = 7.0
    """Seconds between two refreshes of the exporter's values."""
    scrape: float = 1.0
    """Seconds between two samples of the series."""
    bind: float = 0.5
    """Seconds from a decision to the binding."""


@dataclass
class PublishedPolicy:
    """A published policy: places by the request, or by the free memory that its rule grants."""

    name: str
    loop: SchedulerLoop = field(default_factory=SchedulerLoop)
    _world: World | None = None
    _awake: float = 0.0
    """The time of the next pass."""
    _gang: tuple[str, float] | None = None
    """The gang whose members are placed in this pass: the scheduler rests after the last one."""
    _read: float = -1.0
    """The time at which the measured free memory was read."""
    _placed: dict[tuple[str, str], float] = field(default_factory=dict)
    """The time of the last placement on each accelerator."""

    @property
    def every(self) -> float:
        """Seconds after which waiting jobs are tried again."""
        return self.loop.every

    @property
    def period(self) -> float:
        """Seconds between two samples."""
        return self.loop.refresh

    def attach(self, world: World, runs: RunningJobs) -> None:
        """Take the world, before the first event."""
        self._world = world

    def choose(self, world: World, request: Request, evict: bool) -> Decision:
        """Decide where a request goes; between two passes it goes nowhere."""
        if world is not self._world:  # empty machines, on which it only matters whether the job ever fits
            return decide(world.cluster, request, self.name)
        gang = (request.gang.name, world.now) if request.gang is not None else None
        if world.now < self._awake and (gang is None or gang != self._gang):
            return Decision(
                request, self.name, rejections=(Rejection(Reason.BUSY, "wait for the scheduler"),)
            )
        if world.now != self._read:
            self._read = world.now
            for node, device in world.accelerators:
                world.cluster.set_measured_free(node, device, self._free(world, node, device))
        decision = decide(world.cluster, request, self.name)
        if decision.placement is not None:
            self._awake, self._gang = world.now + self.loop.rest + self.loop.bind, gang
            for share in decision.placement.shares:
                self._placed[decision.placement.node, share.device] = world.now
        return decision

    def limit(self, request: Request, share: DeviceShare) -> int | None:
        """Return that the framework has no limit: the published policies enforce nothing."""
        return None

    def sample(self, now: float) -> tuple[str, ...]:
        """Return that no job is evicted."""
        return ()

    def ended(self, job: str, crashed: bool, now: float) -> None:
        """Learn nothing: the published policies have no memory of runs."""

    def evicted(self, job: str, now: float) -> None:
        """Learn nothing."""

    def _free(self, world: World, node: str, device: str) -> Bytes | None:
        placed = self._placed.get((node, device), 0.0)
        start = max(0.0, min(placed, world.now - LEAST_WINDOW), world.now - WINDOW)
        count = int((world.now - start) / self.loop.scrape) + 1
        times = [world.now - self.loop.scrape * (count - 1 - at) for at in range(count)]
        seen = [time - time % self.loop.refresh for time in times]
        readings = world.telemetry.window(node, device, seen)
        lead = len(times) - len(readings)
        values = [0.0] * lead + [float(reading.memory) for reading in readings]
        memory = world.accelerators[node, device].state.memory
        return measured_free(self.name, memory, Series(times, values), placed, world.now).memory

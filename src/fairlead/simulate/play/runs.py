"""Running jobs: they start, grow, slow each other down, run out of memory, and end."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.schedule.filter.interference import MODELS, Slowdown, price_factor
from fairlead.share import DeviceShare
from fairlead.simulate.play.accelerator import SimulatedAccelerator
from fairlead.simulate.play.events import EventKind, EventQueue, SimulationEvent
from fairlead.simulate.play.world import World
from fairlead.simulate.trace.job import Job, load_of
from fairlead.simulate.trace.settings import SimulationSettings

Limit = Callable[[Request, DeviceShare], int | None]
"""Returns the memory that a pod's framework may hold of a share; None: it has no limit."""
_WORK: Final = "work"
"""The detail of an event that ends a warm-up."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A job's part of one accelerator."""

    accelerator: SimulatedAccelerator
    load: float
    requested: int
    """The memory that it requests there."""
    limit: int | None = None
    """The memory that its framework may hold there; None: it has no limit."""


@dataclass(slots=True)
class RunningJob:
    """A job that has its place."""

    job: Job
    placements: tuple[Placement, ...]
    seats: tuple[Seat, ...]
    done: float
    """Seconds of its work that are done."""
    start: int
    """The number of its current start: events of earlier starts are void."""
    attached: bool = False
    """It has memory of its accelerators."""
    at_work: bool = False
    full_grown: bool = False
    """It takes no more memory: there was none for its next step, or its limit is reached."""
    pace: float = 0.0
    """Seconds of its work that one second of virtual time completes."""
    since: float = 0.0
    """The time at which `done` was computed."""
    plan: int = 0
    """The number of the current forecast of its end: earlier ones are void."""
    kills: int = field(default=0)


class RunningJobs:
    """All running jobs; updates accelerators and adds the events that follow."""

    def __init__(self, world: World, event_queue: EventQueue, settings: SimulationSettings) -> None:
        self._world, self._event_queue, self._settings = world, event_queue, settings
        self._slowdown = model_of(settings.interference, settings.price)
        self._alone = settings.interference == "none"
        self._sliced = settings.interference == "time-slicing"
        self._starts = 0
        self.all: dict[str, RunningJob] = {}
        self.finite = 0
        """The number of jobs with a finite duration."""

    def place(self, job: Job, placements: tuple[Placement, ...], done: float, limit: Limit) -> None:
        """Place a job; its work begins after its start-up time. `limit` returns the limit of a share."""
        seats = tuple(
            Seat(
                accelerator,
                load_of(job, placement.request, accelerator.state.memory),
                _requested(placement.request, share),
                limit(placement.request, share),
            )
            for placement in placements
            for share in placement.shares
            for accelerator in (self._world.accelerators[placement.node, share.device],)
        )
        run = RunningJob(job, placements, seats, done, 0)
        self.all[job.name] = run
        self.finite += job.duration < inf
        self._soon(run, self._stretched(run, job.start))

    def begin(self, event: SimulationEvent) -> bool:
        """Begin a job: open its contexts, and start its work after the warm-up; False: no memory for it."""
        run = self._meant(event)
        if run is None:
            return True
        if event.detail == _WORK:
            self._work(run)
            return True
        run.attached, run.full_grown = True, False
        for seat in run.seats:
            with self._world.changing(seat.accelerator):
                seat.accelerator.attach(run.job.name)
        if run.job.warm_up:
            at = self._world.now + self._stretched(run, run.job.warm_up)
            self._event_queue.put(at, EventKind.BEGIN, run.job.name, _WORK, version=run.start)
        else:
            self._work(run)
        return self._hold(run, 0)

    def grow(self, event: SimulationEvent) -> bool:
        """Grow a job to the next step of its memory; False: there was not enough."""
        run = self._meant(event)
        return run is None or self._hold(run, event.step)

    def set_limit(self, name: str, memory: int) -> None:
        """Change the limit of a job; an allocator gives back what is above it."""
        run = self.all[name]
        run.seats = tuple(replace(seat, limit=memory) for seat in run.seats)
        for seat in run.seats if run.attached else ():
            if seat.accelerator.held[name] > memory:
                with self._world.changing(seat.accelerator):
                    seat.accelerator.hold(name, memory)

    def kill(self, name: str) -> None:
        """Stop a job that ran out of memory, keep its place, and restart it after a back-off."""
        run = self.all[name]
        self._quit(run)
        run.done = run.done if self._settings.keep_progress else 0.0
        wait = self._back_off(run.kills)
        run.kills += 1
        starts_again = self._stretched(run, run.job.start) if run.job.warm_up else 0.0
        self._soon(run, wait + starts_again)

    def ends(self, event: SimulationEvent) -> bool:
        """Return whether a forecast of a job's end still holds."""
        run = self.all.get(event.subject)
        return run is not None and run.at_work and (run.start, run.plan) == (event.step, event.version)

    def remove(self, name: str) -> RunningJob:
        """Remove a job from its place, and return it with its progress."""
        run = self.all.pop(name)
        self.finite -= run.job.duration < inf
        self._quit(run)
        return run

    # Inside

    def _meant(self, event: SimulationEvent) -> RunningJob | None:
        run = self.all.get(event.subject)
        return run if run is not None and run.start == event.version else None

    def _soon(self, run: RunningJob, seconds: float) -> None:
        self._starts += 1
        run.start = self._starts
        self._event_queue.put(self._world.now + seconds, EventKind.BEGIN, run.job.name, version=run.start)

    def _back_off(self, kills: int) -> float:
        """Return the seconds until a restart: the kubelet's first one may come sooner than its back-off."""
        first = self._settings.restart_first
        if first is not None and not kills:
            return first
        doublings = kills - (first is not None)
        return float(min(self._settings.restart * 2.0**doublings, self._settings.restart_most))

    def _stretched(self, run: RunningJob, seconds: float) -> float:
        """Return the time of a part of the start-up: longer beside jobs that are at work."""
        crowded = any(seat.accelerator.loads for seat in run.seats)
        return seconds * run.job.crowded_start if crowded else seconds

    def _work(self, run: RunningJob) -> None:
        run.at_work, run.since, run.pace = True, self._world.now, 0.0
        for seat in run.seats:
            with self._world.changing(seat.accelerator):
                seat.accelerator.enter(run.job.name, seat.load, run.job.outstanding if self._sliced else None)
        self._repace(run.seats, run)

    def _hold(self, run: RunningJob, index: int) -> bool:
        steps = run.job.memory
        if run.full_grown:
            return True
        if not all(
            self._take(run, seat, steps[index].memory if steps else seat.requested) for seat in run.seats
        ):
            return False
        if index + 1 < len(steps):
            wait = steps[index + 1].after - steps[index].after
            self._event_queue.put(
                self._world.now + wait, EventKind.GROW, run.job.name, step=index + 1, version=run.start
            )
        return True

    def _take(self, run: RunningJob, seat: Seat, memory: int) -> bool:
        """Let a job take memory; False: it cannot run with what it has."""
        limited = seat.limit is not None and memory > seat.limit
        with self._world.changing(seat.accelerator):
            if not limited and seat.accelerator.hold(run.job.name, memory):
                return True
        run.full_grown = True
        least = run.job.least
        return least is not None and seat.accelerator.held[run.job.name] >= least

    def _quit(self, run: RunningJob) -> None:
        if not run.attached:
            return
        self._advance(run)
        run.attached = run.at_work = False
        for seat in run.seats:
            with self._world.changing(seat.accelerator):
                seat.accelerator.leave(run.job.name)
        self._repace(run.seats, None)

    def _repace(self, seats: Iterable[Seat], also: RunningJob | None) -> None:
        """Forecast again the end of every job on these accelerators, and of one more."""
        names = (
            () if self._alone else dict.fromkeys(name for seat in seats for name in seat.accelerator.loads)
        )
        runs = [run for name in names if (run := self.all[name]) is not also]
        for run in (*runs, also) if also else runs:
            crowd = max((seat.accelerator.slowdown(self._slowdown) for seat in run.seats), default=1.0)
            slowest = max(crowd, run.job.least_slowdown)
            if run.pace == 1.0 / slowest:
                continue
            self._advance(run)
            run.pace = 1.0 / slowest
            run.plan += 1
            left = (run.job.duration - run.done) / run.pace
            if left < inf:
                end = self._world.now + max(0.0, left)
                self._event_queue.put(end, EventKind.FINISH, run.job.name, step=run.start, version=run.plan)

    def _advance(self, run: RunningJob) -> None:
        if run.at_work:
            run.done += (self._world.now - run.since) * run.pace
            run.since = self._world.now


def model_of(interference: str, price: float | None) -> Slowdown:
    """Return a model of interference; with a price of its own for each co-runner, where one is given."""
    if price is None or interference == "none":
        return MODELS[interference]
    return lambda jobs, load: price_factor(float(max(0, jobs - 1)), price) * max(1.0, load)


def no_limit(request: Request, share: DeviceShare) -> int | None:
    """Return that the framework has no limit: a request limits nothing."""
    return None


def _requested(request: Request, share: DeviceShare) -> int:
    """Return the memory requested of an accelerator, which may be less than what is allocated."""
    return share.memory if request.demand.memory is None else request.demand.memory

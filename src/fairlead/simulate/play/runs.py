"""Running jobs: they start, grow, slow each other down, run out of memory, and end."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from fairlead.placement import DeviceShare, Placement
from fairlead.request import Request
from fairlead.schedule.filter.interference import MODELS
from fairlead.simulate.play.accelerator import SimulatedAccelerator
from fairlead.simulate.play.events import EventKind, EventQueue, SimulationEvent
from fairlead.simulate.play.world import World
from fairlead.simulate.trace.job import Job, load_of
from fairlead.simulate.trace.settings import SimulationSettings


@dataclass(slots=True)
class RunningJob:
    """A job that has its place."""

    job: Job
    placements: tuple[Placement, ...]
    accelerators: tuple[tuple[SimulatedAccelerator, float, int], ...]
    """Its accelerators, the load it puts on each, and the memory it requests there."""
    done: float
    """Seconds of its work that are done."""
    start: int
    """The number of its current start: events of earlier starts are void."""
    at_work: bool = False
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
        self._slowdown = MODELS[settings.interference]
        self._alone = settings.interference == "none"
        self._starts = 0
        self.all: dict[str, RunningJob] = {}
        self.finite = 0
        """The number of jobs with a finite duration."""

    def place(self, job: Job, placements: tuple[Placement, ...], done: float) -> None:
        """Place a job; its work begins after its start-up time."""
        accelerators = tuple(
            (
                accelerator,
                load_of(job, placement.request, accelerator.state.memory),
                _requested(placement.request, share),
            )
            for placement in placements
            for share in placement.shares
            for accelerator in (self._world.accelerators[placement.node, share.device],)
        )
        run = RunningJob(job, placements, accelerators, done, 0)
        self.all[job.name] = run
        self.finite += job.duration < inf
        self._soon(run, job.start)

    def begin(self, event: SimulationEvent) -> bool:
        """Begin the work of a job; False: there was no memory for it."""
        run = self._meant(event)
        if run is None:
            return True
        run.at_work, run.since, run.pace = True, self._world.now, 0.0
        for accelerator, load, _ in run.accelerators:
            with self._world.changing(accelerator):
                accelerator.enter(run.job.name, load)
        self._repace(run.accelerators, run)
        return self._hold(run, 0)

    def grow(self, event: SimulationEvent) -> bool:
        """Grow a job to the next step of its memory; False: there was not enough."""
        run = self._meant(event)
        return run is None or self._hold(run, event.step)

    def kill(self, name: str) -> None:
        """Stop a job that ran out of memory, keep its place, and restart it after a back-off."""
        run = self.all[name]
        self._quit(run)
        run.done = run.done if self._settings.keep_progress else 0.0
        wait = min(self._settings.restart * 2.0**run.kills, self._settings.restart_most)
        run.kills += 1
        self._soon(run, wait)

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

    def _hold(self, run: RunningJob, index: int) -> bool:
        steps, name = run.job.memory, run.job.name
        for accelerator, _, requested in run.accelerators:
            memory = steps[index].memory if steps else requested
            with self._world.changing(accelerator):
                held = accelerator.hold(name, memory)
            if not held:
                return False
        if index + 1 < len(steps):
            wait = steps[index + 1].after - steps[index].after
            self._event_queue.put(
                self._world.now + wait, EventKind.GROW, name, step=index + 1, version=run.start
            )
        return True

    def _quit(self, run: RunningJob) -> None:
        if not run.at_work:
            return
        self._advance(run)
        run.at_work = False
        for accelerator, _, _ in run.accelerators:
            with self._world.changing(accelerator):
                accelerator.leave(run.job.name)
        self._repace(run.accelerators, None)

    def _repace(
        self, accelerators: Iterable[tuple[SimulatedAccelerator, float, int]], also: RunningJob | None
    ) -> None:
        """Forecast again the end of every job on these accelerators, and of one more."""
        names = (
            ()
            if self._alone
            else dict.fromkeys(name for accelerator, _, _ in accelerators for name in accelerator.loads)
        )
        runs = [run for name in names if (run := self.all[name]) is not also]
        for run in (*runs, also) if also else runs:
            slowest = max(
                (accelerator.slowdown(self._slowdown) for accelerator, _, _ in run.accelerators), default=1.0
            )
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
        run.done += (self._world.now - run.since) * run.pace
        run.since = self._world.now


def _requested(request: Request, share: DeviceShare) -> int:
    """Return the memory requested of an accelerator, which may be less than what is allocated."""
    return share.memory if request.demand.memory is None else request.demand.memory

"""One policy against one trace: take the next event, change the world, let those try who could now fit."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from fairlead.compat import StrEnum
from fairlead.placement import Decision, Placement
from fairlead.simulate.play.admission import Admission, AdmittedJob
from fairlead.simulate.play.events import EventKind, EventQueue, SimulationEvent
from fairlead.simulate.play.faults import fault_processes
from fairlead.simulate.play.runs import RunningJobs
from fairlead.simulate.play.waiting import JobQueue, WaitingJob
from fairlead.simulate.play.world import PlacementPolicy, World
from fairlead.simulate.report.recorder import SeriesRecorder
from fairlead.simulate.trace.job import Fault, Job, SimulatedFleet, Trace
from fairlead.simulate.trace.settings import SimulationSettings

_TELL: Final = 256
"""Progress is told after so many events."""


_LOOKS: Final = 2000
"""How often fragments are measured while jobs arrive: they change slowly, and cost much."""


class JobState(StrEnum):
    """How a job stands."""

    TO_COME = "to-come"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(slots=True)
class JobRecord:
    """What became of a job."""

    job: Job
    state: JobState = JobState.TO_COME
    placed: float | None = None
    """When it first had its place."""
    finished: float | None = None
    kills: int = 0
    """How often it ran out of memory."""
    evictions: int = 0
    """How often it had to go, for a higher priority or a fault."""
    preemptions: int = 0
    """How many of those were for a higher priority."""
    refusal: Decision | None = None
    """The first no that it got."""


@dataclass(frozen=True)
class SimulationOutcome:
    """What came of one policy on one trace."""

    policy: str
    records: tuple[JobRecord, ...]
    recorder: SeriesRecorder
    end: float
    """Seconds of virtual time."""
    events: int
    decisions: int
    faults: int


@dataclass
class Simulation:
    """The state of one run; `play` moves it to its end."""

    trace: Trace
    fleet: SimulatedFleet
    policy: PlacementPolicy
    settings: SimulationSettings = field(default_factory=SimulationSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        requests = [request for job in self.trace.jobs for request in job.requests]
        self.world, pristine = World(self.fleet, requests), World(self.fleet, requests)
        self.world.grain = max((job.arrival for job in self.trace.jobs), default=0.0) / _LOOKS
        self.agenda, self.recorder = EventQueue(), SeriesRecorder()
        self.queue = JobQueue(self.settings.queue, Random(f"{self.seed}/queue"))  # noqa: S311 - a simulation, no secret
        self.runs = RunningJobs(self.world, self.agenda, self.settings)
        self.admission = Admission(self.world, pristine, self.policy, preemption=self.settings.preemption)
        self.records = {job.name: JobRecord(job) for job in self.trace.jobs}
        self._owner = {request.id: job.name for job in self.trace.jobs for request in job.requests}
        self._to_come = len(self.trace.jobs)
        self._fates = fault_processes(self.fleet.nodes, self.trace.failures, self.seed)
        self._owed: set[tuple[str, str]] | None = None
        self.events = self.faults = 0
        for job in self.trace.jobs:
            self.agenda.put(job.arrival, EventKind.ARRIVE, job.name)
        for fault in (*self.trace.faults, *(fate.after(0.0) for fate in self._fates.values())):
            self._schedule(fault)
        self._record()

    def play(self, progress: Callable[[int], None] = lambda _: None) -> SimulationOutcome:
        """Play to the end; `progress` is told how many jobs are behind it."""
        handlers: dict[EventKind, Callable[[SimulationEvent], None]] = {
            EventKind.ARRIVE: self._arrive,
            EventKind.BEGIN: self._begin,
            EventKind.GROW: self._grow,
            EventKind.FINISH: self._finish,
            EventKind.FAIL: self._fail,
            EventKind.REPAIR: self._repair,
            EventKind.LOOK: self._look,
        }
        while not self._over() and (event := self.agenda.take()) is not None:
            if event.at > self.settings.until:
                self.world.now = self.settings.until
                break
            if event.kind is EventKind.FINISH and not self.runs.ends(event):
                continue
            self.events += 1
            self.world.now = event.at
            handlers[event.kind](event)
            if self.agenda.next_at() != event.at:  # what does not last is not recorded
                self._record()
            if self.events % _TELL == 0:
                progress(len(self.records) - self._to_come)
        self._record()
        self.recorder.pass_to(self.world.now)
        lives = tuple(self.records.values())
        counts = (self.events, self.admission.asked, self.faults)
        return SimulationOutcome(self.policy.name, lives, self.recorder, self.world.now, *counts)

    # What happens

    def _arrive(self, event: SimulationEvent) -> None:
        self._to_come -= 1
        self._admit(self.records[event.subject].job)

    def _begin(self, event: SimulationEvent) -> None:
        if not self.runs.begin(event):
            self._kill(event.subject)

    def _grow(self, event: SimulationEvent) -> None:
        if not self.runs.grow(event):
            self._kill(event.subject)

    def _finish(self, event: SimulationEvent) -> None:
        life = self.records[event.subject]
        life.state, life.finished = JobState.DONE, self.world.now
        self._wake(self._clear(event.subject)[1])

    def _fail(self, event: SimulationEvent) -> None:
        thing = (event.subject, event.detail)
        if thing not in self.world.broken:
            self.faults += 1
            hit = [name for name, run in self.runs.all.items() if _is_on(run.placements, *thing)]
            cleared = [self._clear(name) for name in hit]
            self.world.fail(*thing)
            for job, _, done in cleared:
                self.records[job.name].evictions += 1
                self._admit(job, done if self.settings.keep_progress else 0.0)
            self._wake({node for _, nodes, _ in cleared for node in nodes})

    def _repair(self, event: SimulationEvent) -> None:
        thing = (event.subject, event.detail)
        self.world.repair(*thing)
        if self._owed:
            self._owed.discard(thing)
        if thing in self._fates:
            self._schedule(self._fates[thing].after(self.world.now))
        self._wake({event.subject})

    def _look(self, event: SimulationEvent) -> None:
        self._retry()
        self._look_again()

    # What follows from it

    def _admit(self, job: Job, done: float = 0.0) -> None:
        """Give a job its place, or let it wait, or refuse it for good."""
        answer = self.admission.attempt(job)
        if isinstance(answer, AdmittedJob):
            self._place(job, answer, done)
            return
        life = self.records[job.name]
        life.refusal = life.refusal or answer
        if (never := self.admission.never(job)) is not None:
            life.state, life.refusal = JobState.REFUSED, never
            return
        life.state = JobState.WAITING
        self.queue.enter(WaitingJob(job, self.admission.kind(job), done, self.world.now))
        if len(self.queue) == 1:
            self._look_again()

    def _place(self, job: Job, admitted: AdmittedJob, done: float) -> None:
        life = self.records[job.name]
        life.state = JobState.RUNNING
        life.placed = self.world.now if life.placed is None else life.placed
        self.admission.priorities[job.priority] += 1
        self.world.count(admitted.placements)
        victims = dict.fromkeys(self._owner[request] for request in admitted.victims)
        cleared = [self._clear(name) for name in victims]
        self.runs.place(job, admitted.placements, done)
        for victim, _, behind in cleared:
            self.records[victim.name].evictions += 1
            self.records[victim.name].preemptions += 1
            self._admit(victim, behind if self.settings.keep_progress else 0.0)
        if cleared:  # a gang that had to go leaves more room than was asked for
            self._wake({node for _, nodes, _ in cleared for node in nodes})

    def _clear(self, name: str) -> tuple[Job, set[str], float]:
        """Take a job from its place; return it, the nodes it was on, and what it has done."""
        run = self.runs.remove(name)
        self.world.release(run.placements)
        self.admission.priorities[run.job.priority] -= 1
        self.admission.priorities += Counter()  # drops those that nobody has
        return run.job, {placement.node for placement in run.placements}, run.done

    def _kill(self, name: str) -> None:
        life = self.records[name]
        life.kills += 1
        if life.kills < self.settings.kills:
            self.runs.kill(name)
            return
        life.state = JobState.FAILED
        self._wake(self._clear(name)[1])

    def _wake(self, nodes: Iterable[str]) -> None:
        """Let those try again who could be helped by room on these nodes."""
        if len(self.queue):
            self.admission.freed(nodes)
            self._retry()

    def _retry(self) -> None:
        hopeful = {kind for kind in self.queue.kinds() if not self.admission.is_stuck(kind)}
        line = self.queue.line(self.world.now, hopeful)
        for waiting in line:
            if (
                waiting.over or waiting.kind not in hopeful
            ):  # placed by what followed, or like one just refused
                continue
            answer = self.admission.attempt(waiting.job)
            if isinstance(answer, AdmittedJob):
                self.queue.leave(waiting)
                self._place(waiting.job, answer, waiting.done)
            elif waiting.kind is not None:
                hopeful.discard(waiting.kind)
        self.queue.tried(line, self.world.now)

    def _look_again(self) -> None:
        if self.policy.every is not None and len(self.queue):
            self.agenda.put(self.world.now + self.policy.every, EventKind.LOOK, "")

    def _schedule(self, fault: Fault) -> None:
        self.agenda.put(fault.at, EventKind.FAIL, fault.node, fault.device)
        if fault.seconds is not None:
            self.agenda.put(fault.at + fault.seconds, EventKind.REPAIR, fault.node, fault.device)

    def _over(self) -> bool:
        """Say whether nothing more can come; those left over wait for what was down when all else ended."""
        if self._to_come or self.runs.finite:
            self._owed = None
            return False
        if self._owed is None:
            self._owed = set(self.world.broken)
        return not len(self.queue) or not self._owed

    def _record(self) -> None:
        self.recorder.set(self.world.now, self.world.gauge(len(self.queue), len(self.runs.all)))


def _is_on(placements: Iterable[Placement], node: str, device: str) -> bool:
    """Say whether any of these is on a node, or on an accelerator of it."""
    return any(
        placement.node == node and (not device or any(share.device == device for share in placement.shares))
        for placement in placements
    )

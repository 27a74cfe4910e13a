"""Play one policy on one trace: take the next event, update the world, retry jobs that could now fit."""

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
from fairlead.simulate.play.measuring import MeasuringPolicy
from fairlead.simulate.play.runs import RunningJobs, no_limit
from fairlead.simulate.play.waiting import JobQueue, WaitingJob
from fairlead.simulate.play.world import PlacementPolicy, World
from fairlead.simulate.report.recorder import SeriesRecorder
from fairlead.simulate.trace.job import Fault, Job, SimulatedFleet, Trace
from fairlead.simulate.trace.settings import SimulationSettings

_PROGRESS_EVENTS: Final = 256
"""Events between two reports of progress."""


_FRAGMENT_SAMPLES: Final = 2000
"""How often fragments are measured while jobs arrive: they change slowly and are expensive."""


class JobState(StrEnum):
    """The state of a job."""

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
    """When it was first placed."""
    finished: float | None = None
    kills: int = 0
    """How often it ran out of memory."""
    evictions: int = 0
    """How often it was evicted, by preemption or by a fault."""
    preemptions: int = 0
    """How many of the evictions were preemptions."""
    refusal: Decision | None = None
    """Its first refusal."""


@dataclass(frozen=True)
class SimulationOutcome:
    """The result of one policy on one trace."""

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
        self.world.grain = max((job.arrival for job in self.trace.jobs), default=0.0) / _FRAGMENT_SAMPLES
        self.event_queue, self.recorder = EventQueue(), SeriesRecorder()
        self.queue = JobQueue(self.settings.queue, Random(f"{self.seed}/queue"))  # noqa: S311 - a simulation, no secret
        self.runs = RunningJobs(self.world, self.event_queue, self.settings)
        self.admission = Admission(self.world, pristine, self.policy, preemption=self.settings.preemption)
        self._measuring = self.policy if isinstance(self.policy, MeasuringPolicy) else None
        if self._measuring:
            self._measuring.attach(self.world, self.runs)
            self.event_queue.put(0.0, EventKind.SAMPLE, "")
        self.records = {job.name: JobRecord(job) for job in self.trace.jobs}
        self._owner = {request.id: job.name for job in self.trace.jobs for request in job.requests}
        self._not_arrived = len(self.trace.jobs)
        self._fault_processes = fault_processes(self.fleet.nodes, self.trace.failures, self.seed)
        self._awaited_repairs: set[tuple[str, str]] | None = None
        self.events = self.faults = 0
        for job in self.trace.jobs:
            self.event_queue.put(job.arrival, EventKind.ARRIVE, job.name)
        for fault in (
            *self.trace.faults,
            *(process.after(0.0) for process in self._fault_processes.values()),
        ):
            self._schedule(fault)
        self._record()

    def play(self, progress: Callable[[int], None] = lambda _: None) -> SimulationOutcome:
        """Play to the end; `progress` receives the number of jobs that have arrived."""
        handlers: dict[EventKind, Callable[[SimulationEvent], None]] = {
            EventKind.ARRIVE: self._arrive,
            EventKind.BEGIN: self._begin,
            EventKind.GROW: self._grow,
            EventKind.FINISH: self._finish,
            EventKind.FAIL: self._fail,
            EventKind.REPAIR: self._repair,
            EventKind.RETRY: self._periodic_retry,
            EventKind.SAMPLE: self._sample,
        }
        while not self._is_over() and (event := self.event_queue.take()) is not None:
            if event.at > self.settings.until:
                self.world.now = self.settings.until
                break
            if event.kind is EventKind.FINISH and not self.runs.ends(event):
                continue
            self.events += 1
            self.world.now = event.at
            handlers[event.kind](event)
            if self.event_queue.next_at() != event.at:  # a state that lasts no time is not recorded
                self._record()
            if self.events % _PROGRESS_EVENTS == 0:
                progress(len(self.records) - self._not_arrived)
        self._record()
        self.recorder.pass_to(self.world.now)
        records = tuple(self.records.values())
        counts = (self.events, self.admission.decisions, self.faults)
        return SimulationOutcome(self.policy.name, records, self.recorder, self.world.now, *counts)

    # Events

    def _arrive(self, event: SimulationEvent) -> None:
        self._not_arrived -= 1
        self._admit(self.records[event.subject].job)

    def _begin(self, event: SimulationEvent) -> None:
        if not self.runs.begin(event):
            self._kill(event.subject)

    def _grow(self, event: SimulationEvent) -> None:
        if not self.runs.grow(event):
            self._kill(event.subject)

    def _finish(self, event: SimulationEvent) -> None:
        record = self.records[event.subject]
        record.state, record.finished = JobState.DONE, self.world.now
        self._tell_end(event.subject, crashed=False)
        self._retry_on(self._clear(event.subject)[1])

    def _fail(self, event: SimulationEvent) -> None:
        target = (event.subject, event.detail)
        if target not in self.world.broken:
            self.faults += 1
            affected = [name for name, run in self.runs.all.items() if _is_on(run.placements, *target)]
            cleared = [self._clear(name) for name in affected]
            self.world.fail(*target)
            for job, _, done in cleared:
                self.records[job.name].evictions += 1
                self._admit(job, done if self.settings.keep_progress else 0.0)
            self._retry_on({node for _, nodes, _ in cleared for node in nodes})

    def _repair(self, event: SimulationEvent) -> None:
        target = (event.subject, event.detail)
        self.world.repair(*target)
        if self._awaited_repairs:
            self._awaited_repairs.discard(target)
        if target in self._fault_processes:
            self._schedule(self._fault_processes[target].after(self.world.now))
        self._retry_on({event.subject})

    def _periodic_retry(self, event: SimulationEvent) -> None:
        self._retry()
        self._schedule_retry()

    def _sample(self, event: SimulationEvent) -> None:
        """Let the policy read what is measured now, and evict what it names."""
        if self._measuring is None:
            return
        for name in self._measuring.sample(self.world.now):
            job, nodes, done = self._clear(name)
            self.records[name].evictions += 1
            self._admit(job, done if self.settings.keep_progress else 0.0)
            self._retry_on(nodes)
        self.event_queue.put(self.world.now + self._measuring.period, EventKind.SAMPLE, "")

    # Consequences

    def _tell_end(self, name: str, *, crashed: bool) -> None:
        if self._measuring:
            self._measuring.ended(name, crashed, self.world.now)

    def _admit(self, job: Job, done: float = 0.0) -> None:
        """Place a job, or queue it, or refuse it for good."""
        answer = self.admission.admit(job)
        if isinstance(answer, AdmittedJob):
            self._place(job, answer, done)
            return
        record = self.records[job.name]
        record.refusal = record.refusal or answer
        if (never := self.admission.never_fits(job)) is not None:
            record.state, record.refusal = JobState.REFUSED, never
            return
        record.state = JobState.WAITING
        self.queue.add(WaitingJob(job, self.admission.kind(job), done, self.world.now))
        if len(self.queue) == 1:
            self._schedule_retry()

    def _place(self, job: Job, admitted: AdmittedJob, done: float) -> None:
        record = self.records[job.name]
        record.state = JobState.RUNNING
        record.placed = self.world.now if record.placed is None else record.placed
        self.admission.priorities[job.priority] += 1
        self.world.count(admitted.placements)
        victims = dict.fromkeys(self._owner[request] for request in admitted.victims)
        cleared = [self._clear(name) for name in victims]
        limit = self._measuring.limit if self._measuring else no_limit
        self.runs.place(job, admitted.placements, done, limit)
        for victim, _, progress in cleared:
            self.records[victim.name].evictions += 1
            self.records[victim.name].preemptions += 1
            self._admit(victim, progress if self.settings.keep_progress else 0.0)
        if cleared:  # an evicted gang frees more capacity than the job takes
            self._retry_on({node for _, nodes, _ in cleared for node in nodes})

    def _clear(self, name: str) -> tuple[Job, set[str], float]:
        """Remove a job from its place; return it, its nodes and its progress."""
        if self._measuring and self.records[name].state is JobState.RUNNING:
            self._measuring.evicted(name, self.world.now)
        run = self.runs.remove(name)
        self.world.release(run.placements)
        self.admission.priorities[run.job.priority] -= 1
        self.admission.priorities += Counter()  # drops priorities that no job has
        return run.job, {placement.node for placement in run.placements}, run.done

    def _kill(self, name: str) -> None:
        record = self.records[name]
        record.kills += 1
        self._tell_end(name, crashed=True)
        if record.kills < self.settings.kills:
            self.runs.kill(name)
            return
        record.state = JobState.FAILED
        self._retry_on(self._clear(name)[1])

    def _retry_on(self, nodes: Iterable[str]) -> None:
        """Retry queued jobs that free capacity on these nodes could help."""
        if len(self.queue):
            self.admission.freed(nodes)
            self._retry()

    def _retry(self) -> None:
        retriable = {kind for kind in self.queue.kinds() if not self.admission.is_refused(kind)}
        line = self.queue.in_order(self.world.now, retriable)
        for waiting in line:
            if (
                waiting.over or waiting.kind not in retriable
            ):  # placed meanwhile, or of a kind that was just refused
                continue
            answer = self.admission.admit(waiting.job)
            if isinstance(answer, AdmittedJob):
                self.queue.remove(waiting)
                self._place(waiting.job, answer, waiting.done)
            elif waiting.kind is not None:
                retriable.discard(waiting.kind)
        self.queue.record_attempts(line, self.world.now)

    def _schedule_retry(self) -> None:
        if self.policy.every is not None and len(self.queue):
            self.event_queue.put(self.world.now + self.policy.every, EventKind.RETRY, "")

    def _schedule(self, fault: Fault) -> None:
        self.event_queue.put(fault.at, EventKind.FAIL, fault.node, fault.device)
        if fault.seconds is not None:
            self.event_queue.put(fault.at + fault.seconds, EventKind.REPAIR, fault.node, fault.device)

    def _is_over(self) -> bool:
        """Return whether the simulation is over; at the end, queued jobs still wait for pending repairs."""
        if self._not_arrived or self.runs.finite:
            self._awaited_repairs = None
            return False
        if self._awaited_repairs is None:
            self._awaited_repairs = set(self.world.broken)
        return not len(self.queue) or not self._awaited_repairs

    def _record(self) -> None:
        self.recorder.set(self.world.now, self.world.gauge(len(self.queue), len(self.runs.all)))


def _is_on(placements: Iterable[Placement], node: str, device: str) -> bool:
    """Return whether any of these is on a node, or on one accelerator of it."""
    return any(
        placement.node == node and (not device or any(share.device == device for share in placement.shares))
        for placement in placements
    )

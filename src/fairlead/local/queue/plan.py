"""plan_queue: every process that decides for this machine's queue computes the same plan."""

from collections.abc import Collection, Sequence
from typing import Final

from fairlead.compat import StrEnum
from fairlead.job import LocalJob, LocalState
from fairlead.local.queue.admission import CpuAdmission
from fairlead.local.queue.forecast import MOST as MOST_FORECAST
from fairlead.local.queue.forecast import HeldRoom, forecast
from fairlead.local.queue.limits import MachineLimits
from fairlead.local.queue.order import start_order
from fairlead.local.queue.reasons import WaitReasons, dependency_failed, jobs_ahead, waits_for
from fairlead.local.queue.requests import JobReader, QueuedJob
from fairlead.local.queue.reserve import Reservation, expected_end, expected_length
from fairlead.local.queue.room import FreeRoom
from fairlead.local.queue.state import MachineState, machine_state
from fairlead.local.view import MachineView, QueuePlan, StartDecision, WaitDecision
from fairlead.placement import Placement
from fairlead.schedule.decision.decide import decide
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.units import Seconds

DEFAULT_POLICY: Final = "fairlead-safe"
MOST_REFUSALS: Final = 32
"""Refusals of the engine after which no further job for accelerators is tried: the rest waits for the next
plan. Amounts alone decide for the others."""
EXPLAINED: Final = 8
"""Jobs at the front of the queue whose reasons are worked out if the caller names none."""


def plan_queue(
    view: MachineView,
    jobs: Sequence[LocalJob],
    policy: str = DEFAULT_POLICY,
    *,
    reasons_for: Collection[str] | None = None,
) -> QueuePlan:
    """Return which queued jobs start now and where, and why the others wait.

    `jobs` are all jobs of the machine: queued, running, and the ended ones that are still known. Reasons and
    expected starts cost more than the decision itself: they are worked out for the jobs in `reasons_for`, or
    for the first ones; the others are only counted.
    """
    state = machine_state(view, jobs)
    order = start_order((job for job in jobs if job.state is LocalState.QUEUED), state.running)
    planner = _Planner(state, {job.id: job for job in jobs}, len(order), policy_named(policy))
    for job in order:
        planner.consider(job)
    return planner.plan(reasons_for)


class _Cause(StrEnum):
    """What a waiting job waits for."""

    JOB = "another job"
    CORES = "cores"
    ROOM = "room"
    HEAD = "the head of the queue"
    FAULT = "a healthy accelerator"
    NEVER = "nothing: it can never start"


class _Planner:
    """The plan as it grows, job by job."""

    def __init__(self, state: MachineState, jobs: dict[str, LocalJob], queued: int, policy: Policy) -> None:
        self._state, self._jobs, self._policy = state, jobs, policy
        # A model goes where it is fastest, under the same rules about memory, SLOs and slowdown.
        swift = policy_named("fastest").scores if policy.name == DEFAULT_POLICY else policy.scores
        self._model_policy = policy._replace(scores=swift)
        self._reader = JobReader(state.view)
        self._limits = MachineLimits(state.view, policy)
        self._admission = CpuAdmission(state, queued)
        self._cluster = state.cluster()
        self._room = FreeRoom(self._cluster)
        self._starts: dict[str, tuple[LocalJob, Placement]] = {}
        self._waits: dict[str, tuple[_Cause, LocalJob]] = {}
        self._never: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._head: QueuedJob | None = None
        self._reservation: Reservation | None = None
        self._refusals = 0

    def consider(self, job: LocalJob) -> None:
        """Decide for the next job of the order."""
        cause = self._dependency(job) if job.after else None
        if cause is None:
            queued = self._reader.read(job)
            cause = self._unfit(queued) or self._start(queued)
        if cause is not None:
            self._waits[job.id] = cause, job

    def _unfit(self, queued: QueuedJob) -> _Cause | None:
        """Return why even an empty machine could not start a job now; None: it could."""
        if never := self._limits.objection(queued):
            self._never[queued.job.id] = never
            return _Cause.NEVER
        if faults := self._limits.faults(queued):
            self._faults[queued.job.id] = faults
            return _Cause.FAULT  # it is never the head of the queue: no other job waits for it
        return None

    def _dependency(self, job: LocalJob) -> _Cause | None:
        for name in job.after:
            other = self._jobs.get(name)
            if other is None:
                self._never[job.id] = f"job {name}, which it waits for, is not known here"
                return _Cause.NEVER
            if other.state.ended and other.state is not LocalState.DONE:
                self._never[job.id] = dependency_failed(other)
                return _Cause.NEVER
        return _Cause.JOB if any(not self._jobs[name].state.ended for name in job.after) else None

    def _start(self, queued: QueuedJob) -> _Cause | None:
        """Start a job if it may; else return what it waits for."""
        if not self._admission.admits(queued.job):
            return _Cause.CORES
        tired = self._refusals >= MOST_REFUSALS and queued.job.assumed.gpus > 0
        if tired or not self._room.has_amounts(queued):
            return self._lacks_room(queued)
        reservation = self._reserved()
        if reservation is not None and not reservation.may_allow(queued):
            return _Cause.HEAD
        placement = self._place(queued)
        if placement is None:
            return self._lacks_room(queued)
        if reservation is not None and not reservation.allows(queued.job, placement):
            self._refusals += 1
            return _Cause.HEAD
        self._bind(queued.job, placement)
        return None

    def _lacks_room(self, queued: QueuedJob) -> _Cause:
        self._head = self._head or queued
        return _Cause.ROOM

    def _place(self, queued: QueuedJob) -> Placement | None:
        if not self._room.may_fit(queued):
            return None
        placement = decide(self._cluster, queued.request, self._policy_of(queued), explain=False).placement
        self._refusals += placement is None
        return placement

    def _bind(self, job: LocalJob, placement: Placement) -> None:
        self._cluster.bind(placement, strict=False)
        self._room = FreeRoom(self._cluster)
        self._admission.add(job)
        self._starts[job.id] = job, placement

    def _reserved(self) -> Reservation | None:
        """Return the reservation of the first job that lacks room, if there is one."""
        if self._reservation is None and self._head is not None:
            started, policy = list(self._starts.values()), self._policy_of(self._head)
            self._reservation = Reservation(self._state, self._head, started, policy)
        return self._reservation

    def _policy_of(self, queued: QueuedJob) -> Policy:
        return self._model_policy if queued.job.assumed.devices else self._policy

    # The plan

    def plan(self, reasons_for: Collection[str] | None) -> QueuePlan:
        """Return the decisions for all jobs."""
        starts = {
            name: StartDecision(placement.shares, job.assumed.cpu)
            for name, (job, placement) in self._starts.items()
        }
        waiting = [job for cause, job in self._waits.values() if cause is not _Cause.NEVER]
        named = {job.id for job in waiting[:EXPLAINED]} if reasons_for is None else frozenset(reasons_for)
        expected = self._expected([job for job in waiting if job.id not in self._faults], named)
        reasons = WaitReasons(self._state, self._cluster, self._policy)
        waits, position = {}, 0
        for name, (cause, job) in self._waits.items():
            if cause is _Cause.NEVER:
                waits[name] = WaitDecision(position + 1, self._never[name], impossible=True)
                continue
            reason = self._reason(cause, job, reasons) if name in named else self._faults.get(name, "")
            position += 1
            text, faulty = reason or jobs_ahead(position - 1), cause is _Cause.FAULT
            waits[name] = WaitDecision(position, text, expected.get(name), faulty=faulty)
        return QueuePlan(starts, waits)

    def _reason(self, cause: _Cause, job: LocalJob, reasons: WaitReasons) -> str:
        if cause is _Cause.JOB:
            other = next(self._jobs[name] for name in job.after if not self._jobs[name].state.ended)
            return waits_for(other, self._state.view.at)
        if cause is _Cause.FAULT:
            return self._faults[job.id]
        if cause is _Cause.CORES:
            return reasons.cores(self._admission, len(self._starts))
        if cause is _Cause.HEAD and self._reservation is not None:
            return reasons.held_back(self._reservation)
        return reasons.room(self._reader.read(job))

    def _expected(self, waiting: Sequence[LocalJob], named: Collection[str]) -> dict[str, Seconds]:
        """Return the expected starts of the first jobs, if the reasons of any of them are asked for."""
        first = waiting[:MOST_FORECAST]
        held = self._held()
        if not any(job.id in named for job in first) or all(one.end is None for one in held):
            return {}
        done = [job.id for job in self._jobs.values() if job.state is LocalState.DONE]
        queue = [self._reader.read(job) for job in first]
        cpu = self._admission.limit - self._admission.load
        return forecast(self._state.view.at, self._room.free, cpu, held, queue, done)

    def _held(self) -> list[HeldRoom]:
        """Return what running jobs, and those that start now, give back at their ends."""
        now, counts = self._state.view.at, self._state.counts
        held = []
        for job in self._state.running:
            count, end = counts[job.id], expected_end(job, now)
            wanted = 0 if count.firm_cpu else count.cpu
            held.append(HeldRoom(job.id, end, count.memory, count.firm_cpu, wanted, count.shares))
        for job, placement in self._starts.values():
            request, length = placement.request, expected_length(job)
            end = None if length is None else now + length
            wanted = 0 if request.cpu else job.assumed.cpu
            held.append(HeldRoom(job.id, end, request.memory, request.cpu, wanted, placement.shares))
        return held

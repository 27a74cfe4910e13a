"""A model of jobs that share cores, to compare the queue with every fixed number of jobs at once.

Each thread that wants a core gets an equal part of the cores, as Linux gives it. Too many threads cost some
of the cores: they switch, and they lose their caches.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Final

from fairlead.job import JobUse, LocalState
from fairlead.local.queue import plan_queue
from fairlead.units import Bytes
from tests.local.queue.worlds import job, machine

TICK: Final = 1.0
"""Seconds between two decisions without an event."""
SWITCHING: Final = 0.002
"""The part of the cores that is lost for each further thread that waits for a core."""
FIXED: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 60)


@dataclass
class ModelJob:
    """A job: so much work, on so many threads; or so long a sleep."""

    work: float
    """Seconds of one core, or of sleep."""
    threads: int = 1
    busy: float = 1.0
    """The part of its time for which each thread wants a core; 0: the job sleeps."""
    left: float = 0.0
    rate: float = 0.0
    start: float = 0.0
    end: float = 0.0


Admission = Callable[[float, Sequence[ModelJob], Sequence[ModelJob], int], list[ModelJob]]
"""Maps the time, the queue, the running jobs and the cores to the jobs that start now."""


@dataclass(frozen=True)
class Outcome:
    """How long a queue took."""

    makespan: float
    response: float
    """The mean time until a job has ended."""


def fixed(most: int) -> Admission:
    """Run so many jobs at once."""
    return lambda _now, queue, active, _cores: list(queue[: max(0, most - len(active))])


def by_plan(now: float, queue: Sequence[ModelJob], active: Sequence[ModelJob], cores: int) -> list[ModelJob]:
    """Run what the plan starts; nothing is known of any job, but what is measured."""
    known = {}
    for number, each in enumerate((*active, *queue)):
        known[str(number)] = each
    used = sum(each.rate * (each.busy > 0) for each in active)
    view = replace(machine(cores=cores), at=now, cpu_used=round(1000 * used))
    jobs = []
    for name, each in known.items():
        queued = replace(job(int(name)), submitted_boot=0.0)
        if each.start < 0:
            jobs.append(queued)
            continue
        cpu = round(1000 * each.rate) if each.busy else 0
        use = JobUse(now, cpu, Bytes(0))
        jobs.append(replace(queued, state=LocalState.RUNNING, started_boot=each.start, measured=use))
    return [known[name] for name in plan_queue(view, jobs, reasons_for=()).starts]


def play(specs: Sequence[ModelJob], cores: int, admit: Admission) -> Outcome:
    """Run a queue, and return how long it took."""
    queue = [replace(spec, left=spec.work, start=-1.0) for spec in specs]
    jobs, active, now = list(queue), list[ModelJob](), 0.0
    while queue or active:
        for each in admit(now, queue, active, cores):
            queue.remove(each)
            active.append(each)
            each.start = now
        _share(active, cores)
        step = min(each.left / each.rate for each in active)
        if queue:
            step = min(step, (floor(now / TICK + 1e-9) + 1) * TICK - now)
        now += step
        for each in active:
            each.left -= each.rate * step
            each.end = now
        active = [each for each in active if each.left > 1e-9]
    return Outcome(now, sum(each.end for each in jobs) / len(jobs))


def _share(active: Sequence[ModelJob], cores: int) -> None:
    """Give each thread an equal part of the cores, but no more than it wants."""
    for each in active:
        each.rate = 1.0
    busy = sorted((each for each in active if each.busy), key=lambda each: each.busy)
    wanted = sum(each.threads * each.busy for each in busy)
    left = cores / (1 + SWITCHING * max(0.0, wanted / cores - 1))
    threads = sum(each.threads for each in busy)
    for each in busy:
        each.rate = each.threads * min(each.busy, left / threads)
        left -= each.rate
        threads -= each.threads


def mix(seed: int, kind: str, cores: int, jobs: int = 60) -> list[ModelJob]:
    """Return a queue: computing jobs, some with threads, sleepers, and jobs that do both."""
    chance = random.Random(f"{seed} {kind} {cores}")
    weights = MIXES[kind]
    return [_job(chance, chance.choices("ctsi", weights)[0], cores) for _ in range(jobs)]


def _job(chance: random.Random, kind: str, cores: int) -> ModelJob:
    length = chance.uniform(0.3, 8.0)
    if kind == "s":
        return ModelJob(chance.uniform(0.5, 10.0), busy=0.0)
    if kind == "t":
        threads = chance.choice((2, 4, 8) if cores < 16 else (4, 8, 16))
        return ModelJob(0.7 * length * min(threads, cores), threads)
    if kind == "i":
        busy = chance.uniform(0.05, 0.5)
        return ModelJob(length * busy, busy=busy)
    return ModelJob(length)


MIXES: Final = {
    "mixed": (40, 20, 25, 15),
    "computing": (85, 15, 0, 0),
    "sleeping": (30, 5, 50, 15),
}
"""How often a job computes, computes with threads, sleeps, or does both."""

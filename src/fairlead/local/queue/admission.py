"""Cores without a stated number are compressible: how many jobs may share them.

A queue ends early if the cores are never idle, and if no long job is left over at its end. Jobs that sleep or
wait for data leave their cores idle, so measured use counts instead of numbers of jobs; and some more jobs
than cores run at once, so that a long job which starts last does not run alone. More than some would make
every job wait for every other. The constants were chosen in a model of random queues, against every fixed
number of jobs at once: tests/local/queue/test_cores.py.
"""

from typing import Final

from fairlead.job import LocalJob
from fairlead.local.queue.counts import JobCount
from fairlead.local.queue.state import MachineState

OVERSUBSCRIPTION: Final = 4
"""Jobs for each core that may want it at once."""
DRAINING: Final = 8
"""The same while no more than this number of jobs for each core wait: the last ones end together."""
IDLE: Final = 0.25
"""The part of an equal share of the cores below which a job sleeps, and counts with what it uses."""
ONE: Final = 1000
"""Thousandths of one core."""


class CpuAdmission:
    """The cores that running jobs want, and whether one more job may start beside them."""

    def __init__(self, state: MachineState, queued: int) -> None:
        view, counts = state.view, list(state.counts.values())
        self.cores = max(view.cpu, 1)
        self.queued = queued
        """Jobs that have not started yet."""
        self.firm = sum(count.firm_cpu for count in counts)
        """Stated cores: booked, whether used or not."""
        share = IDLE * self.cores / max(len(counts), 1)
        self.load = sum(_wanted(count, share) for count in counts)
        """What the jobs without stated cores want."""
        young = sum(count.cpu for count in counts if not count.measured)
        self.idle = None if view.cpu_used is None else self.cores - view.cpu_used - young
        """Cores that no process uses or is about to use; None: not measured."""

    def admits(self, job: LocalJob) -> bool:
        """Return whether a job may start, as far as compressible cores go; the engine books stated ones."""
        if job.assumed.firm_cpu:
            return True
        wanted = min(job.assumed.cpu, ONE)  # a job for many cores runs on fewer, too
        return self.load + wanted <= self.limit or (self.idle is not None and self.idle >= wanted)

    @property
    def limit(self) -> int:
        """What all jobs without stated cores may want together."""
        factor = DRAINING if self.queued * ONE <= DRAINING * self.cores else OVERSUBSCRIPTION
        return max(factor * (self.cores - self.firm), ONE)  # one of them runs beside any stated cores

    def add(self, job: LocalJob) -> None:
        """Count a job that starts."""
        self.queued -= 1
        if job.assumed.firm_cpu:
            self.firm += job.assumed.cpu
        else:
            self.load += job.assumed.cpu
        if self.idle is not None:
            self.idle -= job.assumed.cpu


def _wanted(count: JobCount, share: float) -> int:
    """Return the cores that a job wants: on full cores, less is measured than it could use."""
    if count.firm_cpu:
        return 0
    return max(count.cpu, ONE) if count.measured and count.cpu > share else count.cpu

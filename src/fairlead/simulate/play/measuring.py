"""Policies that place by measured use in a simulation, and the measurements that they read."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from fairlead.request import Request
from fairlead.share import DeviceShare
from fairlead.simulate.play.runs import RunningJobs
from fairlead.simulate.play.world import PlacementPolicy, World


@runtime_checkable
class MeasuringPolicy(PlacementPolicy, Protocol):
    """A policy that samples the accelerators while jobs run."""

    @property
    def period(self) -> float:
        """Seconds between two samples."""

    def attach(self, world: World, runs: RunningJobs) -> None:
        """Take the world and its running jobs, before the first event."""

    def limit(self, request: Request, share: DeviceShare) -> int | None:
        """Return the memory that the framework of a pod may hold of a share; None: it has no limit."""

    def sample(self, now: float) -> Iterable[str]:
        """Read what is measured now; return the names of jobs to evict."""

    def ended(self, job: str, crashed: bool, now: float) -> None:
        """Learn of the end of a run; `crashed`: it ran out of memory."""

    def evicted(self, job: str, now: float) -> None:
        """Learn that a job loses its place before its end."""

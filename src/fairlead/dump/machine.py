"""A machine as a snapshot: one node with its accelerators, its running jobs, and the queue."""

from collections.abc import Iterable

from fairlead.job import LocalJob, LocalState
from fairlead.local.queue.requests import JobReader
from fairlead.local.queue.state import machine_state
from fairlead.local.view import MachineView
from fairlead.manifest.files.snapshot import Snapshot


def machine_snapshot(view: MachineView, jobs: Iterable[LocalJob], taken: str, source: str) -> Snapshot:
    """Return the machine and its jobs, as the queue counts them."""
    every = tuple(jobs)
    cluster = machine_state(view, every).cluster()
    reader = JobReader(view)
    waiting = tuple(reader.read(job).request for job in every if job.state is LocalState.QUEUED)
    return Snapshot(tuple(cluster.nodes()), tuple(cluster.placements()), waiting, taken, source)

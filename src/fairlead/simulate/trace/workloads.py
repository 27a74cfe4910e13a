"""Manifests and snapshots as jobs: the pods that `fairlead schedule` places at one time, played on."""

from collections.abc import Iterable, Iterator
from typing import Any

from fairlead.catalog import Catalog
from fairlead.expect.workloads import read_workloads
from fairlead.manifest.files.collect import is_kubernetes
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.request import Request
from fairlead.simulate.trace.job import Job, SimulatedFleet


def are_workloads(documents: list[tuple[str, Any]]) -> bool:
    """Return whether the documents of a file are manifests, or workloads of the short form."""
    return any(
        is_kubernetes(value) or (isinstance(value, dict) and "workloads" in value) for _, value in documents
    )


def workload_jobs(path: str, fleet: SimulatedFleet, catalog: Catalog, seconds: float) -> Iterator[Job]:
    """Yield the jobs of manifests."""
    yield from waiting_jobs(read_workloads([path], Snapshot(fleet.nodes, fleet.residents), catalog), seconds)


def waiting_jobs(requests: Iterable[Request], seconds: float) -> Iterator[Job]:
    """Yield jobs that all arrive at once and run that long; the pods of a gang are one job."""
    together: dict[str, list[Request]] = {}
    for request in requests:
        name = f"{request.namespace}/{request.gang.name}" if request.gang else request.id
        together.setdefault(name, []).append(request)
    for name, members in together.items():
        yield Job(name, 0.0, seconds, tuple(members))

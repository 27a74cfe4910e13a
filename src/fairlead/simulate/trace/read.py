"""Read a trace in any form: a document, a table, manifests, a snapshot, or a recorded cluster."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final

from fairlead.catalog import Catalog
from fairlead.errors import SettingsError
from fairlead.manifest.files.snapshot import Snapshot, is_snapshot, parse
from fairlead.manifest.files.text import read
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.generate import generate_jobs
from fairlead.simulate.trace.job import Fault, Job, RandomFaults, SimulatedFleet, Trace
from fairlead.simulate.trace.jobs import JobTemplateReader
from fairlead.simulate.trace.machines import fleet_from_fields, fleet_from_snapshot
from fairlead.simulate.trace.recorded import POD_COLUMNS, recorded_jobs
from fairlead.simulate.trace.table import is_table, jobs_of, read_rows
from fairlead.simulate.trace.workloads import are_workloads, waiting_jobs, workload_jobs

_RECORDED: Final = {"interference": "none"}
"""The durations of a recorded cluster were measured with co-runners: they include interference."""


@dataclass(frozen=True, slots=True)
class TraceReader:
    """Reads traces; its fields supply what a trace leaves open."""

    catalog: Catalog
    seed: int = 0
    over_provision: float | None = None
    """Percent of memory; overrides the value of the trace."""
    fleet: SimulatedFleet | None = None
    """Machines for a trace without its own."""
    duration: float = inf
    """Seconds that the pods of manifests run: manifests do not state a duration."""

    @property
    def templates(self) -> JobTemplateReader:
        """The reader of job templates."""
        return JobTemplateReader(self.catalog, self.over_provision)

    def read(self, path: str) -> Trace:
        """Return the trace of a file."""
        trace = self._table(path) if is_table(path) else self._documents(path)
        return _checked(trace, path)

    def _table(self, path: str) -> Trace:
        header, rows = read_rows(path)
        if set(header) >= POD_COLUMNS:
            return Trace(path, tuple(recorded_jobs(path, rows)), settings=_RECORDED)
        return Trace(path, tuple(jobs_of(path, rows, self.seed, self.templates)))

    def _documents(self, path: str) -> Trace:
        documents = read(path)
        if len(documents) == 1 and is_snapshot(documents[0][1]):
            return self._snapshot(path, parse(documents[0][1], documents[0][0]))
        if are_workloads(documents):
            if self.fleet is None:
                raise SettingsError(
                    f"{path}: manifests of pods have no machines", "name a file of nodes with --cluster"
                )
            return Trace(path, tuple(workload_jobs(path, self.fleet, self.catalog, self.duration)))
        if len(documents) != 1:
            raise SettingsError(
                f"{path}: {len(documents)} documents; a trace is one document", "is it the right file?"
            )
        where, value = documents[0]
        return _document(TraceFields(value, where), self)

    def _snapshot(self, path: str, cluster: Snapshot) -> Trace:
        """Continue from a snapshot: its running pods stay, its pending pods arrive."""
        jobs = tuple(waiting_jobs(cluster.pending, self.duration))
        if not jobs:
            raise SettingsError(
                f"{path}: it has no pending pods", "pass it as --cluster, and the jobs as --trace"
            )
        return Trace(path, jobs, fleet=fleet_from_snapshot(cluster, self.catalog))


def _document(table: TraceFields, reader: TraceReader) -> Trace:
    own = fleet_from_fields(table, reader.catalog)
    jobs: list[Job] = [_job(row, reader) for row in table.tables("jobs")]
    for row in table.tables("generate"):
        jobs += generate_jobs(row, reader.seed, reader.templates)
    trace = Trace(
        table.text("name", table.where),
        tuple(jobs),
        tuple(_fault(row) for row in table.tables("faults")),
        tuple(_failures(table.table("failures"))),
        own if own.nodes else None,
        table.table("settings").rest(),
    )
    table.finish()
    return trace


def _job(row: TraceFields, reader: TraceReader) -> Job:
    name, at = row.text("name"), row.seconds("at", 0)
    random = Random(f"{reader.seed}/{name}")  # noqa: S311 - a simulation, no secret
    return reader.templates.read(row.rest(), row.where).job(name, at, random)


def _fault(row: TraceFields) -> Fault:
    seconds = row.seconds("for") if "for" in row else None
    fault = Fault(row.seconds("at"), row.text("node"), row.text("device", ""), seconds)
    row.finish()
    return fault


def _failures(table: TraceFields) -> Iterable[RandomFaults]:
    for kind in ("node", "device"):
        if kind in table:
            row = table.table(kind)
            failures = RandomFaults(kind, row.seconds("mtbf"), row.seconds("mttr"))
            row.finish()
            if not (failures.mtbf > 0 and failures.mttr > 0):
                raise SettingsError(f"{row.where}: mtbf and mttr must be more than 0")
            yield failures
    table.finish()


def _checked(trace: Trace, path: str) -> Trace:
    """Raise an error for a trace without jobs, or with two jobs of one name."""
    if not trace.jobs:
        raise SettingsError(f"{path}: no jobs", "list them under jobs:, or a recipe for them under generate:")
    seen: set[str] = set()
    for job in trace.jobs:
        if job.name in seen:
            raise SettingsError(f"{path}: two jobs are called {job.name!r}", "names must differ")
        seen.add(job.name)
    return trace


def check_faults(trace: Trace, fleet: SimulatedFleet) -> None:
    """Raise an error for faults of unknown machines."""
    devices_by_node = {node.name: {device.id for device in node.devices} for node in fleet.nodes}
    for at, fault in enumerate(trace.faults):
        if fault.node not in devices_by_node:
            raise SettingsError(f"{trace.name}: faults[{at}]: there is no node {fault.node!r}")
        if fault.device and fault.device not in devices_by_node[fault.node]:
            devices = ", ".join(sorted(devices_by_node[fault.node])) or "none"
            raise SettingsError(
                f"{trace.name}: faults[{at}]: {fault.node} has no accelerator {fault.device!r}",
                f"it has: {devices}",
            )

"""Read a recorded cluster: pods and nodes in the form of Alibaba's openb traces, with their times."""

from collections.abc import Iterator
from typing import Final

from fairlead.errors import SettingsError
from fairlead.placement import NodeState
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import Job
from fairlead.simulate.trace.openb import read_nodes, read_pods

POD_COLUMNS: Final = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
CREATED: Final = "creation_time"
DELETED: Final = "deletion_time"


def recorded_jobs(path: str, rows: list[dict[str, str]]) -> Iterator[Job]:
    """Yield the pods of a trace with their arrivals and durations; pods without a duration are left out."""
    pods = read_pods(path)
    if len(pods) != len(rows):
        raise SettingsError(f"{path}: some lines have only commas", "remove them")
    if not any(row.get(CREATED) and row.get(DELETED) for row in rows):
        raise SettingsError(
            f"{path}: no pod has a {CREATED} and a {DELETED}",
            "this list is for `fairlead bench openb`, which needs no times",
        )
    tables = [TraceFields(row, f"{path}: line {line}") for line, row in enumerate(rows, 2)]
    first = min(table.number(CREATED) for table in tables)
    for pod, table in zip(pods, tables, strict=True):
        created, deleted = table.number(CREATED), table.number(DELETED)
        if deleted > created:
            yield Job(pod.name, created - first, deleted - created, (pod,))


def recorded_nodes(path: str) -> tuple[NodeState, ...]:
    """Return the machines of a trace."""
    return read_nodes(path)

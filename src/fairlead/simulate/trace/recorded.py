"""Read a recorded cluster: pods and nodes as Alibaba's traces list them (openb), with their times."""

from collections.abc import Iterator
from typing import Final

from fairlead.errors import SettingsError
from fairlead.placement import NodeState
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import Job
from fairlead.simulate.trace.openb import read_nodes, read_pods

POD_COLUMNS: Final = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
CAME: Final = "creation_time"
WENT: Final = "deletion_time"


def recorded_jobs(path: str, rows: list[dict[str, str]]) -> Iterator[Job]:
    """Yield the pods of a trace when they came, for as long as they stayed; who left at once is left out."""
    pods = read_pods(path)
    if len(pods) != len(rows):
        raise SettingsError(f"{path}: some lines are empty but for commas", "take them out")
    if not any(row.get(CAME) and row.get(WENT) for row in rows):
        raise SettingsError(
            f"{path}: no pod has a {CAME} and a {WENT}",
            "this list is for `fairlead bench openb`, which needs no times",
        )
    tables = [TraceFields(row, f"{path}: line {line}") for line, row in enumerate(rows, 2)]
    first = min(table.number(CAME) for table in tables)
    for pod, table in zip(pods, tables, strict=True):
        came, went = table.number(CAME), table.number(WENT)
        if went > came:
            yield Job(pod.name, came - first, went - came, (pod,))


def recorded_nodes(path: str) -> tuple[NodeState, ...]:
    """Return the machines of a trace."""
    return read_nodes(path)

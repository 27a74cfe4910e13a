"""Read jobs: what they ask for, in the words of the short form, and what they really use and take."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from fairlead.catalog import Catalog
from fairlead.errors import SettingsError
from fairlead.manifest.files import short_workload
from fairlead.manifest.files.short import CheckedMapping
from fairlead.request import Gang, Request
from fairlead.simulate.play.distribution import Distribution
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import Job, UsageSpike, UsageStep, job_problems, memory_curve
from fairlead.units import Bytes

MOST_REPLICAS: Final = 10_000
NEVER: Final = "never"
"""As a duration: the job stays."""
_OURS: Final = ("duration", "start", "load", "real", "over-provision", "most", "replicas")
_ASKED: Final = tuple(
    key for key in short_workload.KEYS if key not in ("gang", "model", "shapes", "replicas", "name")
)
"""Fields of the short form; a gang is `replicas` here, and what a model takes is said by `duration`."""


@dataclass(frozen=True, slots=True)
class JobTemplateSpec:
    """A job without its name and moment: what `jobs` and `generate` have in common."""

    request: Request
    replicas: int
    duration: Distribution
    load: float | None
    memory: tuple[UsageStep, ...]
    start: float
    where: str

    def job(self, name: str, arrival: float, random: Random) -> Job:
        """Return a job of this pattern; a name for each of its requests is made of its own."""
        gang = Gang(name, self.replicas) if self.replicas > 1 else None
        names = [name] if gang is None else [f"{name}-{index}" for index in range(self.replicas)]
        requests = tuple(replace(self.request, name=each, gang=gang) for each in names)
        duration = self.duration.draw(random)
        job = Job(name, arrival, duration, requests, self.load, self.memory, self.start)
        if wrong := job_problems(job):
            raise SettingsError(f"{self.where}: {wrong[0]}")
        return job


@dataclass(frozen=True, slots=True)
class JobTemplateReader:
    """Reads patterns."""

    catalog: Catalog
    over_provision: float | None = None
    """Percent of memory; goes before what a pattern says itself."""

    def read(self, fields: dict[str, Any], where: str) -> JobTemplateSpec:
        """Read the fields that say what a job is."""
        table = TraceFields({key: value for key, value in fields.items() if key in _OURS}, where)
        asked = {key: value for key, value in fields.items() if key not in _OURS and value is not None}
        request, _ = short_workload.single(
            CheckedMapping.of(where, {"name": "job", **asked}, ("name", *_ASKED, *_OURS)), where, self.catalog
        )
        needed = request.demand.memory
        percent = table.number("over-provision", 0)
        percent = percent if self.over_provision is None else self.over_provision
        demand = replace(request.demand, memory=_padded(needed, percent, table))
        found = JobTemplateSpec(
            replace(request, demand=demand),
            _replicas(table),
            _duration(table),
            table.number("load") if "load" in table else None,
            _real(table, needed, padded=percent > 0),
            table.seconds("start", 0),
            where,
        )
        table.finish()
        return found


def _replicas(table: TraceFields) -> int:
    replicas = table.integer("replicas", 1, least=1)
    if replicas > MOST_REPLICAS:
        raise table.wrong("replicas", f"{MOST_REPLICAS} or less")
    return replicas


def _duration(table: TraceFields) -> Distribution:
    said = table.text("duration")
    return (
        Distribution.fixed(float("inf"))
        if said == NEVER
        else Distribution.parse(said, f"{table.where}: duration")
    )


def _padded(memory: Bytes | None, percent: float, table: TraceFields) -> Bytes | None:
    """Return what is asked for: what is needed and some percent more, but at most `most`."""
    most = table.memory("most") if "most" in table else None
    if memory is None:
        return None
    padded = round(memory * (1 + percent / 100))
    return Bytes(padded if most is None else min(padded, most))


def _real(table: TraceFields, memory: Bytes | None, *, padded: bool) -> tuple[UsageStep, ...]:
    real = table.table("real")
    if "real" not in table:
        return (UsageStep(0.0, memory),) if padded and memory is not None else ()
    plateau = real.memory("plateau", memory)
    spikes = [
        UsageSpike(each.seconds("after"), each.seconds("for"), each.memory("memory"))
        for each in real.tables("spikes")
    ]
    steps = memory_curve(real.memory("start", 0), plateau, real.seconds("ramp", 0), spikes)
    real.finish()
    return steps

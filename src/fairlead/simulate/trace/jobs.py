"""Read jobs: their requests, with the keys of the short form, and their real use and duration."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from fairlead.catalog import Catalog
from fairlead.errors import SettingsError
from fairlead.manifest.files import short_workload
from fairlead.manifest.files.short import CheckedMapping
from fairlead.request import Gang, Request
from fairlead.simulate.play.distribution import Distribution
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import Job, UsageSpike, UsageStep, job_problems, memory_curve, staged_curve
from fairlead.units import Bytes

MOST_REPLICAS: Final = 10_000
NEVER: Final = "never"
"""As a duration: the job never ends."""
_JOB_KEYS: Final = (
    *("duration", "start", "load", "real", "over-provision", "most", "replicas"),
    *("warm-up", "crowded-start", "least-slowdown", "outstanding", "gives-back", "image"),
)
_REQUEST_KEYS: Final = tuple(
    key for key in short_workload.KEYS if key not in ("gang", "model", "shapes", "replicas", "name")
)
"""Keys of the short form; a gang is `replicas` here, and `duration` replaces the prediction for a model."""


@dataclass(frozen=True, slots=True)
class JobTemplateSpec:
    """A job without its name and arrival: what `jobs` and `generate` have in common."""

    request: Request
    replicas: int
    duration: Distribution
    load: float | None
    memory: tuple[UsageStep, ...]
    start: float
    where: str
    traits: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of a `Job`, where the file states them."""

    def job(self, name: str, arrival: float, random: Random) -> Job:
        """Return a job of this template; the names of its requests derive from its own."""
        gang = Gang(name, self.replicas) if self.replicas > 1 else None
        names = [name] if gang is None else [f"{name}-{index}" for index in range(self.replicas)]
        requests = tuple(replace(self.request, name=member, gang=gang) for member in names)
        duration = self.duration.draw(random)
        job = Job(name, arrival, duration, requests, self.load, self.memory, self.start, **self.traits)
        if problems := job_problems(job):
            raise SettingsError(f"{self.where}: {problems[0]}")
        return job


@dataclass(frozen=True, slots=True)
class JobTemplateReader:
    """Reads job templates."""

    catalog: Catalog
    over_provision: float | None = None
    """Percent of memory; overrides the value of the template."""

    def read(self, fields: dict[str, Any], where: str) -> JobTemplateSpec:
        """Read the fields of a job template."""
        table = TraceFields({key: value for key, value in fields.items() if key in _JOB_KEYS}, where)
        request_fields = {
            key: value for key, value in fields.items() if key not in _JOB_KEYS and value is not None
        }
        request, _ = short_workload.read_pod(
            CheckedMapping.of(where, {"name": "job", **request_fields}, ("name", *_REQUEST_KEYS, *_JOB_KEYS)),
            where,
            self.catalog,
        )
        needed = request.demand.memory
        percent = table.number("over-provision", 0)
        percent = percent if self.over_provision is None else self.over_provision
        demand = replace(request.demand, memory=_padded(needed, percent, table))
        spec = JobTemplateSpec(
            replace(request, demand=demand),
            _replicas(table),
            _duration(table),
            table.number("load") if "load" in table else None,
            _real(table, needed, padded=percent > 0),
            table.seconds("start", 0),
            where,
            _traits(table),
        )
        table.finish()
        return spec


def _replicas(table: TraceFields) -> int:
    replicas = table.integer("replicas", 1, least=1)
    if replicas > MOST_REPLICAS:
        raise table.wrong("replicas", f"{MOST_REPLICAS} or less")
    return replicas


def _duration(table: TraceFields) -> Distribution:
    text = table.text("duration")
    return (
        Distribution.fixed(float("inf"))
        if text == NEVER
        else Distribution.parse(text, f"{table.where}: duration")
    )


def _padded(memory: Bytes | None, percent: float, table: TraceFields) -> Bytes | None:
    """Return the requested memory: the needed memory and some percent more, but at most `most`."""
    most = table.memory("most") if "most" in table else None
    if memory is None:
        return None
    padded = round(memory * (1 + percent / 100))
    return Bytes(padded if most is None else min(padded, most))


def _traits(table: TraceFields) -> dict[str, Any]:
    """Return the fields of a job that are left out of most traces; each has its default in `Job`."""
    traits: dict[str, Any] = {}
    if "warm-up" in table:
        traits["warm_up"] = table.seconds("warm-up")
    if "crowded-start" in table:
        traits["crowded_start"] = table.number("crowded-start")
    if "least-slowdown" in table:
        traits["least_slowdown"] = table.number("least-slowdown")
    if "outstanding" in table:
        traits["outstanding"] = table.number("outstanding")
    if "gives-back" in table:
        traits["gives_back"] = table.flag("gives-back")
    if "image" in table:
        traits["image"] = table.text("image")
    real = table.table("real")
    if "stages" in real:
        traits["least"] = real.memories("stages")[0]
    if "least" in real:
        traits["least"] = real.memory("least")
    return traits


def _real(table: TraceFields, memory: Bytes | None, *, padded: bool) -> tuple[UsageStep, ...]:
    real = table.table("real")
    if "real" not in table:
        return (UsageStep(0.0, memory),) if padded and memory is not None else ()
    real.skip("least")
    if "stages" in real:
        apart, context = real.seconds("apart", 1), real.memory("start", 0)
        steps = staged_curve(context, real.memories("stages"), table.seconds("warm-up", 0), apart)
        real.finish()
        return steps
    plateau = real.memory("plateau", memory)
    spikes = [
        UsageSpike(spike.seconds("after"), spike.seconds("for"), spike.memory("memory"))
        for spike in real.tables("spikes")
    ]
    steps = memory_curve(real.memory("start", 0), plateau, real.seconds("ramp", 0), spikes)
    real.finish()
    return steps

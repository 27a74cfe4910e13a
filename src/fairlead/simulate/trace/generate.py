"""Generate jobs by a recipe: count, arrivals and mix of kinds; the same seed gives the same jobs."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from fairlead.simulate.play.distribution import Distribution
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import Job
from fairlead.simulate.trace.jobs import JobTemplateReader, JobTemplateSpec

MOST_JOBS: Final = 1_000_000


def generate_jobs(table: TraceFields, seed: int, templates: JobTemplateReader) -> Iterator[Job]:
    """Yield the jobs of one recipe, in order of arrival."""
    name, count = table.text("name"), table.integer("count", least=1)
    if count > MOST_JOBS:
        raise table.wrong("count", f"{MOST_JOBS} or less")
    gaps = Distribution.parse(table.text("arrivals", "at once"), f"{table.where}: arrivals")
    at = table.seconds("from", 0)
    kinds, weights = _kinds(table, templates)
    random = Random(f"{seed}/{name}")  # noqa: S311 - a simulation, no secret
    for index in range(count):
        kind = random.choices(kinds, weights)[0] if len(kinds) > 1 else kinds[0]
        job = kind.job(f"{name}-{index}", at, random)
        yield job if job.image else replace(job, image=f"{name}/{kinds.index(kind)}")
        at += gaps.draw(random)


def _kinds(table: TraceFields, templates: JobTemplateReader) -> tuple[list[JobTemplateSpec], list[float]]:
    """Return the kinds of job and their weights; without a `mix` the recipe is the one kind."""
    rows = table.tables("mix")
    if not rows:
        return [templates.read(table.rest(), table.where)], [1.0]
    weights = [row.number("weight", 1.0) for row in rows]
    table.finish()
    if not sum(weights) > 0:
        raise table.wrong("mix", "a list with a weight above 0")
    return [templates.read(row.rest(), row.where) for row in rows], weights

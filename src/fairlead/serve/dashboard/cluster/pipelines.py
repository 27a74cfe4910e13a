"""Pipelines of a live cluster: each with its pods, and the status of its run from its coordinator."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS
from fairlead.cluster.meta import Raw
from fairlead.dashboard.answers import PipelineAnswer
from fairlead.dashboard.row_types import PipelineRow
from fairlead.dashboard.sources.cluster.custom_rows import pipeline_answer, pipeline_row
from fairlead.keys import PIPELINE
from fairlead.whatif.pipeline.observed import ObservedPipeline, ObservedPod
from fairlead.whatif.pipeline.report import explain_pipeline
from fairlead.whatif.pipeline.run_page import read_run
from fairlead.whatif.pod_program import NoAnswer

MOST: Final = 200
"""Pipelines that are read."""
AT_ONCE: Final = 8


class PipelineReader:
    """Reads all pipelines, some at once."""

    def __init__(self) -> None:
        self.answers: dict[str, PipelineAnswer] = {}
        """By key, as of the last read."""

    async def read(self, client: Client, known: Mapping[str, Raw]) -> list[PipelineRow]:
        """Return the rows of pipelines by their keys."""
        semaphore = asyncio.Semaphore(AT_ONCE)

        async def one(key: str, item: Raw) -> tuple[str, PipelineRow, PipelineAnswer]:
            async with semaphore:
                observed = await _observe(client, item)
            report = explain_pipeline(observed)
            row = pipeline_row(observed.resource, report)
            return key, row, pipeline_answer(key, observed.run, report)

        found = await asyncio.gather(*(one(key, known[key]) for key in sorted(known)[:MOST]))
        self.answers = {key: answer for key, _, answer in found}
        return [row for _, row, _ in found]


async def _observe(client: Client, item: Raw) -> ObservedPipeline:
    namespace, name = item.key
    listed = await client.list(PODS.raw(), namespace, labels=f"{PIPELINE}={name}")
    observed = ObservedPipeline(item.document(), [ObservedPod.of(each.document()) for each in listed.items])
    if observed.coordinator is None:
        return replace(observed, run_note="the coordinator has no pod")
    answer = await read_run(client, observed.coordinator, name)
    if isinstance(answer, NoAnswer):
        return replace(observed, run_note=answer.reason)
    return replace(observed, run=answer)

"""Pipelines of tests: written as YAML, run with real processes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.fuse import RunPlan, plan_workers
from fairlead.pipeline.yaml_file import parse_pipeline

STAGES = "tests.pipeline.stages"


def plan(text: str, folder: Path) -> RunPlan:
    """Return the plan of a pipeline with its files in a folder; `$S` is the module of stages."""
    return plan_workers(
        require_sound(parse_pipeline(text.replace("$S", STAGES).encode(), f"{folder}/p.yaml"))
    )


def run(
    text: str, folder: Path, on_status: Callable[[dict[str, Any]], None] = lambda status: None
) -> dict[str, Any]:
    """Run a pipeline and return its counters."""
    return PipelineDriver(plan(text, folder), lambda line: None, on_status).run()


def lines(folder: Path, name: str = "out.jsonl") -> list[dict[str, Any]]:
    """Return the lines that a sink has written."""
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def sequences(folder: Path, name: str = "out.jsonl") -> list[int]:
    """Return the sequence numbers that a sink has written, in order."""
    return [line["sequence"] for line in lines(folder, name)]

"""Load stages in a process of its own: `python -m fairlead.pipeline.hosts.probe`, JSON in and out."""

import json
import os
import subprocess
import sys
from typing import Any, Final

from fairlead.errors import FairleadError
from fairlead.pipeline.check import load_stage
from fairlead.pipeline.control import stage_from_json
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.spec import PipelineSpec, StageRole, StageSpec
from fairlead.targets import LoadError

_LIMIT: Final = 120.0
"""Seconds until stages must be loaded."""


def load_apart(stages: Any, inputs: Any, folder: str) -> list[dict[str, Any]]:
    """Return what is known of stages once a process of its own has loaded them; LoadError if it has not.

    What it imports must not stay: the next one gets modules that have changed.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fairlead.pipeline.hosts.probe"],
            input=json.dumps({"stages": stages, "inputs": inputs, "folder": folder}).encode(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            stdout=subprocess.PIPE,
            timeout=_LIMIT,
            check=True,
        )
        loaded: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        raise LoadError(f"the stages cannot be loaded: {error}") from error
    return loaded


def probe(spec: PipelineSpec, stage: StageSpec, inputs: int) -> dict[str, Any]:
    """Return the ports of a stage, or why it cannot be loaded here."""
    try:
        loaded = load_stage(spec, stage, inputs)
        replayable = (
            SOURCES[stage.target].open(stage.options, spec.folder).replayable
            if stage.role is StageRole.SOURCE
            else True
        )
    except (FairleadError, OSError, ValueError, KeyError) as error:
        return {"name": stage.name, "problem": " ".join(str(error).split())}
    ports = {"inputs": str(loaded.inputs), "outputs": str(loaded.outputs)}
    known = {"replayable": replayable, "stateful": loaded.is_stateful}
    return {"name": stage.name, "problem": "", **known, **ports}


def main() -> None:
    """Answer one question."""
    body = json.load(sys.stdin)
    stages = tuple(stage_from_json(each) for each in body["stages"])
    spec = PipelineSpec("probe", stages, (), folder=body["folder"])
    answer, sys.stdout = sys.stdout, sys.stderr  # what modules print is no answer
    pairs = zip(stages, body["inputs"], strict=True)
    answer.write(json.dumps([probe(spec, stage, inputs) for stage, inputs in pairs]) + "\n")


if __name__ == "__main__":
    main()

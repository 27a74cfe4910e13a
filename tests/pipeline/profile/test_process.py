"""One stage is measured as a worker calls it: functions, generators, joins, batches, state, programs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.pipeline.control import stage_to_json
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.profile.process import measure
from fairlead.pipeline.profile.record import FrameRecorder, read_frames
from fairlead.pipeline.spec import BatchSpec, OnError, StageRole, StageSpec
from fairlead.pipeline.work.runners import StageFaultError
from fairlead.pipeline.work.values import decode_value
from fairlead.units import Seconds
from tests.pipeline.pipelines import STAGES
from tests.pipeline.test_program import FAULTY, PYTHON


def images(path: Path, *numbers: int) -> str:
    """Record images that are filled with the numbers of their frames, and return the file."""
    with open(path, "wb") as file:
        recorder = FrameRecorder(file, 1 << 20)
        for number in numbers:
            recorder.write(FrameHeader(0, number, 1.0), np.full((4, 4, 3), number, np.uint8))
    return str(path)


def measured(folder: Path, stage: StageSpec, *inputs: str) -> tuple[dict[str, Any], list[tuple[int, Any]]]:
    """Return what was measured, and what the stage made, by the numbers of frames."""
    output = folder / "output"
    body = {"stage": json.loads(json.dumps(stage_to_json(stage))), "folder": "", "inputs": inputs}
    limits = {"frames": 8, "seconds": 60.0, "stream": 0, "output_bytes": 1 << 20}
    result = measure(body | limits | {"output": str(output)})
    with open(output, "rb") as file:
        return result, [(frame.header.sequence, decode_value(frame)) for frame in read_frames(file)]


def function(name: str) -> StageSpec:
    """Return a stage that calls a function of the tests."""
    return StageSpec("s", StageRole.RUN, f"{STAGES}:{name}")


def test_a_generator_makes_more_than_it_takes(tmp_path: Path) -> None:
    result, made = measured(tmp_path, function("twice"), images(tmp_path / "a", 3, 4))
    assert (len(result["seconds"]), result["made"]) == (2, 4)
    assert made == [(3, {"first": 3}), (3, {"second": 3}), (4, {"first": 4}), (4, {"second": 4})]


def test_frames_are_bounded(tmp_path: Path) -> None:
    result, made = measured(tmp_path, function("number"), images(tmp_path / "a", *range(20)))
    assert (len(result["seconds"]), len(made)) == (8, 8)


def test_a_join_gets_both_of_its_values(tmp_path: Path) -> None:
    one, other = images(tmp_path / "a", 1, 2, 3), images(tmp_path / "b", 2, 3)
    result, made = measured(tmp_path, function("both"), one, other)
    assert len(result["seconds"]) == 2
    assert made == [(2, {"left": 2, "right": 2}), (3, {"left": 3, "right": 3})]


def test_a_batch_is_full_and_each_frame_has_its_part(tmp_path: Path) -> None:
    stage = replace(function("sizes"), batch=BatchSpec(4, Seconds(0.1)))
    result, made = measured(tmp_path, stage, images(tmp_path / "a", *range(6)))
    assert [value["batch"] for _, value in made] == [4, 4, 4, 4, 2, 2]
    assert len(set(result["seconds"][:4])) == 1


def test_a_stage_with_state_keeps_it(tmp_path: Path) -> None:
    stage = replace(function("RunningCount"), is_stateful=True)
    _, made = measured(tmp_path, stage, images(tmp_path / "a", 5, 6, 7))
    assert len({json.dumps(value) for _, value in made}) == 3


def test_a_program_answers_each_frame(tmp_path: Path) -> None:
    stage = StageSpec("s", StageRole.EXEC, FAULTY, command=(*PYTHON, "none"))
    result, made = measured(tmp_path, stage, images(tmp_path / "a", 1, 2))
    assert [number for number, _ in made] == [1, 2]
    assert min(result["seconds"]) > 0


def test_a_fault_ends_the_measurement_unless_it_is_skipped(tmp_path: Path) -> None:
    path = images(tmp_path / "a", 5, 6, 7, 8)
    with pytest.raises(StageFaultError, match="raised"):
        measured(tmp_path, function("raises_at_seven"), path)
    result, made = measured(tmp_path, replace(function("raises_at_seven"), on_error=OnError.SKIP), path)
    assert (result["failed"], len(result["seconds"])) == (1, 3)
    assert [number for number, _ in made] == [5, 6, 8]

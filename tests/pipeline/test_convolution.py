"""The example in C: every frame is what NumPy makes, also when a program is killed."""

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.pipeline.endpoints.json_line import to_line
from fairlead.pipeline.frame import FrameHeader
from tests.pipeline.pipelines import lines, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline"
COUNT, HEIGHT, WIDTH = 150, 36, 50


def expected(image: Any) -> Any:
    """Return the convolution with a Laplacian of 3 x 3, ReLU and max-pool of 2 x 2 of an image."""
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float32), (3, 3))
    made = np.maximum(9 * windows[:, :, 1, 1] - windows.sum((2, 3)), 0)
    rows, columns = made.shape[0] // 2, made.shape[1] // 2
    return made[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2).max((1, 3))


def noise() -> Any:
    """Return the images of the example's source."""
    specification = importlib.util.spec_from_file_location("example_stages", EXAMPLE / "stages.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.noise(COUNT, HEIGHT, WIDTH)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs cc and make")
def test_every_frame_is_as_numpy_makes_it_also_when_a_program_is_killed(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    subprocess.run(["make", "-s", "-B", "-C", tmp_path / "c", "CFLAGS=-O1 -Wall -Wextra -Werror"], check=True)
    programs: dict[str, list[int]] = {}
    killed: list[int] = []

    def kill_conv(status: dict[str, Any]) -> None:
        """Kill the program of conv once, when the sink has taken frames."""
        for name in ("conv", "relu", "pool"):
            known = programs.setdefault(name, [])
            known += [pid for pid in children(status["processes"].get(name, 0)) if pid not in known]
        if status["stages"][-1]["out"] and not killed:
            killed.append(programs["conv"][0])
            os.kill(killed[0], signal.SIGKILL)

    text = (tmp_path / "convolution.yaml").read_text().replace("sink: stdout", "sink: jsonl")
    text = text.replace(
        "count: 300, height: 720, width: 1280", f"count: {COUNT}, height: {HEIGHT}, width: {WIDTH}"
    )
    text = text.replace("}}}\n", "}, rate: 100}}\n").replace("jsonl}", "jsonl, options: {path: out.jsonl}}")
    status = run(text, tmp_path, kill_conv)
    assert [each["restarts"] for each in status["stages"]] == [0, 1, 0, 0, 0]
    wanted = [to_line(FrameHeader(0, n, 0.0), expected(image)) for n, image in enumerate(noise())]
    assert lines(tmp_path) == wanted
    assert len(programs["conv"]) == 2
    left = [pid for known in programs.values() for pid in known if os.path.exists(f"/proc/{pid}")]
    assert left == [], "a worker ends after its program"


@pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")
def test_a_program_in_perl_needs_no_library(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "invert.pl", tmp_path)
    run(
        """
pipeline: negative
stages:
  - {name: camera, source: numbers, options: {count: 9, shape: [5, 7, 1]}}
  - {name: invert, exec: [perl, invert.pl]}
  - {name: number, run: "$S:number"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
    )
    assert [line["value"]["n"] for line in lines(tmp_path)] == [255 - number for number in range(9)]

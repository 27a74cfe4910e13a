"""Sources and sinks by name, and pipelines written in Python."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.pipeline.endpoints.images import read_image
from fairlead.pipeline.endpoints.sinks import SINKS, last_positions
from fairlead.pipeline.endpoints.sources import SOURCES, GeneratorSource
from fairlead.pipeline.frame import FrameHeader
from tests.pipeline.pipelines import run, sequences


def test_a_folder_of_images_is_read_in_order_and_again(tmp_path: Path) -> None:
    (tmp_path / "b.ppm").write_bytes(b"P6 # made here\n2 1 255\n" + bytes(range(6)))
    (tmp_path / "a.pgm").write_bytes(b"P5\n2 1\n255\n\x07\x08")
    np.save(tmp_path / "c.npy", np.zeros((3, 2, 1), np.uint8))
    (tmp_path / "notes.txt").write_text("no image")
    source = SOURCES["images"].open({"path": str(tmp_path)}, "")
    shapes = [source.read().shape for _ in range(3)]
    assert shapes == [(1, 2, 1), (1, 2, 3), (3, 2, 1)]
    assert source.read() is None
    source.seek(1)
    assert source.read().tolist() == [[[0, 1, 2], [3, 4, 5]]]


@pytest.mark.parametrize("data", [b"P6 2 2 255\n\x00", b"P6 2 2 65535\n", b"P3 1 1 255\n1 2 3", b"\x89PNG"])
def test_a_file_that_is_no_image_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.ppm").write_bytes(data)
    with pytest.raises(ValueError, match=r"x\.ppm"):
        read_image(str(tmp_path / "x.ppm"))


def test_a_generator_that_takes_a_start_can_be_read_again() -> None:
    def count(start: int = 0) -> Iterator[dict[str, int]]:
        yield from ({"n": number} for number in range(start, 5))

    def live() -> Iterator[dict[str, int]]:
        yield {"n": 0}

    source = GeneratorSource(count, {})
    assert source.read() == {"n": 0}
    source.seek(4)
    assert [source.read(), source.read()] == [{"n": 4}, None]
    assert source.replayable
    assert not GeneratorSource(live, {}).replayable


def test_a_file_of_lines_is_continued_behind_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = SINKS["jsonl"].open({"path": str(path)}, "", False)
    for sequence in (0, 1, 1):
        sink.write(FrameHeader(0, sequence, 0.0), {"n": sequence})
    sink.close()
    path.write_text(path.read_text() + '{"stream": 0, "sequ')
    again = SINKS["jsonl"].open({"path": str(path)}, "", True)
    assert again.positions() == {0: (1, 2)}
    again.write(FrameHeader(0, 2, 0.0), np.zeros((2, 2), np.uint8))
    again.close()
    assert [json.loads(line)["sequence"] for line in path.read_text().splitlines()] == [0, 1, 1, 2]
    with path.open("r+b") as file:
        assert last_positions(file) == {0: (2, 1)}


def test_no_frame_is_lost_or_repeated_when_a_replica_is_killed(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(status: dict[str, Any]) -> None:
        if status["stages"][-1]["out"] and not killed:
            killed.append(status["processes"]["slow/0"])
            os.kill(killed[0], signal.SIGKILL)

    run(
        """
pipeline: replicas
stages:
  - {name: camera, source: numbers, options: {count: 200, rate: 150}}
  - {name: slow, run: "$S:slow", replicas: 2, on_error: restart}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
        kill_one,
    )
    assert killed
    assert sequences(tmp_path) == list(range(200))


SCRIPT = """
import os
from fairlead.pipeline import Pipeline, Record, call, sink, source, stage

@stage(outputs=Record)
def live():
    for number in range(40):
        yield {"n": number, "cores": len(os.sched_getaffinity(0))}

class Once:
    def open(self):
        self.dies = not os.path.exists("died")
    def process(self, record):
        if self.dies and record["n"] == 20:
            open("died", "w").close()
            os._exit(3)
        yield record
        yield {"again": record["n"]}
    def close(self):
        open("closed", "w").close()

def write(record):
    with open("written", "a") as file:
        print(record, file=file)

if __name__ == "__main__":
    first = source("live", "generator", function="script.py:live", rate=100)
    once = call(Once, name="once", on_error="restart", cores=(CORE,))
    chain = first >> once >> sink("end", "call", function="script.py:write")
    print(Pipeline("script", chain).run()["stages"][1]["restarts"])
"""


def test_a_script_runs_a_class_between_a_live_source_and_a_function(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    (tmp_path / "script.py").write_text(SCRIPT.replace("CORE", str(core)))
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert "stage once, frame 20: its process ended with exit code 3; restarted" in done.stderr
    assert (tmp_path / "closed").exists()
    written = (tmp_path / "written").read_text()
    assert "{'again': 19}" in written
    assert "{'again': 20}" not in written
    assert "{'again': 39}" in written

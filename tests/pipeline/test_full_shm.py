"""A full /dev/shm: frames and checkpoints are in memory without a name, so that nothing needs it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.pipelines import STAGES, lines

FRAMES = 40
TEXT = f"""
pipeline: full
fuse: false
stages:
  - {{name: camera, source: numbers, options: {{count: {FRAMES}, shape: [720, 1280, 3]}}}}
  - {{name: uneven, run: "{STAGES}:uneven", replicas: 2}}
  - {{name: count, run: "{STAGES}:RunningCount"}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
"""
# Two inodes: the folder has one and a file of one page the other: not even an empty file can be added.
FILL = """
mount -t tmpfs -o size=4k,nr_inodes=2 none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full || exit 98
if (: > /dev/shm/more) 2> /dev/null; then exit 97; fi
"$@" && ls /dev/shm
"""


def in_full_namespace(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command where /dev/shm is full, and print what is in it then; no other process sees it."""
    words = ["unshare", "-m", "sh", "-c", FILL, "sh", *command]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)


def test_a_pipeline_runs_where_dev_shm_is_full(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or in_full_namespace("true").returncode:
        pytest.skip("needs unshare, and the right to mount in a namespace of its own")
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    words = [
        sys.executable,
        "-m",
        "fairlead",
        "pipeline",
        "run",
        "-q",
        str(file),
        "--state",
        f"{tmp_path}/state",
    ]
    done = in_full_namespace(*words)
    assert (done.returncode, done.stdout) == (0, "full\n"), done.stderr
    assert [line["value"]["count"] for line in lines(tmp_path)] == [*range(1, FRAMES + 1)]

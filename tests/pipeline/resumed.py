"""Runs whose coordinator is killed: a real `fairlead pipeline run`, its processes, and what it leaves."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.pipeline.pipelines import STAGES

LIMIT = 120.0
FRAMES = 300
"""Of the source `gated`: it stops before frame 100 and before frame 200."""
GATES = (100, 200)
LAST = {100: 96, 200: 192}
"""By gate: the last checkpoint that a run has which waits there."""


def counted(folder: Path, on: str = "local") -> str:
    """Return a pipeline with a state."""
    return f"""
pipeline: kept
fuse: false
stages:
  - {{name: camera, source: generator, on: {on},
     options: {{function: "{STAGES}:gated", arguments: {{folder: "{folder}"}}}}}}
  - {{name: count, run: "{STAGES}:RunningCount", on: {on}}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on: {on}}}
"""


def start_run(file: Path, *words: str) -> "subprocess.Popen[str]":
    """Start `fairlead pipeline run FILE --state state`."""
    command = [sys.executable, "-m", "fairlead", "pipeline", "run", str(file)]
    command += ["--state", str(file.parent / "state"), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def finish(child: "subprocess.Popen[str]") -> str:
    """Wait for the end of a run without a fault, and return what it printed."""
    try:
        _, text = child.communicate(timeout=LIMIT)
    finally:
        child.kill()  # no effect on one that has ended
    assert child.returncode == 0, text
    return text


def kill_when(child: "subprocess.Popen[str]", condition: Callable[[], bool]) -> bool:
    """Kill a run once a condition holds; False: it had ended before. Nothing of it may be left."""
    until = time.monotonic() + LIMIT
    while child.poll() is None and not condition():
        assert time.monotonic() < until
        time.sleep(0.002)
    processes = [descriptor for pid in children(child.pid) if (descriptor := open_process(pid)) is not None]
    child.kill()
    child.communicate(timeout=LIMIT)
    for descriptor in processes:
        assert select.select([descriptor], [], [], LIMIT)[0], "a process that has ended is readable"
        os.close(descriptor)
    return child.returncode < 0


def children(pid: int) -> list[int]:
    """Return the processes that a process has started; none once it has ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def open_process(pid: int) -> int | None:
    """Return a descriptor of a process; None: it has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def kept_start(folder: Path) -> int:
    """Return the frame with which a run would go on; 0 before anything is kept."""
    try:
        body = json.loads((folder / "state" / "progress.json").read_text())
    except FileNotFoundError:
        return 0
    return int(body["starts"].get("0", 0))


def expected(frames: int = FRAMES) -> list[dict[str, Any]]:
    """Return the records of a run without a crash."""
    sums = [sum(number % 251 for number in range(last + 1)) for last in range(frames)]
    return [{"count": last + 1, "sum": sums[last]} for last in range(frames)]

"""Engines with a stated share of a GPU, through the real queue: the GPU, its driver and MPS are played."""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.sharebench.played_gpu import environment, words
from tests.test_nvml import needs_compiler

ROOT = Path(__file__).parents[2]


def _may_mount() -> bool:
    tried = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
    return tried.returncode == 0


@needs_compiler
def test_an_engine_runs_in_its_share_with_and_without_mps() -> None:
    if not _may_mount():
        pytest.skip("this user may not mount a played /dev")
    with TemporaryDirectory(prefix="share-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        done = subprocess.run(
            words(folder), env=environment(folder), cwd=ROOT, check=False, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert (result["gpu"], result["failed"]) == ("NVIDIA H200", [])
        assert result["under_mps"] == [False, True]
        assert (result["mps_ratio"] > 0, result["rounds"]) == (True, 1)

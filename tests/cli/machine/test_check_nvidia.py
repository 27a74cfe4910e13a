"""`make check-nvidia` without a GPU to compare with: one line and exit code 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[3] / "bench/nvidia.py"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "nvidia-smi cannot be run: No such file or directory: "),
        ("echo no driver; exit 9", "nvidia-smi fails: no driver: "),
        ("exit 9", "nvidia-smi fails: exit code 9: "),
        ("exit 0", "nvidia-smi lists no GPU: "),
    ],
)
def test_a_missing_gpu_is_reported_in_one_line(tmp_path: Path, script: str, message: str) -> None:
    if script:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(CHECK)],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line == f"{message}run this on a machine with an NVIDIA GPU and its driver"

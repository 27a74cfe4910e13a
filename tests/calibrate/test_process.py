"""Memory and waits of a process as the kernel reports them, and where it reports nothing."""

import os
import time
from pathlib import Path

from fairlead.calibrate import process


def test_memory_and_waits_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
    for thread, waited in (("7", 1_500_000_000), ("8", 250_000_000)):
        (tmp_path / "task" / thread).mkdir(parents=True)
        (tmp_path / "task" / thread / "schedstat").write_text(f"999 {waited} 12\n")
    folder = str(tmp_path)
    assert process.memory("peak", folder) == 2 << 20
    assert process.memory("current", folder) == 1 << 20
    assert process.waits(folder) == {"7": 1.5, "8": 0.25}


def test_missing_kernel_figures_read_as_zero(tmp_path: Path) -> None:
    assert process.memory("peak", str(tmp_path)) == 0
    assert process.waits(str(tmp_path)) == {}
    (tmp_path / "status").write_text("Name:\tx\n")
    (tmp_path / "task" / "7").mkdir(parents=True)
    (tmp_path / "task" / "7" / "schedstat").write_text("nonsense\n")
    assert process.memory("current", str(tmp_path)) == 0
    assert process.waits(str(tmp_path)) == {}


def test_this_process_has_memory_and_its_waits_only_grow() -> None:
    held = bytearray(os.urandom(1 << 20)) * 16
    assert process.memory("peak") >= process.memory("current") > len(held)
    before = process.waits()
    time.sleep(0.01)
    after = process.waits()
    assert all(after[thread] >= waited for thread, waited in before.items() if thread in after)

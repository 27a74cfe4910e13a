"""The cores of this process, and the quota that limits them."""

import os
from pathlib import Path

import pytest

from fairlead.cores import usable_cores


@pytest.mark.parametrize(
    ("limit", "count"),
    [("max 100000", 10**6), ("150000 100000", 2), ("50000 100000", 1), ("9900000 100000", 99), ("", 10**6)],
)
def test_a_cpu_quota_limits_the_number_of_cores(limit: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    here = len(os.sched_getaffinity(0))
    assert usable_cores(str(tmp_path / "cpu.max")) == min(count, here)
    assert usable_cores(str(tmp_path / "none")) == here

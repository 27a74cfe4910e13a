"""The allocator keeps what frames leave: a stream of them has few page faults, unless a user says so."""

import os
import subprocess
import sys

import pytest

from fairlead.pipeline.malloc import keep_freed_memory

FRAMES, PAGES = 50, 920_000 // 4096
STREAM = f"""
import os, resource
from fairlead.pipeline.malloc import keep_freed_memory
kept = keep_freed_memory(os.environ)
held = [bytearray(920_000) for _ in range(4)]
held.clear()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({FRAMES}):
    held.append(bytearray(920_000))
    held[:-2] = []
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def stream(**environ: str) -> tuple[int, int]:
    """Return whether a process keeps freed memory, and the page faults of a stream of frames in it."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", STREAM], capture_output=True, text=True, check=True, env=plain | environ
    )
    kept, faults = map(int, done.stdout.split())
    return kept, faults


def test_a_stream_of_frames_reuses_its_memory() -> None:
    kept, faults = stream()
    assert kept == 1
    assert faults < FRAMES * PAGES / 10


def test_what_a_user_sets_stays() -> None:
    kept, faults = stream(MALLOC_MMAP_THRESHOLD_="131072", MALLOC_TRIM_THRESHOLD_="131072")
    assert kept == 0
    assert faults > FRAMES * PAGES / 2


@pytest.mark.parametrize(
    "environ",
    [
        {"MALLOC_MMAP_THRESHOLD_": "1"},
        {"MALLOC_TRIM_THRESHOLD_": "1"},
        {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"},
    ],
)
def test_any_setting_of_the_allocator_is_left_alone(environ: dict[str, str]) -> None:
    assert not keep_freed_memory(environ)

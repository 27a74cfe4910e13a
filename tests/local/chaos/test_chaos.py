"""Jobs of one machine under SIGKILL, SIGSTOP, a full disk, a home that comes and goes, and clock jumps.

`make test` plays a few seeds, `make test-chaos` 300; FAIRLEAD_CHAOS_SEED=N begins at another one.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.local.chaos.world import CORES, LIMIT, World, check, may_mount

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
FIRST = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + (300 if LONG else 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_survive_sigkill_at_any_point(seed: int, tmp_path: Path) -> None:
    homes = ("usual", "read-only", "missing") if seed % 3 == 0 and may_mount() else ()
    world = World(tmp_path, Random(seed), homes=homes)
    try:
        _play(world, actions=world.random.randint(4, 9))
        check(world, world.come_to_rest())
    finally:
        world.close()


def _play(world: World, actions: int) -> None:
    """Submit, run, cancel and kill in random order."""
    random = world.random
    submits: list[tuple[subprocess.Popen[bytes], int]] = []
    for _ in range(actions):
        cpus, seconds = random.randint(1, CORES), random.choice((0.01, 0.05, 0.2, 0.4))
        code = random.choice((0, 0, 3))
        if random.random() < 0.4:
            world.run(cpus, seconds, code)
        else:
            submits.append((world.submit(cpus, seconds, code), code))
        for _ in range(random.choice((0, 1, 1, 2))):
            time.sleep(random.uniform(0.0, 0.4))
            world.kill_one() if random.random() < 0.8 else world.stop_one(random.uniform(0.0, 0.5))
        if world.acknowledged and random.random() < 0.15:
            world.cancel(random.choice(sorted(world.acknowledged)))
        if submits and random.random() < 0.5:
            world.acknowledge(*submits.pop(0))
    for process, code in submits:
        world.acknowledge(process, code)
    world.submit_one_for_all_cores()


def test_ends_are_recorded_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """Jobs that run when the disk fills up keep their exit codes; queued ones start when there is room."""
    world = World(tmp_path, Random(1), state=small_disk / "state")
    filler = small_disk / "filler"
    try:
        full = tmp_path / "full"
        world.acknowledge(world.submit(CORES, full, 3), 3)
        world.acknowledge(world.submit(CORES, 0.01, 0), 0)
        _until(lambda: len(world.started()) == 1)
        _fill(filler)
        full.touch()
        refused = world.submit(1, 0.01, 0)
        refused.communicate(timeout=300)
        assert refused.returncode not in (0, None)
        _until(lambda: world.started()[0].end is not None)
        filler.unlink()
        jobs = {job["id"]: job for job in world.come_to_rest()}
        assert [jobs[job]["exit_code"] for job in world.acknowledged] == [3, 0]
        check(world, list(jobs.values()))
    finally:
        filler.unlink(missing_ok=True)
        world.close()


@pytest.mark.skipif(not LONG, reason="make test-chaos starts them; 12 of them are enough here")
def test_fifty_concurrent_runs_each_start_once(tmp_path: Path) -> None:
    _concurrent_runs(tmp_path, 50)


def test_a_dozen_concurrent_runs_each_start_once(tmp_path: Path) -> None:
    _concurrent_runs(tmp_path, 12)


def _concurrent_runs(folder: Path, runs: int) -> None:
    world = World(folder, Random(runs))
    try:
        for _ in range(runs):
            world.run(1, 0.02, 0)
        jobs = world.come_to_rest()
        check(world, jobs)
        assert [job["state"] for job in jobs] == ["done"] * runs
        assert len(world.started()) == runs
    finally:
        world.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as out:
        for size in (65_536, 4096, 1):
            with suppress(OSError):
                while True:
                    out.write(bytes(size))


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)

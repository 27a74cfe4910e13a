"""Volumes without room: the file stays where it is, and nothing is left over."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.tiering.volumes.lease import ignore_lease_signals
from fairlead.tiering.volumes.pair import Where
from tests.tiering.program.programs import Served
from tests.tiering.volumes.pairs import Volumes

BIG = os.urandom(700_000)


@pytest.fixture(params=["fast", "slow"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Volumes]]:
    """Yield volumes of which one is a file system of 1 MiB with 300 kB left."""
    ignore_lease_signals()
    disk = tmp_path / str(request.param)
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    (disk / "filling").write_bytes(bytes(700_000))
    yield request.param, Volumes(tmp_path)
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_move_to_a_full_volume_is_given_up(full: tuple[str, Volumes]) -> None:
    name, volumes = full
    mover = volumes.mover()
    (volumes.on_slow if name == "fast" else volumes.write)("a", BIG)
    result = mover.promote("a") if name == "fast" else mover.demote("a")
    assert (result.reason, result.is_full) == ("the volume is full", True)
    assert volumes.read("a") == BIG
    assert volumes.pair.where("a") is (Where.SLOW if name == "fast" else Where.FAST)
    assert volumes.left_over() == []


def test_the_program_says_so_once_and_goes_on(full: tuple[str, Volumes], tmp_path: Path) -> None:
    name, volumes = full
    if name == "fast":
        volumes.on_slow("a", BIG)
        policy = "lru"
    else:
        volumes.write("a", BIG)
        policy = "none"
    served = Served(volumes, tmp_path / "log", "--policy", policy, capacity="10MB")
    assert volumes.read("a") == BIG
    served.wait(lambda: "no room for" in served.log())
    assert volumes.read("a") == BIG
    assert served.stop() == 0
    assert served.log().count("no room for") == 1

"""The second run of a command needs no size: two real runs, one after the other."""

import sys
from pathlib import Path

import pytest

from fairlead.history.store import JobHistory
from fairlead.local.assume import DEFAULT_MEMORY
from tests.local.runner.programs import World

SCRIPT = "import sys\nx = b'x' * (int(sys.argv[1]) << 20)\nprint(len(x))\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_second_run_counts_by_the_first(world: World) -> None:
    script = world.folder / "grow.py"
    script.write_text(SCRIPT)
    words = ("--gpus", "0", "--", sys.executable, "-S", "-E", str(script))
    first = world.run(*words, "96")
    assert (first.returncode, first.stderr) == (0, b"")
    second = world.run(*words, "96")
    assert second.stderr.startswith(b"fairlead: run: assumes ")
    assert second.stderr.endswith(b"learned from 1 run of grow.py\n")
    third = world.run(*words, "97")
    assert third.stderr.endswith(b"learned from 2 runs of grow.py\n"), "other words, the same script"
    assumed = [job.assumed.memory for job in world.history()]
    assert 96 << 20 < assumed[1] < assumed[0] == DEFAULT_MEMORY
    assert 96 << 20 < assumed[2] < DEFAULT_MEMORY
    known = JobHistory.open(world.ledger.place, world.environ).all_learned()
    assert sorted(command.total for command in known) == [1, 2, 3], "two sets of words, one program"

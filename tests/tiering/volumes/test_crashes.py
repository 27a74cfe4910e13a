"""A mover that is killed at any line loses nothing, also while a program replaces, writes or deletes a file.

`make test` kills at every line of each kind of move, and plays some seeds of programs that interfere;
`make test-chaos` plays many. FAIRLEAD_CHAOS_SEED=N begins at another one.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from fairlead.tiering.volumes.lease import ignore_lease_signals
from fairlead.tiering.volumes.moves import FileMover
from fairlead.tiering.volumes.pair import Where
from tests.tiering.volumes.crashes import kill, lines_of, run_killed, settled
from tests.tiering.volumes.pairs import Volumes

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
FIRST = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + (3000 if LONG else 40))
OLD_CONTENT, NEW_CONTENT = b"old content" * 500, b"new content" * 700
KEY = "folder/file.bin"
_MEMORY = "/dev/shm"
MOVES = ("promote", "demote", "demote clean")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in memory: the kernel is not killed, so nothing has to reach a disk."""
    ignore_lease_signals()
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        yield Path(folder)


def prepared(folder: Path, kind: str) -> tuple[Volumes, FileMover, Callable[[], object]]:
    """Return volumes with a file, and the move of it."""
    folder.mkdir()
    volumes = Volumes(folder)
    mover = volumes.mover()
    if kind == "demote":
        volumes.write(KEY, OLD_CONTENT)
    else:
        volumes.on_slow(KEY, OLD_CONTENT)
    if kind == "demote clean":
        assert mover.promote(KEY).done
        mover.settle(at_once=True)
    move = mover.promote if kind == "promote" else mover.demote
    return volumes, mover, settled(mover, lambda: move(KEY))


@pytest.mark.parametrize("kind", MOVES)
def test_a_mover_killed_at_any_line_leaves_a_whole_file(kind: str, place: Path) -> None:
    _, _, whole = prepared(place / "whole", kind)
    lines = lines_of(whole)
    assert lines > 100
    places = set()
    for line in range(1, lines + 1, 1 if LONG else 4):
        volumes, _, move = prepared(place / str(line), kind)
        assert run_killed(move, {line: kill})
        assert volumes.read(KEY) == OLD_CONTENT, "whole before any start"
        assert volumes.mover().recover() == []
        assert volumes.read(KEY) == OLD_CONTENT
        assert volumes.left_over() == []
        places.add(volumes.pair.where(KEY))
    assert places == {Where.FAST, Where.SLOW}


class Program:
    """A program that does something with the file, and knows what it must find then."""

    def __init__(self, volumes: Volumes) -> None:
        self.path = volumes.fast / KEY
        self.contents = {OLD_CONTENT}
        """What the file may contain."""

    def replace(self) -> None:
        """Write a new file, and rename it over the old one."""
        new = self.path.with_name(".new")
        new.write_bytes(NEW_CONTENT)
        new.replace(self.path)

    def write(self) -> None:
        """Write in place, if the lease lets it."""
        with suppress(BlockingIOError):
            handle = os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
            os.write(handle, NEW_CONTENT)
            os.close(handle)

    def delete(self) -> None:
        """Delete it."""
        self.path.unlink()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_that_interferes_finds_what_it_did(seed: int, place: Path) -> None:
    random = Random(seed)
    kind, act = random.choice(MOVES), random.choice(("replace", "write", "delete"))
    _, _, whole = prepared(place / "whole", kind)
    lines = lines_of(whole)
    folder = place / "killed"
    volumes, _, move = prepared(folder, kind)
    program = Program(volumes)
    at = random.randint(1, lines)
    result = folder / "result"

    def interfere() -> None:
        getattr(program, act)()
        with suppress(FileNotFoundError):
            result.write_bytes(program.path.read_bytes())

    acts: dict[int, Callable[[], None]] = {at: interfere}
    if random.random() < 0.8:
        acts[at + random.randint(1, 40)] = kill
    run_killed(move, acts)
    expected = result.read_bytes() if result.exists() else None
    lines_of_people = volumes.mover().recover()
    assert volumes.left_over() == []
    kept = sorted((volumes.fast / "folder").glob("*.other-*"))
    assert bool(kept) == any("is kept as" in line for line in lines_of_people)
    if expected is None:
        assert act == "delete"
        assert volumes.pair.where(KEY) is Where.MISSING
    else:
        assert volumes.read(KEY) == expected
        assert expected == (NEW_CONTENT if act == "replace" else expected)

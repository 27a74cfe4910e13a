"""The history of a user: what it keeps, where, and what happens where it cannot."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.history.database import SCHEMA
from fairlead.history.files import history_files
from fairlead.history.store import JobHistory, LearnedFrom
from fairlead.job import LocalState
from fairlead.ledger.place import StateDirectory
from tests.local.jobs import WHOLE, ended, learn, used

HOUSE = Path(__file__).parents[2]
KEYS = ("argv-1", "program-1")


@pytest.fixture
def place(tmp_path: Path) -> StateDirectory:
    return StateDirectory.at(str(tmp_path / "state"))


class World:
    """A history, and what it said."""

    def __init__(self, place: StateDirectory, path: Path, **bounds: int) -> None:
        self.said: list[str] = []
        self.history = JobHistory(place, str(path), warn=self.said.append, **bounds)  # type: ignore[arg-type]


def test_a_job_is_kept_once_with_its_output_and_its_command(place: StateDirectory, tmp_path: Path) -> None:
    world = World(place, tmp_path / "h.db")
    job = ended(7, LocalState.FAILED, reason="no such file", shares=WHOLE)
    for _ in range(2):
        assert world.history.add(job, "/out/7", ("python", "train.py", "a b"))
    (kept,) = JobHistory(place, str(tmp_path / "h.db")).jobs()
    assert kept.to_json() == job.to_json()
    assert kept.uid == os.geteuid()
    assert world.history.output_of("7") == "/out/7"
    assert world.history.argv_of("7") == ("python", "train.py", "a b")
    assert (world.history.output_of("8"), world.history.argv_of("8")) == (None, None)
    assert stat.S_IMODE(os.stat(tmp_path / "h.db").st_mode) == 0o600
    assert world.said == []


def test_jobs_that_are_kept_together_keep_their_order(place: StateDirectory, tmp_path: Path) -> None:
    history = World(place, tmp_path / "h.db").history
    assert history.add(ended(2))
    assert history.add_all((ended(number), f"/out/{number}", (str(number),)) for number in (3, 2, 1))
    assert [job.number for job in history.jobs()] == [2, 3, 1]
    assert (history.output_of("1"), history.argv_of("3")) == ("/out/1", ("3",))


def test_the_same_id_of_another_time_is_another_job(place: StateDirectory, tmp_path: Path) -> None:
    history = World(place, tmp_path / "h.db").history
    history.add(ended(1), "/out/old")
    history.add(ended(1, submitted=5.0), "/out/new")
    assert [job.submitted for job in history.jobs()] == [ended(1).submitted, 5.0]
    assert history.output_of("1") == "/out/new"


def test_names_that_are_no_text_are_kept(place: StateDirectory, tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff?#%")
    (tmp_path / odd).mkdir()
    history = World(place, tmp_path / odd / "h.db").history
    assert history.add(ended(1), f"/out/{odd}", ("echo", odd))
    assert history.output_of("1") == f"/out/{odd}"
    assert history.argv_of("1") == ("echo", "??#%")


def test_the_newest_jobs_and_commands_are_kept(place: StateDirectory, tmp_path: Path) -> None:
    history = World(place, tmp_path / "h.db", most_jobs=3, most_commands=2).history
    for number in range(5):
        assert learn(history, (f"argv-{number}",), "a", used(), ended(number))
    assert [job.number for job in history.jobs()] == [2, 3, 4]
    assert [job.number for job in history.jobs(limit=2)] == [3, 4]
    assert {known.key for known in history.all_learned()} == {"argv-3", "argv-4"}


def test_a_job_that_is_kept_again_teaches_nothing_more(place: StateDirectory, tmp_path: Path) -> None:
    history = World(place, tmp_path / "h.db").history
    for _ in range(2):
        assert history.add(ended(1), runs=[LearnedFrom(KEYS, "x", used())])
    known = history.learned("argv-1")
    assert known is not None
    assert known.total == 1


def test_what_is_learned_is_known_under_every_key(place: StateDirectory, tmp_path: Path) -> None:
    history = World(place, tmp_path / "h.db").history
    assert history.learned("argv-1") is None
    for _ in range(2):
        assert learn(history, KEYS, "train.py", used((2.0,) * 4), ended(shares=WHOLE))
    for key in KEYS:
        known, footprint = history.learned(key), history.footprint(key)
        assert known is not None
        assert footprint is not None
        assert (known.name, known.total, footprint.runs, footprint.full) == ("train.py", 2, 2, 2 << 30)


@pytest.mark.parametrize("text", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
@pytest.mark.parametrize("call", ["add", "jobs"])
def test_a_damaged_history_is_set_aside(
    place: StateDirectory, tmp_path: Path, text: bytes, call: str
) -> None:
    path = tmp_path / "h.db"
    path.write_bytes(text)
    world = World(place, path)
    if call == "jobs":
        assert world.history.jobs() == ()
    assert world.history.add(ended(1))
    assert [job.number for job in world.history.jobs()] == [1]
    (line,) = world.said
    assert "set aside as h.db.damaged-" in line
    assert "\n" not in line
    (aside,) = tmp_path.glob("h.db.damaged-*")
    assert aside.read_bytes() == text


def test_a_row_that_cannot_be_read_is_skipped(place: StateDirectory, tmp_path: Path) -> None:
    world = World(place, tmp_path / "h.db")
    world.history.add(ended(1))
    world.history.add(ended(2))
    learn(world.history, KEYS, "x", used(), ended(1))
    with sqlite3.connect(tmp_path / "h.db") as connection:
        connection.execute("UPDATE jobs SET record = '{}' WHERE id = '1'")
        connection.execute("UPDATE commands SET learned = '{\"version\":9}' WHERE key = 'argv-1'")
    connection.close()
    assert [job.number for job in world.history.jobs()] == [2]
    assert world.history.learned("argv-1") is None
    assert world.history.learned("program-1") is not None


def test_a_newer_history_is_left_alone(place: StateDirectory, tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    World(place, path).history.add(ended(1))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema SET version = ?", (SCHEMA + 1,))
    connection.close()
    before = path.read_bytes()
    world = World(place, path)
    assert not world.history.add(ended(2))
    assert not learn(world.history, KEYS, "x", used(), ended(2))
    assert world.history.jobs() == ()
    assert path.read_bytes() == before
    (line,) = world.said
    assert line.startswith(f"{path}: history format 2, but this program keeps up to 1 (upgrade fairlead)")


def test_a_full_disk_fails_nothing(place: StateDirectory, tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    world = World(place, path)
    world.history.add(ended(1))
    script = (
        "import resource, sys, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({path.stat().st_size},) * 2)\n"
        "from fairlead.history.store import JobHistory\n"
        "from fairlead.ledger.place import StateDirectory\n"
        "from tests.local.jobs import ended\n"
        f"history = JobHistory(StateDirectory.at({place.path!r}), {str(path)!r})\n"
        "kept = [history.add(ended(number), '/out' * 200) for number in range(2, 60)]\n"
        "print(kept.index(False), len(history.jobs()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True, cwd=HOUSE
    )
    first, jobs = map(int, done.stdout.split())
    assert jobs >= first + 1, "what was kept before the disk was full is still there"
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("this job is not in the history")
    assert next(job.number for job in world.history.jobs()) == 1, "the history is sound"


def test_a_writer_that_was_killed_half_way_leaves_a_sound_history(
    place: StateDirectory, tmp_path: Path
) -> None:
    path = tmp_path / "h.db"
    world = World(place, path)
    world.history.add(ended(1))
    script = (
        "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1'); connection.execute('BEGIN')\n"
        "for number in range(200): connection.execute('INSERT INTO jobs (id, submitted, user, record, '\n"
        "    'output, argv) VALUES (?, 0, 0, ?, 0, 0)', (str(number), 'x' * 4000))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", script, str(path)], timeout=120, check=False).returncode == -9
    )
    assert (tmp_path / "h.db-journal").stat().st_size > 0, "its transaction is half written"
    assert [job.number for job in world.history.jobs()] == [1]
    assert world.history.add(ended(2))
    assert world.said == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write into the home of another user")
def test_root_keeps_nothing_in_the_home_of_another_user(place: StateDirectory, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 1234, 1234)
    files = history_files(place, {"HOME": str(home)})
    assert files.path == f"{place.private}/history.db"
    assert f"{home}/.local/state/fairlead: it belongs to user 1234: " in files.problem
    assert list(home.iterdir()) == []


def test_processes_that_write_at_once_lose_nothing(place: StateDirectory, tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    path.write_bytes(b"damaged" * 1000)
    script = (
        "import sys; from fairlead.history.store import JobHistory, LearnedFrom\n"
        "from fairlead.ledger.place import StateDirectory\n"
        "from tests.local.jobs import ended, used\n"
        f"history = JobHistory(StateDirectory.at({place.path!r}), {str(path)!r})\n"
        "first = int(sys.argv[1])\n"
        "print(sum(history.add(ended(n), runs=[LearnedFrom(('argv-1',), 'x', used())])\n"
        "          for n in range(first, first + 15)))\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(first)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HOUSE,
        )
        for first in (0, 100, 200)
    ]  # fmt: skip
    results = [writer.communicate(timeout=120) for writer in writers]
    assert [text.strip() for text, _ in results] == ["15", "15", "15"]
    assert sum("set aside" in errors for _, errors in results) == 1
    history = World(place, path).history
    known = history.learned("argv-1")
    assert len(history.jobs()) == 45
    assert known is not None
    assert known.total == 45


def test_the_history_lies_in_the_home_or_with_the_state(place: StateDirectory, tmp_path: Path) -> None:
    private = f"{place.private}/history.db"
    home, xdg, file = tmp_path / "home", tmp_path / "xdg", tmp_path / "file"
    home.mkdir()
    file.touch()
    table = [
        ({"FAIRLEAD_STATE": place.path, "HOME": str(home)}, private, ""),
        ({"HOME": str(home)}, f"{home}/.local/state/fairlead/history.db", ""),
        ({"HOME": str(home), "XDG_STATE_HOME": str(xdg)}, f"{xdg}/fairlead/history.db", ""),
        ({"HOME": str(home), "XDG_STATE_HOME": "rel"}, f"{home}/.local/state/fairlead/history.db", ""),
        ({}, private, "there is no home directory"),
        ({"HOME": "/proc/1/nothing"}, private, "/proc/1/nothing: No such file or directory: "),
        ({"HOME": f"{home}/missing"}, private, f"{home}/missing: No such file or directory: "),
        ({"HOME": str(file)}, private, f"{file}/.local/state/fairlead: Not a directory: "),
    ]
    for environ, path, problem in table:
        files = history_files(place, environ)
        assert files.path == path
        assert files.problem.startswith(problem)
        assert bool(files.problem) == bool(problem)
    assert not (home / "missing").exists(), "a home that is mounted later would hide what is kept there"


def test_a_home_that_comes_back_is_read_together_with_the_state(
    place: StateDirectory, tmp_path: Path
) -> None:
    said: list[str] = []
    away = JobHistory.open(place, {}, said.append)
    assert away.add(ended(1), "/out/1", runs=[LearnedFrom(("argv-1",), "x", used())])
    assert len(said) == 1
    assert "is kept in" in said[0]
    back = JobHistory.open(place, {"HOME": str(tmp_path)}, said.append)
    assert back.add(ended(2))
    assert [job.number for job in back.jobs()] == [1, 2]
    assert back.output_of("1") == "/out/1"
    assert back.learned("argv-1") is not None
    assert len(said) == 1


def test_no_folder_at_all_keeps_nothing_and_says_so_once(place: StateDirectory, tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "file"
    file.write_text("")
    nowhere = StateDirectory(place.path, place.uid, place.own, place.jobs, str(file / "private"))
    history = JobHistory.open(nowhere, {"HOME": str(file)}, said.append)
    assert history.path == ""
    assert not history.add(ended(1))
    assert not learn(history, KEYS, "x", used(), ended(1))
    assert history.jobs() == ()
    assert history.learned("argv-1") is None
    assert history.all_learned() == ()
    assert len(said) == 1
    assert said[0].endswith("no history of your jobs is kept")
    JobHistory.open(nowhere, {"HOME": str(file)}, said.append)
    assert len(said) == 1, "a command that opens it again does not warn again"

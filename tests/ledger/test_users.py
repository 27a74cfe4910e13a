"""Two real users: neither reads the other's private files, writes its records, or revives its dead."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.inotify import Inotify
from fairlead.job import LocalState
from fairlead.ledger import JobLedger, StateDirectory
from fairlead.ledger.judge import RUNNER_KILLED
from fairlead.ledger.record import JOBS
from fairlead.ledger.watch import LedgerWatch
from tests.ledger.jobs import a_submit, added, as_user, in_child, needs_root, the_dead

ANN, BOB = 64001, 64002
pytestmark = needs_root


@pytest.fixture
def state() -> Iterator[Path]:
    """Yield a state directory in which Ann has a job that waits, and one whose processes are dead."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    path = folder / "state"
    StateDirectory.at(str(path))
    dead = the_dead()

    def add() -> None:
        ledger = the_ledger(path)
        added(ledger, a_submit(name="waits"))
        job = added(ledger, a_submit(name="dead"))
        ledger.write(replace(job, state=LocalState.RUNNING, runner=dead, command=dead))
        ledger.take_start_token(job.id)

    problem = as_user(ANN, add)
    assert not problem, problem
    yield path
    shutil.rmtree(folder)


def the_ledger(path: Path) -> JobLedger:
    """Return the ledger of the user of this process."""
    return JobLedger(StateDirectory.at(str(path)))


def states(path: Path) -> list[tuple[str, str, int]]:
    """Return what every user sees."""
    return [(job.name, job.state.value, job.uid) for job in the_ledger(path).jobs()]


SEEN = [("waits", "queued", ANN), ("dead", "failed", ANN)]


def test_each_user_sees_the_jobs_of_the_other_and_who_owns_them(state: Path) -> None:
    def look() -> None:
        assert states(state) == SEEN
        assert the_ledger(state).jobs()[1].reason == RUNNER_KILLED
        assert the_ledger(state).own_jobs() == ()
        assert added(the_ledger(state)).number == 3

    assert not as_user(BOB, look)


FORBIDDEN: dict[str, Callable[[Path], object]] = {
    "list private files": lambda own: os.listdir(own / "private"),
    "read a specification": lambda own: (own / "private/1.spec").read_text(),
    "take a token": lambda own: os.rename(own / "private/1.ready", own / "private/1.started"),
    "mark a job": lambda own: (own / "private/1.cancel").touch(),
    "write a record": lambda own: (own / "jobs/1.json").write_text("{}"),
    "append to a record": lambda own: os.open(own / "jobs/1.json", os.O_WRONLY | os.O_APPEND),
    "remove a record": lambda own: (own / "jobs/1.json").unlink(),
    "replace a record": lambda own: os.rename(own.parent / f"u{BOB}/jobs/3.json", own / "jobs/1.json"),
    "add a record": lambda own: (own / "jobs/9.json").write_text("{}"),
    "touch a record": lambda own: os.utime(own / "jobs/1.json"),
    "change a mode": lambda own: (own / "jobs").chmod(0o777),
    "write the counter": lambda own: (own / "counter").write_text("999"),
    "move the folder": lambda own: own.rename(own.parent / "elsewhere"),
    "remove the folder": lambda own: own.rmdir(),
    "move the records": lambda own: (own / "jobs").rename(own.parent / "elsewhere"),
    "replace the folder": lambda own: (own.parent / f"u{BOB}").rename(own),
    "move the state": lambda own: own.parent.rename(own.parent.parent / "elsewhere"),
}


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_no_user_can(state: Path, deed: str) -> None:
    def attempt() -> None:
        added(the_ledger(state))
        with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno is checked
            FORBIDDEN[deed](state / f"u{ANN}")
        assert isinstance(refused.value, PermissionError), refused.value

    problem = as_user(BOB, attempt)
    assert not problem, problem
    assert states(state)[:2] == SEEN


def test_no_user_makes_a_dead_job_of_another_look_alive(state: Path) -> None:
    """Bob copies Ann's record with processes that live, into each place where he can write."""

    def forge() -> None:
        ledger = the_ledger(state)
        body = json.loads((state / f"u{ANN}/jobs/2.json").read_text())
        body |= {"command": [os.getpid(), 1, body["boot"]], "uid": ANN, "user": "ann"}
        for place in (state / "2.json", state / f"u{BOB}/jobs/2.json", state / f"u{BOB}/2.json"):
            place.write_text(json.dumps(body))
        with suppress(OSError):
            (state / f"u{BOB}/jobs/4.json").symlink_to(state / f"u{ANN}/jobs/2.json")
        with suppress(OSError):
            os.link(state / f"u{ANN}/jobs/2.json", state / f"u{BOB}/jobs/5.json")
        for uid in (ANN + 10, ANN + 11):
            (state / f"u{uid}/jobs").mkdir(parents=True)
            (state / f"u{uid}/jobs/2.json").write_text(json.dumps(body))
        assert JOBS.decode(json.dumps(body)).id == "2"
        assert ledger.jobs()

    problem = as_user(BOB, forge)
    assert not problem, problem

    def look() -> None:
        ledger = the_ledger(state)
        assert [(job.id, job.state.value) for job in ledger.own_jobs()] == [("1", "queued"), ("2", "failed")]
        others = [job for job in ledger.jobs() if job.uid != ANN]
        assert [(job.id, job.uid) for job in others] == [(f"2@{BOB}", BOB)]

    problem = as_user(ANN, look)
    assert not problem, problem


def test_a_specification_that_another_user_wrote_is_not_run(state: Path) -> None:
    """Whoever owns the state directory can move the folders in it, and so put a file where Ann reads."""
    private = state / f"u{ANN}/private"
    text = (private / "1.spec").read_text()
    for uid, mode in ((BOB, 0o600), (ANN, 0o666)):
        (private / "1.spec").unlink()
        (private / "1.spec").write_text(text)
        (private / "1.spec").chmod(mode)
        os.chown(private / "1.spec", uid, uid)
        problem = as_user(ANN, lambda: the_ledger(state).spec("1"))
        assert "another user may have written it" in problem or "Permission denied" in problem


def test_a_file_of_another_user_gets_nothing_private(state: Path) -> None:
    private = state / f"u{ANN}/private"
    (private / "1.cancel").touch(mode=0o666)
    (private / "1.cancel").chmod(0o666)
    os.chown(private / "1.cancel", BOB, BOB)
    assert "it belongs to another user" in as_user(ANN, lambda: the_ledger(state).mark_cancelled("1"))


def test_one_lock_for_all_users(state: Path) -> None:
    def wait_for_bob() -> None:
        lines: list[str] = []
        (held, holds), (release, go) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.setuid(BOB)
            with the_ledger(state).locked():
                os.write(holds, b"x")
                os.read(release, 1)
            os._exit(0)
        os.read(held, 1)
        os.setuid(ANN)

        def waiting(line: str) -> None:
            lines.append(line)
            os.write(go, b"x")

        with the_ledger(state).locked(waiting):
            os.waitpid(pid, 0)
        assert len(lines) == 1
        assert f"process {pid} (" in lines[0]
        assert f"user {BOB})" in lines[0]

    problem = in_child(wait_for_bob)
    assert not problem, problem


def test_a_watch_of_one_user_sees_a_user_that_comes_later(state: Path) -> None:
    def watch() -> None:
        (ready, watches), (done, ends) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.setuid(BOB)
            os.read(ready, 1)
            added(the_ledger(state))
            os.write(ends, b"x")
            os._exit(0)
        os.setuid(ANN)
        ledger = the_ledger(state)
        with ledger.watch() as changes:
            os.write(watches, b"x")
            for _ in range(100):
                if any(job.uid == BOB for job in ledger.jobs()):
                    break
                assert changes.wait(60)
            else:
                pytest.fail("the job of the new user was not seen")
            os.read(done, 1)
        os.waitpid(pid, 0)

    problem = in_child(watch)
    assert not problem, problem


def test_a_user_without_inotify_instances_polls(state: Path) -> None:
    def use_up() -> None:
        kept = []
        for _ in range(100_000):
            try:
                kept.append(Inotify())
            except OSError:
                break
        ledger = the_ledger(state)
        with LedgerWatch(ledger.place) as watch:
            added(ledger)
            assert watch.wait(60)
        assert kept

    problem = as_user(BOB, use_up)
    assert not problem, problem

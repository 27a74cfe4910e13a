"""The watch: every change of a record wakes it, and nothing else that the ledger does."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.job import LocalState
from fairlead.ledger import JobLedger
from fairlead.ledger.watch import LedgerWatch
from tests.ledger.jobs import a_ledger, a_submit, added

LIMIT = 60.0
CHANGES: dict[str, Callable[[JobLedger], object]] = {
    "added": added,
    "written": lambda ledger: ledger.write(replace(ledger.jobs()[0], state=LocalState.CANCELLED)),
    "removed": lambda ledger: ledger.remove("1"),
    "marked": lambda ledger: ledger.mark_cancelled("1"),
    "another user": lambda ledger: (Path(ledger.place.path) / "u4242/jobs").mkdir(parents=True),
}


def drain(watch: LedgerWatch) -> None:
    """Take the changes so far; without inotify a recent one is seen until its time stamp is old."""
    while watch.wait(0.1):
        pass


@pytest.mark.parametrize("polling", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_wakes(tmp_path: Path, polling: bool, change: str) -> None:
    ledger = a_ledger(tmp_path)
    added(ledger, a_submit())
    with LedgerWatch(ledger.place, polling=polling) as watch:
        drain(watch)
        CHANGES[change](a_ledger(tmp_path))
        assert watch.wait(LIMIT)


def test_changes_of_a_user_that_came_later_wake(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    jobs = Path(ledger.place.path) / "u4242/jobs"
    with ledger.watch() as watch:
        jobs.parent.mkdir()
        assert watch.wait(LIMIT)
        jobs.mkdir()
        assert watch.wait(LIMIT)
        drain(watch)
        (jobs / "tmp").touch()
        (jobs / "tmp").rename(jobs / "1.json")
        assert watch.wait(LIMIT)


def test_what_is_no_change_of_a_record_wakes_no_one(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    reader, writer = os.pipe()
    with ledger.watch() as watch:
        assert ledger.take_start_token(job.id)
        ledger.jobs()
        with ledger.locked():
            pass
        (Path(ledger.place.private) / "1.out").write_text("output")
        os.write(writer, b"x")
        assert not watch.wait(LIMIT, [reader]), "the events before the write are there by now"
        ledger.write(job)
        assert watch.wait(LIMIT)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("polling", [False, True])
def test_a_readable_descriptor_ends_the_wait(tmp_path: Path, polling: bool) -> None:
    ledger = a_ledger(tmp_path)
    reader, writer = os.pipe()
    with LedgerWatch(ledger.place, polling=polling) as watch:
        drain(watch)
        os.write(writer, b"x")
        assert not watch.wait(LIMIT, [reader])
        os.read(reader, 1)
        os.close(writer)
        assert not watch.wait(LIMIT, [reader]), "so does one whose other end is closed"
        assert not watch.wait(0.001, [])
    os.close(reader)


def test_many_changes_wake_seldom(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    with ledger.watch() as watch:
        wakes, start = 0, time.monotonic()
        for count in range(100):
            ledger.write(replace(job, reason=str(count)))
            wakes += watch.wait(0)
        assert 1 <= wakes <= 1 + (time.monotonic() - start) / 0.02


def test_a_state_directory_that_goes_away_wakes(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    with ledger.watch() as watch:
        (tmp_path / "state" / f"u{os.geteuid()}" / "jobs").rmdir()
        assert watch.wait(LIMIT)
        assert ledger.jobs() == ()
        assert "No such file" in ledger.skipped()[0]

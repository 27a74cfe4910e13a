"""Records that another program has put there: each is left out and named, and the others are read."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.ledger import JobLedger
from fairlead.ledger.reader import LARGEST_RECORD, MOST_PROBLEMS, MOST_RECORDS
from fairlead.ledger.record import JOBS
from tests.ledger.jobs import a_job, a_ledger, a_submit, added, needs_root


def text_of(number: int = 2, **changes: object) -> str:
    """Return a record."""
    return JOBS.encode(replace(a_submit(number=number, id=str(number)), **changes))  # type: ignore[arg-type]


def as_json(**values: object) -> str:
    """Return a record with other values."""
    return json.dumps(json.loads(text_of()) | values)


def bind(path: Path) -> None:
    """Put a socket there."""
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(path.parent, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda path: path.symlink_to("1.json"), "it cannot be opened"),
    "link to nothing": (lambda path: path.symlink_to("nothing"), "it cannot be opened"),
    "fifo": (os.mkfifo, "not a regular file"),
    "socket": (bind, "it cannot be opened"),
    "folder": (lambda path: path.mkdir(), "not a regular file"),
    "empty": (lambda path: path.write_text(""), "no job"),
    "cut": (lambda path: path.write_text(text_of()[:-5]), "no job"),
    "bytes": (lambda path: path.write_bytes(b"\xff\xfe\0"), "can't decode"),
    "zeros": (lambda path: path.write_bytes(bytes(4096)), "no job"),
    "deep": (lambda path: path.write_text("[" * 60_000), "no job"),
    "deeper": (lambda path: path.write_text('{"version":1,"a":' * 3000), "no job"),
    "large": (lambda path: path.write_text(text_of() + " " * LARGEST_RECORD), "larger than 65536 bytes"),
    "list": (lambda path: path.write_text("[1]"), "no job"),
    "escapes": (lambda path: path.write_text(as_json(name="\x1b[31m")), "no job"),
    "a time that no calendar has": (lambda path: path.write_text(as_json(submitted=1e12)), "no job"),
    "escapes in the key": (lambda path: path.write_text('{"version":1,"kind":"\\u001b[31m"}'), "no job"),
    "another id": (lambda path: path.write_text(text_of(3)), "it is the record of job 3"),
    "newer": (lambda path: path.write_text(as_json(version=2)), "job format 2: this program reads"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_record_that_cannot_be_trusted_is_named_and_left_out(tmp_path: Path, what: str) -> None:
    ledger = a_ledger(tmp_path)
    good = added(ledger)
    plant, why = PLANTED[what]
    path = Path(ledger.place.jobs) / "2.json"
    plant(path)
    for _ in range(2):  # the second reading goes by what the first one kept
        assert [job.id for job in ledger.jobs()] == [good.id]
        (problem,) = ledger.skipped()
        assert problem.startswith(f"{path}: ")
        assert why in problem
        assert problem.isprintable()
    assert added(ledger).number == 3, "a number that cannot be read is taken all the same"


def test_a_file_name_moves_no_cursor(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    (Path(ledger.place.jobs) / "\x1b[2J.json").write_text(text_of())
    assert ledger.jobs() == ()
    assert ledger.skipped() == (f"{ledger.place.jobs}/?[2J.json: it is the record of job 2",)


@pytest.mark.parametrize(
    "name", ["2.json.tmp", "02.json", "-2.json", "x.json", "2", "2.JSON", ".2.json", "2.json\n"]
)
def test_files_of_other_names_are_no_records(tmp_path: Path, name: str) -> None:
    ledger = a_ledger(tmp_path)
    added(ledger)
    (Path(ledger.place.jobs) / name).write_text(text_of())
    assert [job.id for job in ledger.jobs()] == ["1"]
    assert added(ledger).number == 2


def test_at_most_so_many_records_of_a_user_are_read(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    for number in range(1, MOST_RECORDS + 3):
        (Path(ledger.place.jobs) / f"{number}.json").touch()
    assert ledger.jobs() == ()
    assert len(ledger.skipped()) == MOST_PROBLEMS
    assert f"more than {MOST_RECORDS} entries" in ledger.skipped()[0]
    with pytest.raises(Exception, match="4096 jobs"):
        added(ledger)


def planted(ledger: JobLedger, uid: int, number: int) -> Path:
    """Put a record into the folder of another user."""
    jobs = Path(ledger.place.path) / f"u{uid}" / "jobs"
    jobs.mkdir(parents=True, exist_ok=True)
    (jobs / f"{number}.json").write_text(text_of(number, name=f"of {uid}"))
    for path in (jobs.parent, jobs, jobs / f"{number}.json"):
        os.chown(path, uid, uid)
    return jobs / f"{number}.json"


@needs_root
def test_the_owner_of_a_job_is_the_owner_of_the_file(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    own = added(ledger, a_job(name="mine"))
    planted(ledger, 64001, 2)
    for path in (
        planted(ledger, 64001, 3),
        planted(ledger, 64003, 4).parent,
        planted(ledger, 64004, 5).parent.parent,
    ):
        os.chown(path, 64002, 64002)
    jobs = ledger.jobs()
    assert [(job.name, job.uid, job.user) for job in jobs] == [
        ("mine", 0, "root"),
        ("of 64001", 64001, "64001"),
    ]
    assert [job.id for job in ledger.own_jobs()] == [own.id]
    ledger.jobs()
    text = "\n".join(ledger.skipped())
    assert "u64001/jobs/3.json: it belongs to user 64002" in text
    assert "u64003: it belongs to another user; its jobs are not read" in text
    assert "u64004: it belongs to user 64002; its jobs are not read" in text


@needs_root
def test_a_copied_id_changes_neither_job(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    added(ledger, a_job(name="mine"))
    planted(ledger, 64002, 1)
    planted(ledger, 64001, 1)
    assert [(job.id, job.name) for job in ledger.jobs()] == [
        ("1", "mine"),
        ("1@64001", "of 64001"),
        ("1@64002", "of 64002"),
    ]
    assert "another job has this id" in ledger.skipped()[0]


@needs_root
@pytest.mark.parametrize(
    ("counter", "number"), [("41\n", 42), (f"{10**9 + 1}", 1), ("9" * 30, 1), ("x", 1), ("-5", 1)]
)
def test_absurd_counters_of_others_are_ignored(tmp_path: Path, counter: str, number: int) -> None:
    ledger = a_ledger(tmp_path)
    path = planted(ledger, 64001, 10**10)
    path.parents[1].joinpath("counter").write_text(counter)
    assert added(ledger).number == number


@needs_root
def test_a_number_that_is_in_use_is_not_given_again(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    planted(ledger, 64001, 10**9)
    planted(ledger, 64001, 10**9 + 1)
    assert added(ledger).number == 10**9 + 2
    assert added(ledger).number == 10**9 + 3, "the own counter counts, whatever its number"


def test_a_counter_that_is_no_file_is_ignored(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    assert added(ledger).number == 1
    os.unlink(Path(ledger.place.own) / "counter")
    os.mkfifo(Path(ledger.place.own) / "counter")
    with ledger.locked():
        assert ledger._reader.numbers() == ({1}, 1)

"""A full disk, for real: the end of every job is recorded, and no job starts that could not be."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import LedgerError
from fairlead.job import LocalState
from fairlead.ledger import boot_id
from fairlead.ledger.record import JOBS
from tests.ledger.jobs import a_job, a_ledger, a_submit, added, in_child, mount, myself, needs_root

SIZE = 512 * 1024
LONG = "its runner was killed; the exit code is unknown" * 10


def on_a_small_disk(path: Path, action: Callable[[Path], None]) -> None:
    """Run a function in a process that has a small disk of its own."""

    def run() -> None:
        mount("tmpfs", str(path), f"size={SIZE}")
        action(path)

    problem = in_child(run)
    if "Operation not permitted" in problem:
        pytest.skip("no mount in this container")
    assert not problem, problem


def fill(path: Path) -> Path:
    """Use up the disk to the last byte."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as stream:
        for size in (4096, 1):
            for _ in range(SIZE):
                try:
                    stream.write(b"x" * size)
                except OSError:
                    break
            else:
                pytest.fail("the disk has no limit")
    return filler


def the_end_is_recorded(path: Path) -> None:
    ledger = a_ledger(path)
    running = [
        replace(added(ledger, make()), state=LocalState.RUNNING, command=myself())
        for make in (a_job, a_submit, a_job)
    ]
    for job in running:
        ledger.write(job)
    filler = fill(path)
    with pytest.raises(LedgerError, match="No space left on device: the job cannot be recorded") as full:
        ledger.write(running[0])
    assert "free some space" in full.value.hint
    assert ledger.jobs()[0] == replace(running[0], boot=ledger.jobs()[0].boot)
    for job in running:
        ledger.write(replace(job, state=LocalState.FAILED, exit_code=137, reason=LONG, ended=1.0))
    assert {(job.state, job.exit_code) for job in a_ledger(path).jobs()} == {(LocalState.FAILED, 137)}
    assert ledger.skipped() == ()
    filler.unlink()
    assert added(ledger).number == 4


def no_start_is_recorded(path: Path) -> None:
    ledger = a_ledger(path)
    job = added(ledger, a_submit())
    filler = fill(path)
    for _ in range(3):
        with pytest.raises(LedgerError, match="No space left"):
            ledger.write(replace(job, state=LocalState.RUNNING, command=myself()))
        with pytest.raises(LedgerError, match="No space left"):
            added(ledger, a_job(after=("x" * 200,) * 40))
    assert ledger.jobs() == (job,)
    assert ledger.skipped() == ()
    assert not ledger.was_started(job.id)
    filler.unlink()
    ledger.write(replace(job, state=LocalState.RUNNING, command=myself()))
    assert [each.state for each in ledger.jobs()] == [LocalState.RUNNING]
    assert added(ledger).number > job.number
    left = {name.partition(".")[0] for name in os.listdir(ledger.place.private)}
    assert left == {each.id for each in ledger.jobs()}, "what could not be added has left nothing"


def a_cancel_is_recorded(path: Path) -> None:
    ledger = a_ledger(path)
    job = added(ledger, a_submit())
    fill(path)
    assert ledger.take_start_token(job.id)
    ledger.write(replace(job, state=LocalState.CANCELLED, reason="cancelled", ended=1.0))
    ledger.remove(job.id)
    assert ledger.jobs() == ()


def a_long_record_has_room_too(path: Path) -> None:
    ledger = a_ledger(path)
    for length in range(1, 199):  # a record that leaves no room for a reason in its own blocks
        job = a_job(after=("x" * 200,) * 100 + ("x" * length,) * 20)
        if len(JOBS.encode(replace(job, id="1", number=1, boot=boot_id()))) % 4096 > 4000:
            break
    else:
        pytest.fail("no such record")
    job = added(ledger, job)
    assert Path(ledger.place.jobs, "1.json").stat().st_size % 4096 > 4000
    fill(path)
    ledger.write(replace(job, state=LocalState.FAILED, reason=LONG, ended=1.0))
    assert [each.reason for each in ledger.jobs()] == [LONG]


@needs_root
@pytest.mark.parametrize(
    "action", [the_end_is_recorded, no_start_is_recorded, a_cancel_is_recorded, a_long_record_has_room_too]
)
def test_on_a_full_disk(tmp_path: Path, action: Callable[[Path], None]) -> None:
    on_a_small_disk(tmp_path, action)

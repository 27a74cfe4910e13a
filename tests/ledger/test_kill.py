"""A process that is killed at any of its steps leaves a ledger that every reader understands.

The child does the work of a runner and reports each step that it has done. The test kills it before and after
each call that changes a file, and in the middle of each write.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.job import LocalJob, LocalState
from fairlead.ledger import JobLedger, process_ref
from fairlead.ledger.files import LedgerFiles
from tests.ledger.jobs import a_job, a_ledger, a_submit, added

MOST_STEPS = 400
QUEUED, RUNNING, DONE, GONE = "queued", "running", "done", "gone"
REPORTS = ("added 1", "started 1", "token 1", "ended 1", "removed 1", "added 2", "noted 2")
"""What the child reports, in this order."""
STATES = {  # for each number of reports: the states that job 1 and job 2 may be in
    0: ({GONE, QUEUED}, {GONE}),
    1: ({QUEUED, RUNNING}, {GONE}),
    2: ({RUNNING}, {GONE}),
    3: ({RUNNING, DONE}, {GONE}),
    4: ({DONE, GONE}, {GONE}),
    5: ({GONE}, {GONE, QUEUED}),
    6: ({GONE}, {QUEUED}),
    7: ({GONE}, {QUEUED}),
}


class KilledFiles(LedgerFiles):
    """Kills its process at one step."""

    def __init__(self, fatal: int) -> None:
        self._left = fatal

    def _step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def create(self, path: str, mode: int, flags: int = 0) -> int:
        self._step()
        file = super().create(path, mode, flags)
        self._step()
        return file

    def write(self, file: int, data: bytes) -> None:
        super().write(file, data[: len(data) // 2])
        self._step()
        super().write(file, data)
        self._step()

    def fsync(self, file: int) -> None:
        self._step()

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)
        self._step()

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)


def work(ledger: JobLedger, report: int) -> None:
    """Do what a submit, a runner and a second submit do."""

    def tell(what: str) -> None:
        os.write(report, f"{what}\n".encode())

    job = added(ledger, a_submit())
    tell("added 1")
    running = replace(job, state=LocalState.RUNNING, command=process_ref(os.getppid()))
    ledger.write(running)
    tell("started 1")
    assert ledger.take_start_token(job.id)
    tell("token 1")
    ledger.write(replace(running, state=LocalState.DONE, exit_code=0))
    tell("ended 1")
    ledger.remove(job.id)
    tell("removed 1")
    second = added(ledger, a_submit())
    tell("added 2")
    ledger.write(replace(second, reason="waits"))
    tell("noted 2")


def run_until(path: Path, fatal: int) -> tuple[list[str], bool]:
    """Run the child; return its reports, and whether it was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            work(a_ledger(path, KilledFiles(fatal)), writer)
        except BaseException:  # noqa: BLE001 - the status says it
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as stream:
        reports = stream.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return reports, status != 0


def check(path: Path, reports: list[str]) -> None:
    """Assert that the ledger is whole, and that it goes on."""
    ledger = a_ledger(path)
    jobs: dict[int, LocalJob] = {job.number: job for job in ledger.jobs()}
    assert ledger.skipped() == ()
    assert tuple(reports) == REPORTS[: len(reports)]
    for number, states in enumerate(STATES[len(reports)], start=1):
        job = jobs.pop(number, None)
        assert (GONE if job is None else job.state.value) in states
    assert not jobs
    if "token 1" in reports:
        assert not ledger.take_start_token("1"), "started twice"
    new = added(ledger, a_job())
    assert new.number > (2 if "added 2" in reports else 1 if reports else 0)
    for job in ledger.own_jobs():
        assert ledger.spec(job.id)
        ledger.write(job)
        ledger.write(replace(job, state=LocalState.DONE, exit_code=0))
    assert {job.state for job in ledger.jobs()} == {LocalState.DONE}
    with ledger.locked():
        ledger._writer.sweep()
    left = {name.partition(".")[0] for name in os.listdir(ledger.place.private)}
    assert left <= {job.id for job in ledger.jobs()}
    for job in ledger.jobs():
        ledger.remove(job.id)
    assert os.listdir(ledger.place.private) == os.listdir(ledger.place.jobs) == []


def test_a_process_may_be_killed_at_every_step(tmp_path: Path) -> None:
    seen: set[int] = set()
    for fatal in range(MOST_STEPS):
        path = tmp_path / str(fatal)
        path.mkdir()
        reports, killed = run_until(path, fatal)
        seen.add(len(reports))
        check(path, reports)
        if not killed:
            break
    else:
        pytest.fail("the child has more steps than that")
    assert seen == set(range(len(REPORTS) + 1)), "it is killed between any two reports"


def test_a_spare_of_a_killed_writer_is_used(tmp_path: Path) -> None:
    """After the rename of a record its next spare has another name for a moment."""
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    private = Path(ledger.place.private)
    (private / "1.spare").rename(private / "1.next")
    inode = (private / "1.next").stat().st_ino
    ledger.write(replace(job, state=LocalState.DONE, exit_code=0))
    assert Path(ledger.place.jobs, "1.json").stat().st_ino == inode

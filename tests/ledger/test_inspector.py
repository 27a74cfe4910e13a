"""A job ends while its record is read: the record that its process wrote last counts."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from fairlead.job import LocalJob, LocalState, ProcessRef
from fairlead.ledger import JobLedger, StateDirectory
from fairlead.ledger.judge import RUNNER_KILLED
from tests.ledger.jobs import FlushedFiles, a_submit, added
from tests.ledger.test_liveness import BOOT, a_line, a_root

RUNNER = ProcessRef(7, 4711, BOOT)
Seen = list[tuple[LocalState, str]]
ENDINGS: dict[str, tuple[Callable[[JobLedger, LocalJob], None], Seen]] = {
    "its end": (
        lambda ledger, job: ledger.write(replace(job, state=LocalState.DONE, exit_code=0, ended=1.0)),
        [(LocalState.DONE, "")],
    ),
    "a measurement": (
        lambda ledger, job: ledger.write(replace(job, name="measured")),
        [(LocalState.FAILED, RUNNER_KILLED)],
    ),
    "nothing": (lambda ledger, job: None, [(LocalState.FAILED, RUNNER_KILLED)]),
    "its archive": (lambda ledger, job: ledger.remove(job.id), []),
}


@pytest.mark.parametrize("last", ENDINGS)
def test_what_a_process_wrote_before_its_end_counts(tmp_path: Path, last: str) -> None:
    """The process file is a pipe: the reader has read the record, and waits until the runner has ended."""
    root = a_root(tmp_path, "")
    (tmp_path / "proc/7/stat").unlink()
    os.mkfifo(tmp_path / "proc/7/stat")
    ledger = JobLedger(StateDirectory.at(str(tmp_path / "state")), root, FlushedFiles())
    job = replace(added(ledger, a_submit()), state=LocalState.RUNNING, runner=RUNNER)
    ledger.take_start_token(job.id)
    ledger.write(job)
    write, seen = ENDINGS[last]

    def end() -> None:
        with (tmp_path / "proc/7/stat").open("w") as stat:  # opened once the reader has opened it too
            write(ledger, job)
            stat.write(a_line("python3", "Z", 4711))

    runner = Thread(target=end)
    runner.start()
    jobs = ledger.jobs()
    runner.join()
    assert [(each.state, each.reason) for each in jobs] == seen

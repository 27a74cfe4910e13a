"""Ended jobs leave the list of the machine only when the history has kept them."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.history.commands import command_keys
from fairlead.history.store import JobHistory
from fairlead.job import LocalState, Requested
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import boot_id
from fairlead.ledger.place import StateDirectory
from fairlead.ledger.spec import JobSpec
from fairlead.local.reap import archive_ended
from fairlead.local.runner.job_end import JobEnding, end_job
from tests.local.jobs import ended, used


@pytest.fixture
def ledger(tmp_path: Path) -> JobLedger:
    return JobLedger(StateDirectory.at(str(tmp_path / "state")))


def test_a_job_that_the_history_cannot_keep_stays_in_the_list(ledger: JobLedger, tmp_path: Path) -> None:
    with ledger.locked():
        job = ledger.add(
            ended(state=LocalState.FAILED, uid=ledger.place.uid, boot=boot_id()), JobSpec(("false",), "/")
        )
        ledger.write(job)
    said: list[str] = []
    archive_ended(ledger, JobHistory(ledger.place, str(tmp_path / "missing" / "h.db"), warn=said.append))
    assert [each.id for each in ledger.own_jobs()] == [job.id]
    assert len(said) == 1
    history = JobHistory(ledger.place, str(tmp_path / "h.db"), warn=said.append)
    archive_ended(ledger, history)
    assert ledger.own_jobs() == ()
    assert [each.id for each in history.jobs()] == [job.id]
    assert len(said) == 1


def test_a_command_and_its_model_are_learned_under_their_own_names(ledger: JobLedger, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    keys = command_keys(["python", "serve.py"], "/work", "digest")
    for job in (
        ended(1, key=keys[1]),
        ended(2, requested=Requested(model="net.onnx"), key=keys[0]),  # the same words with --model
    ):
        with ledger.locked():
            added = ledger.add(
                replace(job, uid=ledger.place.uid, boot=boot_id()), JobSpec(("python", "serve.py"), "/work")
            )
        end_job(ledger, added, JobEnding(0, outcome=used((), ram=(1.0,) * 4)), environ, print)
    learned = JobHistory.open(ledger.place, environ).all_learned()
    assert {known.key: (known.name, known.total) for known in learned} == {
        keys[0]: ("net.onnx", 1),
        keys[1]: ("serve.py", 2),
        keys[2]: ("serve.py", 2),
    }

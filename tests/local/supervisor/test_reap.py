"""Own ended jobs go into the history once; a restart of the machine queues submits again."""

import os
from dataclasses import replace

import pytest

from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.ledger import JobLedger, process_ref
from fairlead.local.reap import archive_ended, requeue_unstarted
from tests.local.supervisor.desk import Desk

DEAD = replace(process_ref(1) or pytest.fail("no process 1"), start=1)
"""A process that had pid 1 before: no such process lives."""


def running(desk: Desk, job: LocalJob) -> LocalJob:
    """Write a job as running with dead processes, started or not as its token says."""
    job = replace(job, state=LocalState.RUNNING, runner=DEAD, command=DEAD, started=job.submitted)
    desk.ledger.write(job)
    return job


def restarted(desk: Desk) -> JobLedger:
    """Return the ledger after a restart of the machine."""
    proc = desk.folder / "root" / "proc" / "sys" / "kernel" / "random"
    proc.mkdir(parents=True)
    (proc / "boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    return JobLedger(desk.place, str(desk.folder / "root"))


def test_ended_jobs_are_archived_once_and_live_ones_are_not(desk: Desk) -> None:
    queued, done, killed, alive = (desk.add() for _ in range(4))
    desk.ledger.write(replace(done, state=LocalState.DONE, exit_code=0, ended=2e9))
    desk.ledger.take_start_token(killed.id)
    running(desk, killed)
    here = process_ref(os.getpid())
    desk.ledger.write(replace(alive, state=LocalState.RUNNING, runner=here, command=here))
    for _ in range(2):
        archive_ended(desk.ledger, desk.history)
        assert [job.id for job in desk.ledger.own_jobs()] == [queued.id, alive.id]
        kept = {job.id: (job.state, job.exit_code, job.ended is not None) for job in desk.history.jobs()}
        assert kept == {done.id: (LocalState.DONE, 0, True), killed.id: (LocalState.FAILED, None, True)}


def test_a_living_runner_archives_its_own_job(desk: Desk) -> None:
    job = desk.add()
    ended = replace(job, state=LocalState.DONE, runner=process_ref(1), exit_code=0, ended=2e9)
    desk.ledger.write(ended)
    archive_ended(desk.ledger, desk.history)
    assert desk.ledger.own_jobs()  # it still learns from what the job used
    desk.ledger.write(replace(ended, runner=DEAD))
    archive_ended(desk.ledger, desk.history)
    assert not desk.ledger.own_jobs()


def test_a_job_that_another_waits_for_stays(desk: Desk) -> None:
    first, second = desk.add(), desk.add()
    desk.ledger.write(replace(first, state=LocalState.FAILED, exit_code=1, ended=2e9))
    desk.ledger.write(replace(second, after=(first.id,)))
    archive_ended(desk.ledger, desk.history)
    assert len(desk.ledger.own_jobs()) == 2
    desk.ledger.write(replace(second, state=LocalState.CANCELLED, ended=2e9))
    archive_ended(desk.ledger, desk.history)
    assert len(desk.history.jobs()) == 2


def test_a_dead_job_that_was_marked_is_cancelled(desk: Desk) -> None:
    job = desk.add()
    desk.ledger.take_start_token(job.id)
    running(desk, job)
    desk.ledger.mark_cancelled(job.id)
    archive_ended(desk.ledger, desk.history)
    assert desk.job(job.id).state is LocalState.CANCELLED


def test_a_submit_that_never_started_is_queued_and_not_archived(desk: Desk) -> None:
    job = desk.add()
    running(desk, job)
    requeue_unstarted(desk.ledger)
    archive_ended(desk.ledger, desk.history)
    assert [(each.id, each.state, each.shares) for each in desk.ledger.own_jobs()] == [
        (job.id, LocalState.QUEUED, ())
    ]


def test_a_restart_queues_submits_again_and_fails_what_ran(desk: Desk) -> None:
    waits, started, unstarted, foreground = desk.add(), desk.add(), desk.add(), desk.add(kind=JobKind.RUN)
    desk.ledger.take_start_token(started.id)
    running(desk, started)
    running(desk, unstarted)
    ledger = restarted(desk)
    requeue_unstarted(ledger)
    archive_ended(ledger, desk.history)
    now = {job.id: (job.state, job.reason) for job in ledger.own_jobs()}
    again = (LocalState.QUEUED, "machine restarted; queued again")
    assert now == {waits.id: again, unstarted.id: again}
    ended = {job.id: (job.state, job.reason) for job in desk.history.jobs()}
    assert ended == dict.fromkeys((started.id, foreground.id), (LocalState.FAILED, "machine restarted"))
    assert {job.boot[:8] for job in ledger.own_jobs()} == {"11111111"}


def test_a_submit_whose_start_was_interrupted_gets_a_supervisor(desk: Desk) -> None:
    """Its supervisor and its runner were killed before its command started."""
    job = running(desk, desk.add())
    desk.next_command()
    assert desk.wait(job.id, LocalState.DONE).exit_code == 0

"""Cancelled jobs end with all their processes, and no other process does."""

import errno
import os
import signal
import subprocess
from dataclasses import replace

from fairlead.job import JobKind, LocalState
from fairlead.ledger import JobLedger, process_ref
from fairlead.ledger.files import LedgerFiles
from fairlead.local.cancel import NOT_ADOPTED, cancel_jobs
from fairlead.units import Seconds
from tests.local.supervisor.desk import Desk, wait_until

SOON = Seconds(0.2)


def test_a_queued_submit_is_cancelled_at_once(desk: Desk) -> None:
    job = desk.add()
    cancel_jobs(desk.ledger, desk.history, [job.id])
    assert desk.job(job.id).state is LocalState.CANCELLED
    assert not desk.ledger.own_jobs()
    cancel_jobs(desk.ledger, desk.history, [job.id])  # it has ended: nothing to do


def test_a_running_job_gets_sigterm_and_its_runner_records_the_end(desk: Desk) -> None:
    job = desk.submit(
        f"trap 'echo asked > {desk.folder}/asked; exit 7' TERM; echo > {desk.folder}/up; "
        "while :; do sleep 0.01; done"
    )
    wait_until((desk.folder / "up").exists, "the command")
    cancel_jobs(desk.ledger, desk.history, [job], grace=Seconds(60.0))
    end = desk.wait(job)
    assert (end.state, end.exit_code) == (LocalState.CANCELLED, 7)
    assert (desk.folder / "asked").exists()


class FullFiles(LedgerFiles):
    """A disk that has no room for another file."""

    def create(self, path: str, mode: int, flags: int = 0) -> int:
        if not os.path.exists(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create(path, mode, flags)


def test_a_full_disk_keeps_no_job_from_its_cancellation(desk: Desk) -> None:
    running = desk.submit(f"echo > {desk.folder}/up; exec sleep 300", cpus=desk.cores())
    queued = desk.submit("exec sleep 300", cpus=desk.cores())
    wait_until((desk.folder / "up").exists, "the command")
    cancel_jobs(JobLedger(desk.place, files=FullFiles()), desk.history, [running, queued])
    assert (desk.wait(running).exit_code, desk.job(running).reason) == (143, "ended by SIGTERM")
    assert desk.wait(queued).state is LocalState.CANCELLED


def test_a_stopped_job_is_cancelled_with_its_stopped_runner(desk: Desk) -> None:
    job = desk.submit(f"echo > {desk.folder}/up; exec sleep 300")
    wait_until((desk.folder / "up").exists, "the command")
    running = desk.wait(job, LocalState.RUNNING)
    for process in (running.runner, running.command):
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
    cancel_jobs(desk.ledger, desk.history, [job], grace=Seconds(300.0))
    assert desk.job(job).state is LocalState.CANCELLED


def test_what_ignores_sigterm_gets_sigkill_with_its_group(desk: Desk) -> None:
    job = desk.submit(f"trap '' TERM; sh -c 'sleep 300 & echo > {desk.folder}/up' ; sleep 300")
    wait_until((desk.folder / "up").exists, "the command")
    cancel_jobs(desk.ledger, desk.history, [job], grace=SOON)
    assert desk.wait(job).state is LocalState.CANCELLED
    wait_until(lambda: not desk.processes(), "every process of the job")


def test_a_job_without_its_runner_is_cancelled_by_the_command(desk: Desk) -> None:
    job = desk.submit(f"echo > {desk.folder}/up; exec sleep 300")
    wait_until((desk.folder / "up").exists, "the command")
    runner = desk.wait(job, LocalState.RUNNING).runner
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    cancel_jobs(desk.ledger, desk.history, [job])
    assert desk.job(job).state is LocalState.CANCELLED


def test_a_waiting_run_is_asked_to_end(desk: Desk) -> None:
    with subprocess.Popen(["sleep", "300"]) as waiting:
        job = desk.add(JobKind.RUN, process_ref(waiting.pid))
        cancel_jobs(desk.ledger, desk.history, [job.id])
        assert waiting.wait(60) == -signal.SIGTERM
    assert desk.job(job.id).state is LocalState.CANCELLED


def test_an_adopted_process_runs_on_unless_it_is_to_be_killed(desk: Desk) -> None:
    with subprocess.Popen(["sleep", "300"]) as adopted:
        here = process_ref(adopted.pid)
        job = replace(desk.add(JobKind.ADOPTED), state=LocalState.RUNNING, command=here)
        desk.ledger.write(job)
        cancel_jobs(desk.ledger, desk.history, [job.id])
        assert (desk.job(job.id).reason, adopted.poll()) == (NOT_ADOPTED, None)
        job = replace(desk.add(JobKind.ADOPTED), state=LocalState.RUNNING, command=here)
        desk.ledger.write(job)
        cancel_jobs(desk.ledger, desk.history, [job.id], kill=True)
        assert adopted.wait(60) == -signal.SIGTERM

"""A job in the foreground: until it ends, this machine feeds it, works on it, and shows how it is doing."""

import argparse
import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.augment import job_view
from fairlead.cli.augment.decision_view import Explanation
from fairlead.cli.augment.jobs import failures_of
from fairlead.cli.augment.session import ChosenSession
from fairlead.cli.output.progress import Progress, progress
from fairlead.cli.output.show import show
from fairlead.cli.output.terminal import Screen

if TYPE_CHECKING:
    import socket

    from fairlead.submission.feeder import Feeder
    from fairlead.submission.record import SubmissionRecord
    from fairlead.submission.run import JobRun
    from fairlead.submission.sources import Found

_LOOKS: Final = (0.1, 1.0)
"""Seconds between two looks at the job: at its start, and later; a short job ends soon."""
_SHOWN: Final = 10
"""Failed inputs that are printed; `fairlead augment logs` prints all."""
_INTERRUPTED: Final = 130


def run_job(options: argparse.Namespace, session: ChosenSession, record: "SubmissionRecord") -> int:
    """Run a job of this machine until it ends; return the exit code."""
    from fairlead.device.place import locked
    from fairlead.errors import JobError
    from fairlead.signals import stop_signals
    from fairlead.submission.record import record_path

    path = record_path(os.environ, record.job)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with stop_signals() as stop, locked(f"{path}.lock", exclusive=True) as held:
        if not held:
            raise JobError(f"job {record.job} runs here already", "end that command first")
        code = _run(options, session, record, stop)
        if code != _INTERRUPTED:
            os.unlink(f"{path}.lock")
        return code


def _run(
    options: argparse.Namespace, session: ChosenSession, record: "SubmissionRecord", stop: "socket.socket"
) -> int:
    from fairlead.submission.record import remove_record

    with _opened(session, record) as run:
        run.start()
        try:
            is_ended = _wait(run, options, stop, is_following=record.follow)
        except BaseException:
            run.stop()
            raise
        if not is_ended:
            run.stop()
            _say_left(record.job)
            return _INTERRUPTED
        run.finish()
    code = _report(options, session, run)
    if code == 0:
        remove_record(os.environ, record.job)
    return code


@contextmanager
def _opened(session: ChosenSession, record: "SubmissionRecord") -> "Iterator[JobRun]":
    from fairlead.submission.collecting import ResultCollector
    from fairlead.submission.run import InputChoice, JobRun
    from fairlead.submission.working import device_work

    door, place, job = session.door, session.place, record.job
    choice = InputChoice(record.inputs, record.base, record.follow)
    with choice.found(sys.stdin) as (found, end_inputs):
        feeder = _feeder(session, record, found)
        collector = ResultCollector(door, job, record.out) if record.out else None
        work = None
        if place is not None and record.works:
            work = device_work(place, door, job, record.base, record.slots, _log)
        yield JobRun(door, job, feeder, collector, work, end_inputs, _warn)


def _feeder(
    session: ChosenSession, record: "SubmissionRecord", found: "Iterable[Found | None]"
) -> "Feeder | None":
    """Return what feeds the job from here; None: it was submitted elsewhere."""
    from fairlead.submission.feeder import Feeder

    if not record.inputs:
        return None
    with session.door.client() as client:
        is_named = bool(client.job(record.job).get("complete"))
    return Feeder(session.door, record.job, record.base, () if is_named else found)


def _wait(run: "JobRun", options: argparse.Namespace, stop: "socket.socket", *, is_following: bool) -> bool:
    """Wait until the job ends; False: its user does not wait for that."""
    said, (pause, longest) = "", _LOOKS
    explanation = Explanation() if options.explain else None
    with run.door.client() as client, progress(f"job {run.job}") as bar:
        while not run.look(client):
            said = _show_progress(run, bar, said)
            if explanation is not None and run.last is not None and (page := explanation.news(run.last)):
                bar.clear()
                stream = sys.stdout if options.output == "table" else sys.stderr
                print(page.render(Screen.of(stream, os.environ, options.color)), file=stream, flush=True)
            pause = min(longest, 1.3 * pause)
            if not select.select([stop], [], [], pause)[0]:
                continue
            stop.recv(64)
            if not is_following:
                return False
            is_following = False
            run.end_inputs()  # what has appeared by now is finished; a second signal ends this at once
    return True


def _show_progress(run: "JobRun", bar: Progress, said: str) -> str:
    """Show how the job is doing; what its user should know is printed once."""
    job = run.last
    if job is None:
        return said
    text = job_view.helps_text(job)
    if text and text != said:
        bar.clear()
        _warn(text)
    counts = job["counts"]
    feeding = run.feeder.progress if run.feeder is not None else None
    problem = run.problem or (feeding.problem if feeding is not None else "")
    bar.update(counts["done"] + counts["failed"], counts["inputs"], problem or job_view.progress_text(job))
    return text or said


def _report(options: argparse.Namespace, session: ChosenSession, run: "JobRun") -> int:
    """Print what the job has brought; return 1 where an input has no result."""
    assert run.last is not None
    job = job_view.with_rates(run.last, run.running)
    feeding = run.feeder.progress if run.feeder is not None else None
    faults = list(run.feeder.faults) if run.feeder is not None else []
    unusable = feeding.unusable if feeding is not None else 0
    code = 1 if job["counts"]["failed"] or unusable or job["state"] == "cancelled" else 0
    if options.output != "table":
        more = {"unusable": [{"path": each.path, "reason": each.reason} for each in faults]}
        uploaded = {"files": feeding.uploaded, "bytes": feeding.uploaded_bytes} if feeding else {}
        fetched = run.collector.fetched if run.collector is not None else 0
        show({**job, **more, "uploaded": uploaded, "fetched": fetched}, options.output)
    else:
        uploads = job_view.uploads_text(feeding.uploaded, feeding.uploaded_bytes) if feeding else ""
        for line in filter(None, (*job_view.summary_lines(job), uploads)):
            print(line)
    for fault in faults[:_SHOWN]:
        _warn(f"{fault.path}: it is no input: {fault.reason}")
    if job["counts"]["failed"]:
        _show_failures(session, job)
    return code


def _show_failures(session: ChosenSession, job: Any) -> None:
    with session.door.client() as client:
        for number, failure in enumerate(failures_of(client, job["job"])):
            if number == _SHOWN:
                _warn(f"... `fairlead augment logs {job['job']}` lists all of them")
                break
            _warn(job_view.failure_line(failure))
    _warn(f"`fairlead augment resume {job['job']}` runs the failed inputs again, and no others")


def _say_left(job: str) -> None:
    _warn(f"job {job} goes on without this machine: `fairlead augment resume {job}` goes on here")


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _warn(line: str) -> None:
    print(f"fairlead: {line}", file=sys.stderr, flush=True)

"""`fairlead cancel`: end a job, or take it out of the queue."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.cli.local.find_job import find_ended, find_own, no_such_job
from fairlead.cli.output.terminal import show_error
from fairlead.errors import FairleadError, SettingsError
from fairlead.units import Seconds, parse_duration

if TYPE_CHECKING:
    from fairlead.job import LocalJob
    from fairlead.ledger.ledger import JobLedger
    from fairlead.ledger.place import StateDirectory


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "cancel",
        help="end a job, or take it out of the queue",
        description="Take queued jobs out of the queue, and end running ones: by SIGTERM, after the grace "
        "period by SIGKILL. It waits until they have ended.",
    )
    command.add_argument("jobs", metavar="JOB", nargs="*", help="the id or the name of a job")
    command.add_argument("--all", action="store_true", help="all your jobs that are queued or running")
    command.add_argument(
        "--grace", metavar="TIME", default="10s", help="between SIGTERM and SIGKILL (default: %(default)s)"
    )
    command.add_argument(
        "--kill",
        action="store_true",
        help="end the processes of adopted jobs too, which only leave the list otherwise",
    )
    command.add_argument("--no-wait", action="store_true", help="return once the jobs are asked to end")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.ledger import JobLedger, StateDirectory

    grace = _grace(options.grace)
    if bool(options.jobs) == options.all:
        raise SettingsError(
            "name the jobs to cancel, or --all for every job of yours; `fairlead ps` lists them"
        )
    ledger = JobLedger(StateDirectory.open(os.environ))
    chosen, failures = _choose(options, ledger)
    for failure in failures:
        show_error(f"fairlead: {failure}; {failure.hint}")
    codes = [1] if failures else []
    for uid in dict.fromkeys(job.uid for job in chosen):
        jobs = [job for job in chosen if job.uid == uid]
        codes.append(_cancel_of(uid, jobs, ledger, grace, options))
    return max(codes, default=0)


def _grace(text: str) -> Seconds:
    try:
        return parse_duration(text)
    except ValueError:
        raise SettingsError(f"--grace {text}: not a duration; write it like 10s") from None


def _choose(options: argparse.Namespace, ledger: "JobLedger") -> "tuple[list[LocalJob], list[FairleadError]]":
    """Return the jobs to cancel, and why others that were named are not among them."""
    jobs, uid = ledger.jobs(), ledger.place.uid
    if options.all:
        return [job for job in jobs if job.uid == uid and not job.state.ended], []
    chosen: dict[str, LocalJob] = {}
    failures = []
    for word in options.jobs:
        try:
            job = _named(word, jobs, ledger.place)
        except FairleadError as failure:
            failures.append(failure)
        else:
            chosen[job.id] = job
    return list(chosen.values()), failures


def _named(word: str, jobs: "Sequence[LocalJob]", place: "StateDirectory") -> "LocalJob":
    """Return the job that a word names; one that has ended already is found in the history."""
    job = None
    if place.uid == 0:  # root may cancel the job of any user, by its id
        job = next((job for job in jobs if job.id == word), None)
    job = job or find_own(word, jobs, place.uid)
    if job is None:
        from fairlead.history.store import JobHistory

        job = find_ended(word, JobHistory.open(place, os.environ), place.uid)
    if job is None:
        raise no_such_job(word)
    return job


def _cancel_of(
    uid: int, jobs: "Sequence[LocalJob]", ledger: "JobLedger", grace: Seconds, options: argparse.Namespace
) -> int:
    """Cancel the jobs of one user, and return the exit code; root becomes that user for it."""
    # Loaded here for the history: that user may not be able to read root's Python.
    import sqlite3  # noqa: F401
    import urllib.parse  # noqa: F401

    import fairlead.history.database
    import fairlead.history.store
    import fairlead.local.cancel  # noqa: F401

    if uid == ledger.place.uid and not options.no_wait:
        _cancel(jobs, os.environ, grace, options, lambda: None)
        return 0
    return _in_child(
        lambda requested: _cancel(jobs, _become(uid), grace, options, requested), wait=not options.no_wait
    )


def _cancel(
    jobs: "Sequence[LocalJob]",
    environ: Mapping[str, str],
    grace: Seconds,
    options: argparse.Namespace,
    requested: Callable[[], None],
) -> None:
    from fairlead.history.store import JobHistory
    from fairlead.ledger import JobLedger, StateDirectory
    from fairlead.local.cancel import cancel_jobs

    place = StateDirectory.open(environ)
    ledger, history = JobLedger(place), JobHistory.open(place, environ)

    def on_requested() -> None:
        if options.no_wait:
            states = [(job, job.state if job.state.ended else "asked to end") for job in jobs]
            print("\n".join(f"job {job.id} ({job.name}): {state}" for job, state in states), flush=True)
        requested()

    ids = [job.id for job in jobs]
    cancel_jobs(ledger, history, ids, grace=grace, kill=options.kill, requested=on_requested)
    if not options.no_wait:
        known = (*(job for job in jobs if job.state.ended), *history.jobs(len(ids) + 200), *ledger.own_jobs())
        ended = {job.id: job.state for job in known}
        print(
            "\n".join(f"job {job.id} ({job.name}): {ended.get(job.id, 'ended')}" for job in jobs), flush=True
        )


def _become(uid: int) -> Mapping[str, str]:
    """Give this process the rights of a user, and return the environment that leads to the user's history."""
    import pwd

    if uid == os.geteuid():
        return os.environ
    try:
        entry = pwd.getpwuid(uid)
        gid, home = entry.pw_gid, entry.pw_dir
    except KeyError:
        gid, home = uid, "/"
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    own = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**own, "HOME": home}


def _in_child(work: Callable[[Callable[[], None]], None], *, wait: bool) -> int:
    """Do the work in a process of its own; without `wait` only until it has asked the jobs to end."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            code = _child(work, writer, wait)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        asked = bool(answers.read(1))
    if asked and not wait:
        return 0
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _child(work: Callable[[Callable[[], None]], None], writer: int, wait: bool) -> int:
    def requested() -> None:
        os.write(writer, b"x")
        if not wait:
            _leave_terminal()

    try:
        work(requested)
    except FairleadError as error:
        show_error(f"fairlead: {error}" + (f"\n  {error.hint}" if error.hint else ""))
        return error.exit_code
    except (ImportError, OSError) as error:  # root's Python may be hidden from that user
        show_error(f"fairlead: cancel failed as that user: {error}")
        return 1
    return 0


def _leave_terminal() -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)

"""`fairlead augment jobs`, `logs` and `cancel`: jobs over many inputs, and what has failed of them."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.augment import job_view
from fairlead.cli.augment.decision_view import decision_lines
from fairlead.cli.augment.job_options import add_explain
from fairlead.cli.augment.session import add_session, chosen_session
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Column, Fit, Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from fairlead.submission.client import JobsClient

_FAILURES: Final = (
    Column("INPUT", Fit.MIDDLE, identity=True),
    Column("EXIT", Fit.KEEP),
    Column("WORKER", Fit.KEEP),
    Column("ERROR", Fit.PROSE),
)
Json = Mapping[str, Any]


def add(verbs: Any) -> None:
    """Add the verbs."""
    listing = verbs.add_parser(
        "jobs",
        help="list the jobs of a session, or show one with its workers",
        description="List the jobs over many inputs of a session, or show one: its workers, their rates, the "
        "time left, and what a split can gain at most.",
    )
    listing.add_argument("job", metavar="JOB", nargs="?", help="show this one")
    add_explain(listing)
    add_session(listing)
    shared.add_list(listing, job_view.LIST)
    listing.set_defaults(run=_jobs)
    logs = verbs.add_parser(
        "logs",
        help="list the failed inputs of a job, with their errors",
        description="List the inputs of a job on which the command failed, with its exit code and its error. "
        "The exit code is 1 if there are any. `fairlead augment resume` runs them again, and no others.",
    )
    add_job(logs)
    shared.add_list(logs, _FAILURES)
    logs.set_defaults(run=_logs)
    cancel = verbs.add_parser(
        "cancel",
        help="end a job; its results stay",
        description="End a job: workers give up the inputs that they hold. What has a result keeps it.",
    )
    add_job(cancel)
    shared.add_output(cancel)
    cancel.set_defaults(run=_cancel)


def add_job(command: argparse.ArgumentParser) -> None:
    """Add the job, and the session that it is of."""
    command.add_argument("job", metavar="JOB", help="the id of the job: `fairlead augment jobs` lists them")
    add_session(command)


def _jobs(options: argparse.Namespace) -> int:
    with chosen_session(options).door.client() as client:
        if options.job is not None:
            _show_job(client.job(options.job), options)
            return 0
        found = client.jobs()
    found = sorted_by(found, options.sort_by, job_view.LIST, job_view.row, dict)
    if options.output in ("json", "yaml"):
        show([dict(each) for each in found], options.output)
        return 0
    rows = [job_view.row(each) for each in found]
    headers = not options.no_headers
    show_list(job_view.LIST, rows, options.output, headers=headers, empty="no jobs", color=options.color)
    return 0


def _show_job(job: Json, options: argparse.Namespace) -> None:
    if options.output in ("json", "yaml"):
        show(dict(job), options.output)
        return
    lines: list[str | Table] = list(job_view.summary_lines(job)[:1])
    lines += [text for text in (job_view.progress_text(job),) if text]
    if job["workers"]:
        lines += ["", Table.of(job_view.WORKERS, job_view.worker_rows(job))]
    lines += job_view.saved_lines(job)
    if options.explain:
        lines += ["", *decision_lines(job)]
    show_page(Page.of(*lines), options.color)


def _logs(options: argparse.Namespace) -> int:
    with chosen_session(options).door.client() as client:
        found = [dict(each) for each in failures_of(client, options.job)]
    found = sorted_by(found, options.sort_by, _FAILURES, _failure_row, dict)
    if options.output in ("json", "yaml"):
        show({"job": options.job, "failures": found}, options.output)
    else:
        rows = [_failure_row(each) for each in found]
        headers = not options.no_headers
        show_list(
            _FAILURES, rows, options.output, headers=headers, empty="no failed inputs", color=options.color
        )
    return 1 if found else 0


def failures_of(client: "JobsClient", job: str) -> Iterator[Json]:
    """Yield the failed inputs of a job, a page at a time."""
    after, is_last = 0, False
    while not is_last:
        page = client.failures(job, after)
        yield from page.items
        after, is_last = page.after, page.is_last


def _failure_row(failure: Json) -> tuple[str, ...]:
    code = failure.get("exit")
    return (
        str(failure["path"]),
        "-" if code is None else str(code),
        str(failure.get("worker") or "-"),
        str(failure["error"]),
    )


def _cancel(options: argparse.Namespace) -> int:
    with chosen_session(options).door.client() as client:
        job = client.cancel(options.job)
    if options.output != "table":
        show(dict(job), options.output)
        return 0
    print(job_view.summary_lines(job)[0])
    return 0

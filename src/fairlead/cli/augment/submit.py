"""`fairlead augment submit` and `resume`: one job over many files, on device and server together."""

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairlead.cli.augment import job_options
from fairlead.cli.augment.job_facts import stated_facts
from fairlead.cli.augment.jobs import add_job
from fairlead.cli.augment.session import chosen_session
from fairlead.cli.output.progress import progress
from fairlead.cli.shell import options as shared
from fairlead.units import pluralize

if TYPE_CHECKING:
    from fairlead.submission.record import SubmissionRecord


def add(verbs: Any) -> None:
    """Add the verbs."""
    submit = verbs.add_parser(
        "submit",
        help="run one job over many files, on the device and its server together",
        description="Run a program, a Python function or an ONNX model over many files. The device that "
        "submits works on them, and so do all others of its session and the server: each takes inputs at the "
        "rate that it really achieves. Every input has exactly one result. The exit code is 1 if the command "
        "failed on an input; `fairlead augment resume` runs those again, and no others.",
    )
    job_options.add_options(submit)
    submit.set_defaults(run=_submit)
    resume = verbs.add_parser(
        "resume",
        help="go on with a job that was interrupted here, and run its failed inputs again",
        description="Run the failed inputs of a job again, and no others, and go on with what this machine "
        "did for the job: name its inputs, work on them, fetch results. What has a result keeps it. A list "
        "that was read from the standard input is read from there again.",
    )
    add_job(resume)
    job_options.add_explain(resume)
    shared.add_output(resume)
    resume.set_defaults(run=_resume)


def _submit(options: argparse.Namespace) -> int:
    from fairlead.cli.augment.job_run import run_job
    from fairlead.submission.along import upload_files
    from fairlead.submission.record import SubmissionRecord, save_record
    from fairlead.submission.run import InputChoice

    request, files = job_options.requested(options)
    choice = InputChoice.of(options.inputs, options.base, follow=options.follow)
    if options.out:
        choice.check_out(options.out)
    session = chosen_session(options)
    if session.place is not None:
        facts = stated_facts(options, session.place, choice)
        request = replace(request, feeder=session.place.name, offload=facts)
    with session.door.client() as client:
        if files:
            with progress("uploading the files taken along"):
                upload_files(client, files)
        job = client.submit(request.to_json())
    out = os.path.abspath(options.out) if options.out else ""
    works = session.place is not None and "device" in request.on and request.policy != "server"
    record = SubmissionRecord(job, choice.inputs, choice.base, choice.follow, out, options.slots, works)
    save_record(os.environ, record)
    if options.output == "table":
        print(f"job {job} in {session.door.about}", flush=True)
    return run_job(options, session, record)


def _resume(options: argparse.Namespace) -> int:
    from fairlead.cli.augment.job_run import run_job
    from fairlead.submission.record import load_record

    session = chosen_session(options)
    with session.door.client() as client:
        again = int(client.again(options.job).get("again") or 0)
    if options.output == "table":
        print(f"job {options.job}: {pluralize(again, 'failed input')} again", flush=True)
    record = load_record(os.environ, options.job)
    return run_job(options, session, record or _watching(options.job))


def _watching(job: str) -> "SubmissionRecord":
    """Return the record of a job that was submitted elsewhere: it is watched alone."""
    from fairlead.submission.record import SubmissionRecord

    return SubmissionRecord(job, "", "", follow=False, out="", slots=1, works=False)

"""A new job of `run` or `submit`: its record and its specification, from checked options."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fairlead.cli.local.job_options import JobOptions, default_name, resolve_after
from fairlead.errors import UserError
from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.ledger.liveness import boot_id, seconds_since_boot
from fairlead.ledger.spec import JobSpec

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory
    from fairlead.inventory import Inventory
    from fairlead.ledger.ledger import JobLedger
    from fairlead.local.view import MachineView
    from fairlead.prediction import Estimate


def new_spec(options: JobOptions, environ: Mapping[str, str], output: str = "") -> JobSpec:
    """Return how the command of a job is run: here, with this environment and the umask of this process."""
    umask = os.umask(0o077)
    os.umask(umask)
    return JobSpec(
        options.argv, working_directory(), dict(environ), output, options.model_path, options.shapes, umask
    )


def working_directory() -> str:
    """Return the folder in which this process runs; a UserError says that it is gone."""
    try:
        return os.getcwd()
    except OSError as error:
        raise UserError(
            f"the working directory: {error.strerror}", "change to a folder that exists, and run it there"
        ) from None


def new_job(
    options: JobOptions,
    kind: JobKind,
    history: "JobHistory",
    view: "MachineView",
    inventory: "Callable[[], Inventory]",
) -> LocalJob:
    """Return a queued job that has no id yet; `after` is set under the lock, by `add_job`.

    A SettingsError says what it requests that this machine can never give.
    """
    from fairlead.cli.local.limiter_check import check_limiter
    from fairlead.cli.local.machine_check import check_machine
    from fairlead.history.commands import command_keys, model_digest
    from fairlead.local.assume import assume

    model = options.model_path
    keys = command_keys(options.argv, working_directory(), model_digest(model) if model else "")
    name = options.name or default_name(options.argv)
    prediction = _prediction(options, inventory) if model else None
    job = LocalJob(
        id="",
        number=0,
        name=name,
        uid=os.geteuid(),
        user="",
        kind=kind,
        state=LocalState.QUEUED,
        submitted=time.time(),
        submitted_boot=seconds_since_boot(),
        boot=boot_id(),
        requested=options.requested,
        assumed=assume(options.requested, keys, history, view, prediction, name),
        priority=options.priority,
        timeout=options.timeout,
        key=keys[0],
    )
    check_machine(job, view)
    check_limiter(job, view, os.environ)
    return job


def _prediction(options: JobOptions, inventory: "Callable[[], Inventory]") -> "Mapping[str, Estimate]":
    from fairlead.local.predict import predict_here  # the estimator takes long to load

    slo = options.requested.slo
    return predict_here(options.model_path, options.shapes, slo, inventory(), os.environ)


def add_job(
    ledger: "JobLedger", history: "JobHistory", job: LocalJob, spec: JobSpec, options: JobOptions
) -> LocalJob:
    """Record a new job, under the lock: a job that it waits for cannot leave the list in between."""
    uid = ledger.place.uid
    after = options.after and resolve_after(options.after, ledger.jobs(), uid, lambda: history.jobs()[::-1])
    return ledger.add(replace(job, after=tuple(after)), spec)

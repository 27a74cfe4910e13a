"""Options and pages of training: `fairlead analyze --train` and `fairlead estimate --train`."""

import argparse
from typing import TYPE_CHECKING

from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.errors import SettingsError
from fairlead.units import format_bytes, format_number, pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.estimate.knowledge import Knowledge
    from fairlead.estimate.target import Target
    from fairlead.training.predict import TrainingEstimate, TrainingJob
    from fairlead.units import Seconds
    from fairlead.workload import Profile

_OPTIONS = ("optimizer", "samples", "epochs", "checkpointing", "federated", "link")
HEAD = (
    Column("DEVICE", Fit.KEEP),
    *map(Column, ("STEP", "P90", "SAMPLES/S", "MEMORY", "ENERGY", "JOB", "CONFIDENCE")),
    Column("WHY", Fit.PROSE),
    Column("JOB ENERGY", wide=True),
    Column("OF MEMORY", wide=True),
    Column("BATCH", wide=True),
)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options that say how a model is trained."""
    group = command.add_argument_group("training")
    group.add_argument(
        "--train", action="store_true", help="take the model as one to train, rather than to run"
    )
    group.add_argument(
        "--optimizer", metavar="NAME", help="sgd (with momentum), sgd-plain, adam, adamw, ... (default: sgd)"
    )
    group.add_argument(
        "--checkpointing", action="store_true", help="keep few activations and compute the others again"
    )
    group.add_argument(
        "--samples", metavar="N", type=int, help="samples of an epoch: the job then has an end"
    )
    group.add_argument("--epochs", metavar="E", type=int, help="passes over the samples (default: 1)")


def check_options(options: argparse.Namespace) -> None:
    """Refuse options of training without --train."""
    given = [name for name in _OPTIONS if getattr(options, name, None)]
    if given and not options.train:
        raise SettingsError(f"--{given[0]} is about training", "add --train")


def job_of(options: argparse.Namespace, profile: "Profile") -> "TrainingJob":
    """Return the training job that the options describe."""
    from fairlead.training.predict import TrainingJob
    from fairlead.training.setup import USUAL_BATCH, TrainingSetup

    setup = TrainingSetup.of(
        USUAL_BATCH if options.batch is None else options.batch,
        options.optimizer,
        options.precision,
        checkpointing=options.checkpointing,
        samples=options.samples,
        epochs=options.epochs,
    )
    return TrainingJob.of(profile, setup)


def estimates(
    job: "TrainingJob", targets: "Sequence[Target]", knowledge: "Knowledge", slo: "Seconds | None"
) -> "list[TrainingEstimate]":
    """Return the estimates of a job, those that train and fit first, by the time of a step."""
    from fairlead.prediction import sort_key
    from fairlead.training.predict import estimate_training

    return sorted(estimate_training(job, targets, knowledge, slo), key=lambda each: sort_key(each.step))


def show_estimates(
    options: argparse.Namespace, trained: "list[TrainingEstimate]", notes: "Sequence[str]"
) -> int:
    """Print the estimates of a job."""
    trained = sorted_by(trained, options.sort_by, HEAD, row, lambda each: each.to_json())
    if options.output in ("json", "yaml"):
        show({"estimates": [each.to_json() for each in trained]}, options.output)
    elif options.no_headers or options.output == "name":
        rows = [row(each) for each in trained]
        show_list(HEAD, rows, options.output, headers=False, color=options.color)
    else:
        warnings = [Text(f"note: {note}", Tone.WARN) for note in notes]
        page = select_columns(HEAD, [row(each) for each in trained], options.output, headers=True)
        show_page(Page.of(page, warnings), options.color)
    return 0 if any(each.step.good for each in trained) else 1


def summary(job: "TrainingJob") -> Page:
    """Return what a step of a job takes, for people."""
    setup, memory = job.setup, job.memory
    again = ", checkpointing" if setup.checkpointing else ""
    head = f"training: batch {setup.batch}, {setup.optimizer}, {setup.precision}{again}"
    norms = f", with {pluralize(job.layers.norms_restored, 'folded norm')} restored"
    rows = (
        ("weights", memory.weights),
        ("gradients", memory.gradients),
        (f"states of {setup.optimizer}", memory.optimizer),
        ("kept activations", memory.activations),
        ("workspace", memory.workspace),
        ("peak", memory.peak),
    )
    kernels = f"about {pluralize(round(job.work.calls), 'kernel')} in a step"
    return Page.of(
        f"{head}; {kernels}{norms if job.layers.norms_restored else ''}",
        Table.of(("MEMORY", "BYTES"), [(name, format_bytes(size)) for name, size in rows]),
    )


def row(each: "TrainingEstimate") -> tuple[str | Cell, ...]:
    """Return an estimate as a row of the table."""
    step = each.step
    if step.seconds is None or step.p90 is None or step.memory is None:
        text = step.reasons[0] if step.runs is None else f"does not train: {step.reasons[0]}"
        memory = "-" if step.memory is None else Cell(format_bytes(step.memory), step.memory)
        why = Cell(text, tone=Tone.WARN if step.runs is None else Tone.BAD)
        return (step.device, *["-"] * 3, memory, *["-"] * 3, why, *["-"] * 3)
    job, energy = each.job_seconds, each.job_joules
    return (
        step.device,
        Cell(format_seconds(step.seconds), step.seconds),
        Cell(format_seconds(step.p90), step.p90),
        Cell(format_number(step.batch / step.seconds), step.batch / step.seconds),
        Cell(format_bytes(step.memory), step.memory),
        "-" if step.joules is None else Cell(_energy(step.joules), step.joules),
        "-" if job is None else Cell(long_time(job), job),
        f"{step.confidence}, {step.basis}",
        Cell(_why(each), tone=Tone.BAD if step.reasons else Tone.WARN if step.meets_slo is False else None),
        "-" if energy is None else Cell(_energy(energy), energy),
        "-" if step.available is None else Cell(format_bytes(step.available), step.available),
        str(step.batch),
    )


def long_time(seconds: float) -> str:
    """Return the time of a job as text: `12 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 120:
        return f"{format_number(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _why(each: "TrainingEstimate") -> str:
    parts = [f"does not fit: {reason}" for reason in each.step.reasons]
    parts += ["too slow"] if each.step.meets_slo is False else []
    return "; ".join([*parts, f"{each.step.runtime}, {each.step.precision}"])


def format_seconds(seconds: float) -> str:
    """Return the time of a step as text."""
    return f"{format_number(seconds)} s" if seconds >= 1 else f"{format_number(seconds * 1e3)} ms"


def _energy(joules: float) -> str:
    for scale, unit in ((3.6e6, "kWh"), (1.0, "J")):
        if joules >= scale:
            return f"{format_number(joules / scale)} {unit}"
    return f"{format_number(joules * 1e3)} mJ"

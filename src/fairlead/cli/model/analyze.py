"""`fairlead analyze`: the work, weights and memory of a model, without running it."""

import argparse
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fairlead.cli.model import training
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.workload import Operator, Profile, Tensor


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "analyze",
        help="show the work, weights and memory of a model",
        description="Show the work, weights, memory and operators of an ONNX or TFLite model, and which "
        "runtimes cannot run it. Weights are not read, and the model is not run.",
    )
    shared.add_model(command)
    shared.add_output(command)
    training.add_options(command)
    command.add_argument("--precision", metavar="P", help="with --train: fp32, amp or bf16 (default: fp32)")
    command.add_argument(
        "--batch", metavar="N", type=int, help="with --train: samples in a step (default: 32)"
    )
    command.add_argument(
        "-v", "--verbose", action="store_true", help="with -o table: also print every operator"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.analyze import analyze, parse_shapes

    training.check_options(options)
    if not options.train and (options.precision or options.batch is not None):
        raise SettingsError("--precision and --batch are about training here", "add --train")
    with progress(f"analysing {os.path.basename(options.model)}"):
        profile = analyze(options.model, parse_shapes(options.shape))
    job = training.job_of(options, profile) if options.train else None
    if options.output == "table":
        page = table(profile, verbose=options.verbose)
        show_page(page if job is None else Page.of(page, "", training.summary(job)), options.color)
    else:
        show(profile.to_json() | ({} if job is None else {"training": job.to_json()}), options.output)
    return 0


def table(profile: "Profile", *, verbose: bool) -> Page:
    """Return a profile as a page for people."""
    tensors = [f"input {_tensor(tensor)}" for tensor in profile.inputs]
    tensors += [f"output {_tensor(tensor)}" for tensor in profile.outputs]
    page = Page.of(
        _headline(profile), _work(profile), tensors, "", Table.of(("KIND", "OPS", *_FIGURES), _kinds(profile))
    )
    if verbose:
        head = ("GROUP", "OPERATOR", "OP", "KIND", "PRECISION", *_FIGURES)
        page = Page.of(page, "", Table.of(head, [_row(record) for record in profile.operators]))
    against = [
        Text(f"{name}: {text}", Tone.WARN)
        for name, reasons in profile.unsupported.items()
        for text in reasons
    ]
    notes = [Text(f"note: {note}", Tone.WARN) for note in profile.notes]
    return Page.of(page, [""] * bool(against), against, notes)


_FIGURES = ("MACS", "PARAMS", "WEIGHTS", "READ", "WRITTEN")


def _headline(profile: "Profile") -> str:
    facts = [profile.format, profile.precision]
    if profile.batch is not None:
        facts.append(f"batch {profile.batch}")
    facts.append(
        f"{pluralize(len(profile.operators), 'operator')} in about {pluralize(profile.groups, 'kernel')}"
    )
    return f"{profile.name}: {', '.join(facts)}"


def _work(profile: "Profile") -> str:
    least = "" if profile.exact else "at least "
    facts = [
        f"{least}{format_count(profile.macs)} multiply-adds",
        f"{format_count(profile.params)} parameters in {format_bytes(profile.weight_bytes)}",
        f"{format_count(profile.activations)} activations",
        f"{format_bytes(profile.peak_bytes)} live at most",
    ]
    return ", ".join(facts)


def _tensor(tensor: "Tensor") -> str:
    dims = " x ".join("?" if dim is None else str(dim) for dim in tensor.dims)
    return f"{tensor.name}: {dims or 'a single number'}, {tensor.dtype}"


def _kinds(profile: "Profile") -> Iterable[tuple[str, ...]]:
    """Yield the totals of each kind of operator, most work first."""
    kinds: dict[str, list[Operator]] = {}
    for record in profile.operators:
        kinds.setdefault(record.kind, []).append(record)
    order = sorted(kinds, key=lambda kind: [-sum(each.macs for each in kinds[kind]), kind])
    for kind in order:
        yield kind, str(len(kinds[kind])), *_figures(kinds[kind])


def _figures(records: "Iterable[Operator]") -> tuple[str, ...]:
    listed = list(records)
    return (
        format_count(sum(record.macs for record in listed)),
        format_count(sum(record.params for record in listed)),
        format_bytes(sum(record.weight_bytes for record in listed)),
        format_bytes(sum(record.read_bytes for record in listed)),
        format_bytes(sum(record.written_bytes for record in listed)),
    )


def _row(record: "Operator") -> tuple[str, ...]:
    op = record.op if record.exact else f"{record.op} (at least)"
    name = record.name if len(record.name) <= 48 else f"…{record.name[-47:]}"
    return str(record.group), name, op, record.kind, record.precision, *_figures([record])


def format_count(count: int) -> str:
    """Return a count as people quote it: `4.09 G`, `25.6 M`."""
    for scale, unit in ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= scale:
            figure = count / scale
            return f"{figure:.3g} {unit}" if figure < 100 else f"{figure:.0f} {unit}"
    return str(count)

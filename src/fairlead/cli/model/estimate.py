"""`fairlead estimate`: the predicted latency, memory and energy of a model on devices."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli.model import federated, training
from fairlead.cli.model.profiles_cluster import add_cluster, fetch_profiles, group_by_setup, in_cluster
from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError, UserError
from fairlead.units import Seconds, format_bytes, format_number, parse_duration, pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.calibrate.profile import ProfileFolder
    from fairlead.catalog import Catalog
    from fairlead.estimate.target import Target
    from fairlead.prediction import Estimate


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "estimate",
        help="predict a model's latency, memory and energy on devices",
        description="Predict the latency, memory and energy of an ONNX or TFLite model on devices, whether "
        "it runs and fits, why not, and the confidence. The model is not run. Predictions start from data "
        "sheets; the profiles that `fairlead calibrate` stored make them more accurate.",
    )
    shared.add_model(command)
    command.add_argument(
        "--on",
        metavar="DEVICE[,DEVICE...]",
        action="append",
        default=[],
        help="devices of the catalog, each with a link, power mode, memory or share if wanted "
        "(coral-usb@usb2, jetson-agx-xavier@15w, a100@80GiB@1/7), every device of a family, vendor or kind "
        "(jetson, nvidia, gpu), or all; may be repeated (default: the accelerators of this machine)",
    )
    command.add_argument(
        "--precision",
        metavar="P",
        help="predict for this precision: int8, fp16 (default: the model's, or the nearest); with --train: "
        "fp32, amp or bf16",
    )
    command.add_argument(
        "--batch", metavar="N", type=int, help="inputs in one run (default: the file's; with --train: 32)"
    )
    command.add_argument(
        "--slo", metavar="TIME", help="the 90th percentile of the latency must be at most this: 30ms"
    )
    command.add_argument(
        "--profiles", metavar="DIR", help="the folder of profiles (default: the profiles of this user)"
    )
    add_cluster(command, "use the profiles of the cluster, too")
    training.add_options(command)
    federated.add_options(command)
    shared.add_catalog(command)
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.analyze import analyze, parse_shapes
    from fairlead.estimate.knowledge import Knowledge
    from fairlead.estimate.predict import estimate
    from fairlead.estimate.query import Query
    from fairlead.prediction import sort_key

    training.check_options(options)
    slo = parse_slo(options.slo)
    catalog = shared.catalog_of(options)
    known = _known_profiles(options)
    knowledge = Knowledge.of(known.calibrations, catalog, known.seen)
    if options.federated:
        return federated.run_federated(options, catalog, knowledge)
    targets = _targets(options, catalog)
    with progress(f"estimating {os.path.basename(options.model)}") as bar:
        profile = analyze(options.model, parse_shapes(options.shape))
        bar.set_status(f"on {pluralize(len(targets), 'device')}")
        if options.train:
            trained = training.estimates(training.job_of(options, profile), targets, knowledge, slo)
        else:
            query = Query.of(profile, options.precision, options.batch, slo)
            estimates = sorted(estimate(query, targets, knowledge), key=sort_key)
    if options.train:
        of_step = [note for note in profile.notes if note != profile.scope]  # not of a forward pass alone
        return training.show_estimates(options, trained, of_step)
    estimates = sorted_by(estimates, options.sort_by, _HEAD, _row, lambda each: each.to_json())
    if options.output in ("json", "yaml"):
        show({"estimates": [each.to_json() for each in estimates]}, options.output)
    elif options.no_headers or options.output == "name":
        rows = [_row(each) for each in estimates]
        show_list(_HEAD, rows, options.output, headers=False, color=options.color)
    else:
        notes = [Text(f"note: {note}", Tone.WARN) for note in profile.notes]
        show_page(Page.of(table(estimates, options.output), notes), options.color)
    return 0 if any(each.good for each in estimates) else 1


def parse_slo(text: str | None) -> Seconds | None:
    """Parse --slo; a bare number is refused: it could mean seconds or milliseconds."""
    if text is not None and text.strip().replace(".", "", 1).isdigit():
        example = f"{text.strip()}ms"
        raise SettingsError(
            f"--slo {text}: a time needs a unit, for example {example}", f"write --slo {example}"
        )
    try:
        return None if text is None else parse_duration(text)
    except ValueError:
        raise SettingsError(f"--slo {text}: not a duration", "write it like 30ms") from None


def load_profiles(place: str | None) -> "ProfileFolder":
    """Return every profile of a folder; print and skip one that cannot be read."""
    from fairlead.calibrate.profile import default_folder, load_all

    if place is not None and not os.path.isdir(place):
        wrong = "not a folder" if os.path.exists(place) else "no such folder"
        raise SettingsError(f"--profiles {place}: {wrong}", "name a folder of profiles")
    profiles = load_all(place or default_folder(os.environ))
    for line in profiles.damaged:
        print(f"fairlead: skipped: {line}", file=sys.stderr)
    return profiles


def _known_profiles(options: argparse.Namespace) -> "ProfileFolder":
    """Return the profiles of the folder and, if the options name one, of the cluster, each setup once."""
    from fairlead.calibrate.profile import ProfileFolder

    known = load_profiles(options.profiles)
    if not in_cluster(options):
        return known
    more = fetch_profiles(options)
    for line in more.unread:
        print(f"fairlead: skipped: {line}", file=sys.stderr)
    setups = group_by_setup((*known.calibrations, *more.calibrations), (*known.seen, *more.seen))
    calibrations = tuple(entry.calibration for entry in setups if entry.calibration)
    return ProfileFolder(calibrations, tuple(seen for entry in setups for seen in entry.seen))


def _targets(options: argparse.Namespace, catalog: "Catalog") -> "list[Target]":
    """Return the devices that --on names, or those of this machine."""
    from fairlead.estimate.target import target_of_accelerator, targets

    if options.on:
        return targets(options.on, catalog)
    inventory = shared.detect_here(catalog)
    if not inventory.accelerators:
        raise UserError("this machine has no accelerator that the catalog knows", "name a device: --on ID")
    return [target_of_accelerator(accelerator, catalog) for accelerator in inventory.accelerators]


_HEAD = (
    Column("DEVICE", Fit.KEEP),
    *map(Column, ("LATENCY", "P90", "MEMORY", "ENERGY", "CONFIDENCE")),
    Column("WHY", Fit.PROSE),
    Column("POWER", wide=True),
    Column("OF MEMORY", wide=True),
    Column("BATCH", wide=True),
)


def table(estimates: "list[Estimate]", output: str = "table") -> Page:
    """Return estimates as a page for people."""
    return Page.of(select_columns(_HEAD, [_row(each) for each in estimates], output, headers=True))


def _row(each: "Estimate") -> tuple[str | Cell, ...]:
    if each.runs is False:
        why = Cell(f"does not run: {_first(each.reasons)}", tone=Tone.BAD)
        return (each.device, *["-"] * 5, why, *["-"] * 3)
    return (
        each.device,
        "-" if each.seconds is None else Cell(format_time(each.seconds), each.seconds),
        "-" if each.p90 is None else Cell(format_time(each.p90), each.p90),
        "-" if each.memory is None else Cell(format_bytes(each.memory), each.memory),
        "-" if each.joules is None else Cell(format_energy(each.joules), each.joules),
        "-" if each.runs is None else f"{each.confidence}, {each.basis}",
        Cell(_why(each), tone=_tone(each)),
        "-" if each.watts is None else Cell(f"{format_number(each.watts)} W", each.watts),
        "-" if each.available is None else Cell(format_bytes(each.available), each.available),
        str(each.batch),
    )


def _tone(each: "Estimate") -> Tone | None:
    if not each.fits:
        return Tone.BAD
    return Tone.WARN if each.runs is None or each.meets_slo is False else None


def _why(each: "Estimate") -> str:
    """Return the runtime and precision, and the reasons against this device."""
    if each.state == "not known":
        return _first(each.reasons)
    parts = [f"does not fit: {_first(each.reasons)}"] if each.reasons else []
    parts += ["too slow"] if each.meets_slo is False else []
    parts.append(f"{each.runtime}, {each.precision}")
    parts += [f"first {', '.join(each.needs)}"] if each.needs else []
    parts += [each.doubt] if each.doubt else []
    return "; ".join(parts)


def _first(reasons: "Sequence[str]") -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def format_time(seconds: float) -> str:
    """Return a latency as text: `0.22 ms`, `1.05 s`, `40,200 s`."""
    return f"{format_number(seconds)} s" if seconds >= 1 else f"{format_number(seconds * 1e3)} ms"


def format_energy(joules: float) -> str:
    """Return the energy of a run as text: `24 mJ`."""
    return f"{format_number(joules)} J" if joules >= 1 else f"{format_number(joules * 1e3)} mJ"

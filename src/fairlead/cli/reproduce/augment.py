"""`fairlead reproduce augment`: the jobs of K-RAF on a device, a server and both, measured here."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_error
from fairlead.cli.reproduce.outcome import ExperimentOutcome, finish
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import Bytes, format_bytes, format_number, parse_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.reproduce.augment.cases import FurtherCases
    from fairlead.reproduce.augment.experiment import AugmentExperiment

_MOST_IMAGES: Final = 100_000
_LEAST_SIDE, _MOST_SIDE = 16, 8192
_DESCRIPTION: Final = (
    "Measure the two jobs of K-RAF with real work: a detector over a set of images, and bulk loads of a "
    "search index; on a device that is held to its speed, on a core and a GPU of a server, and with the "
    "control that the paper lacks, further loaders on the server. Beside it is what the paper reports and "
    "what its own rates allow. Takes a few minutes."
)
_ROWS: Final = (
    *("JOB", "ARRANGEMENT", "SPEED", "INPUTS", "TOOK", "RATE", "BY SERVER", "BOUND", "DEVICE", "CPU"),
)
_PUBLISHED: Final = ("PUBLISHED", "DEVICE : SERVER", "BOUND", "REPORTED", "POSSIBLE", "READING")


def add(verbs: Any) -> None:
    """Add the experiment to the command line."""
    command = verbs.add_parser(
        "augment", help="images and bulk loads on a device and its server", description=_DESCRIPTION
    )
    command.add_argument("--quick", action="store_true", help="fewer inputs, one round: a minute")
    command.add_argument("--images", metavar="N", type=int, help="how many images (default: 300; quick: 80)")
    command.add_argument(
        "--set-size", metavar="SIZE", help="instead of --images: as many as have this size, like 1GiB"
    )
    command.add_argument(
        "--image-size", metavar="WxH", default="320x240", help="of each image (default: %(default)s)"
    )
    command.add_argument(
        "--batches", metavar="N", type=int, help="batches of 200 documents (default: 100; quick: 30)"
    )
    command.add_argument(
        "--edge-cpu",
        metavar="PART",
        type=float,
        default=0.1,
        help="the device's part of one CPU, in the image job by itself (default: %(default)s)",
    )
    command.add_argument(
        "--without-split", action="store_true", help="leave out device and server together, in a session"
    )
    command.add_argument(
        "--lab",
        action="store_true",
        help="also run the image job in pods of a lab with a real node, which is started and ended: the bare "
        "command, and a session whose store and worker are pods; needs what `fairlead lab up --profile node` "
        "needs",
    )
    command.add_argument("--rounds", metavar="N", type=int, default=3, help="interleaved rounds (default: 3)")
    command.add_argument("--plot", metavar="FILE", help="also draw the rates, as an SVG picture")
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the experiment; exit code 1: a part of it cannot be done here."""
    return finish(options, perform)


def perform(options: argparse.Namespace) -> ExperimentOutcome:
    """Measure the experiment."""
    import shutil
    import tempfile
    from pathlib import Path

    from fairlead.reproduce.augment.experiment import measure
    from fairlead.reproduce.augment.plot import svg

    experiment = read_experiment(options)
    place = tempfile.gettempdir()
    check_disk(experiment, place, shutil.disk_usage(place).free)
    if options.lab:
        _prepare_lab()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # workers, groups and the store end with it
    with tempfile.TemporaryDirectory(prefix="fairlead-augment-") as folder, progress("augment") as bar:
        further = _pods(bar.set_status) if options.lab else None
        answer = measure(experiment, Path(folder), bar.set_status, further)
    code = 1 if answer["missing"] else 0
    return ExperimentOutcome(answer, Page.of(*page(answer)), lambda: svg(answer), code)


def check_disk(experiment: "AugmentExperiment", place: str, free: int) -> None:
    """Raise where the inputs do not fit: a store that finds its disk full waits for room."""
    if experiment.disk_bytes > free:
        images = pluralize(experiment.images, "image")
        needed, left = format_bytes(Bytes(experiment.disk_bytes)), format_bytes(Bytes(free))
        raise SettingsError(
            f"{images} need {needed} of disk, and {place} has {left}",
            "choose fewer, or set TMPDIR to a folder of another disk",
        )


def _prepare_lab() -> None:
    """Build what a lab needs; that none can run here is said at once, and costs nothing else."""
    from fairlead.lab.run.steps import StepPrinter
    from fairlead.labaugment.site import obstacle, prepare

    if no_lab := obstacle():
        show_error(f"fairlead: no lab can run here: {no_lab}")
    else:
        prepare(StepPrinter(sys.stderr))


def _pods(on_step: Callable[[str], None]) -> "FurtherCases":
    from fairlead.labaugment.cases import pod_cases

    return lambda images: pod_cases(images, on_step)


def read_experiment(options: argparse.Namespace) -> "AugmentExperiment":
    """Return what the options ask for; SettingsError."""
    from fairlead.reproduce.augment.experiment import AugmentExperiment
    from fairlead.reproduce.augment.images import image_bytes

    if not 1 <= options.rounds <= 99:
        raise SettingsError(f"--rounds {options.rounds}: not a number from 1 to 99")
    if not 0.02 <= options.edge_cpu <= 1:
        raise SettingsError(f"--edge-cpu {options.edge_cpu:g}: not a part from 0.02 to 1")
    width, height = _size(options.image_size)
    count = options.images
    if options.set_size is not None:
        if count is not None:
            raise SettingsError("--set-size says how many images there are", "leave --images out")
        count = _set_size(options.set_size) // image_bytes(width, height)
    count = (80 if options.quick else 300) if count is None else count
    batches = (30 if options.quick else 100) if options.batches is None else options.batches
    if not 4 <= count <= _MOST_IMAGES:
        raise SettingsError(f"{pluralize(count, 'image')}: not from 4 to {_MOST_IMAGES:,}")
    if not 8 <= batches <= 10_000:
        raise SettingsError(f"--batches {batches}: not a number from 8 to 10,000")
    rounds = 1 if options.quick else options.rounds
    return AugmentExperiment(
        count, batches, rounds, width, height, options.edge_cpu, not options.without_split
    )


def _size(text: str) -> tuple[int, int]:
    sides = [int(word) for word in text.split("x") if word.isdecimal()]
    if len(sides) != 2 or not all(_LEAST_SIDE <= side <= _MOST_SIDE for side in sides):
        raise SettingsError(f"--image-size {text}: no size", "write width and height, like 320x240")
    return sides[0], sides[1]


def _set_size(text: str) -> int:
    try:
        return int(parse_bytes(text))
    except ValueError as error:
        raise SettingsError(f"--set-size {text}: {error}", "write for example 1GiB") from None


def page(answer: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yield the figures for people."""
    from fairlead.reproduce.augment.overhead import own_cost

    yield Table.of(_PUBLISHED, [_published_row(each) for each in answer["published"]])
    yield ""
    yield Table.of(_ROWS, [_row(each) for each in answer["rows"]])
    if cost := own_cost(answer["rows"]):
        yield cost
    made = answer["images"]
    size = format_bytes(Bytes(made["bytes"]))
    yield f"Images: {made['count']:,} of {made['width']}x{made['height']} ({size}), {made['network']}."
    if answer["documents"]["batches"]:
        batches, each = answer["documents"]["batches"], answer["documents"]["per_batch"]
        yield f"Documents: {batches:,} batches of {each}, each durable in the index before the next is sent."
    rounds = pluralize(answer["rounds"], "round")
    yield f"Medians of {rounds}. BY SERVER: the rate by that of the server alone."
    yield from (f"Missing: {line}." for line in answer["missing"])


def _published_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    reported, possible = each["reported_gain"], each["is_possible"]
    return (
        each["case"],
        f"1 : {each['ratio']:.4g}",
        f"+{100 * each['bound']:.3g} %",
        "-" if reported is None else f"+{100 * reported:.3g} %",
        "-" if possible is None else "yes" if possible else "no",
        each["reading"],
    )


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    bound, share, cpu = row["bound"], row["device_share"], row["cpu_s"]
    return (
        row["job"],
        row["arrangement"],
        row["how"],
        f"{row['inputs']:,}",
        f"{format_number(row['seconds'])} s",
        f"{format_number(row['rate'])}/s",
        f"{row['by_server']:.3g}x",
        "-" if bound is None else f"{1 + bound:.3g}x",
        "-" if share is None else f"{100 * share:.1f} %",
        "-" if cpu is None else f"{format_number(cpu)} s",
    )

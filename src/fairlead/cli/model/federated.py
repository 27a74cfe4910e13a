"""`fairlead estimate --train --federated`: a round of federated training, its straggler, and its split."""

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from fairlead.cli.model.training import format_seconds, job_of, long_time
from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit
from fairlead.cli.output.terminal import Page, show_page
from fairlead.errors import SettingsError, UserError
from fairlead.units import format_bytes, parse_bandwidth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.catalog import Catalog
    from fairlead.estimate.knowledge import Knowledge
    from fairlead.estimate.target import Target
    from fairlead.training.federated import Round, RoundPart
    from fairlead.training.predict import TrainingEstimate
    from fairlead.units import BytesPerSecond

_HEAD = (
    Column("DEVICE", Fit.KEEP),
    *map(Column, ("SAMPLES", "ENDS AFTER", "ON THE LINK", "EQUAL PART", "THEN ENDS AFTER")),
)
_FEWEST = 2


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of federated training."""
    command.add_argument(
        "--federated",
        metavar="DEVICE,DEVICE,...",
        help="devices that train together in rounds, as of --on; a name twice is two of them",
    )
    command.add_argument(
        "--link",
        metavar="BYTES/S",
        help="with --federated: the rate at which each exchanges the weights (default: 12.5MB/s)",
    )


def run_federated(options: argparse.Namespace, catalog: "Catalog", knowledge: "Knowledge") -> int:
    """Estimate a round, and print it."""
    from fairlead.analyze import analyze, parse_shapes
    from fairlead.training.federated import federated_round
    from fairlead.training.predict import estimate_training

    link = parse_link(options.link)
    job = job_of(options, analyze(options.model, parse_shapes(options.shape)))
    if job.setup.samples is None:
        raise SettingsError("--federated needs --samples", "say how many samples a round has")
    estimates = estimate_training(job, _targets(options.federated, catalog), knowledge)
    _check(estimates)
    seconds = [(each.step.device, (each.step.seconds or 0.0) / job.setup.batch) for each in estimates]
    weights = job.memory.weights
    result = federated_round(seconds, job.setup.samples, job.setup.epochs, weights, link)
    _show(options, result, estimates)
    return 0


def parse_link(text: str | None) -> "BytesPerSecond":
    """Parse --link; a plain number is bytes per second."""
    words = (text or "12.5MB/s").strip()
    try:
        link = parse_bandwidth(words if words.endswith("/s") else f"{words.removesuffix('B')}B/s")
    except ValueError:
        raise SettingsError(f"--link {text}: not a rate", "write it like 10MB/s") from None
    if not 0 < link < float("inf"):
        raise SettingsError(f"--link {text}: nothing passes", "write it like 10MB/s")
    return link


def _targets(text: str, catalog: "Catalog") -> "list[Target]":
    """Return the devices; a device that is named again gets a number."""
    from dataclasses import replace

    from fairlead.estimate.target import targets

    named = [device for name in text.split(",") if name.strip() for device in targets([name], catalog)]
    if len(named) < _FEWEST:
        raise SettingsError(f"--federated {text}: one device is no federation", "name two or more")
    seen: Counter[str] = Counter()
    numbered = []
    for device in named:
        seen[device.name] += 1
        again = seen[device.name] > 1
        numbered.append(replace(device, name=f"{device.name}#{seen[device.name]}") if again else device)
    return numbered


def _check(estimates: "Sequence[TrainingEstimate]") -> None:
    for each in estimates:
        if each.step.seconds is None or not each.step.fits:
            raise UserError(
                f"--federated: {each.step.device} cannot take part: {each.step.reasons[0]}",
                "leave it out, or change what is trained",
            )


def _show(options: argparse.Namespace, result: "Round", estimates: "Sequence[TrainingEstimate]") -> None:
    if options.output in ("json", "yaml"):
        listed = [each.to_json() for each in estimates]
        show({"estimates": listed, "federated": result.to_json()}, options.output)
        return
    parts = sorted_by(result.parts, options.sort_by, _HEAD, _row, lambda part: part.to_json())
    rows = [_row(part) for part in parts]
    if options.no_headers or options.output == "name":
        show_list(_HEAD, rows, options.output, headers=False, color=options.color)
        return
    link = f"{format_bytes(int(result.link))}/s"
    lines = [
        f"a round takes {long_time(result.seconds)}; in equal parts {long_time(result.equal_seconds)}, and "
        f"{result.straggler} is waited for",
        f"each device fetches and sends {format_bytes(result.weights)} at {link}",
        "",
    ]
    show_page(Page.of(lines, select_columns(_HEAD, rows, options.output, headers=True)), options.color)


def _row(part: "RoundPart") -> tuple[str | Cell, ...]:
    return (
        part.device,
        Cell(f"{part.samples:,}", part.samples),
        Cell(format_seconds(part.seconds), part.seconds),
        Cell(format_seconds(part.exchange), part.exchange),
        Cell(f"{part.equal_samples:,}", part.equal_samples),
        Cell(format_seconds(part.equal_seconds), part.equal_seconds),
    )

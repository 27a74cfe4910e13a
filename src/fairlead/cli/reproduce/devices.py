"""`fairlead reproduce devices`: which small accelerator is first for which network."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page
from fairlead.cli.reproduce.outcome import ExperimentOutcome, finish
from fairlead.cli.shell import options as shared
from fairlead.units import format_number

_DESCRIPTION: Final = (
    "Predict MobileNet, Inception v3 and ResNet-50 on an Edge TPU behind USB 3 and USB 2, a Jetson TX2 and a "
    "Jetson Nano, from data sheets alone, beside public latencies and the order that Reza et al. (2021) "
    "found. No device is needed."
)
_HEAD: Final = ("NETWORK", "RANK", "DEVICE", "PRECISION", "PREDICTED", "P90", "PUBLISHED", "BY")
_STATEMENTS: Final = ("PUBLISHED ORDER", "PREDICTED")


def add(verbs: Any) -> None:
    """Add the experiment to the command line."""
    command = verbs.add_parser(
        "devices", help="the order of small accelerators by network", description=_DESCRIPTION
    )
    command.add_argument("--plot", metavar="FILE", help="also draw the latencies, as an SVG picture")
    shared.add_catalog(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return finish(options, perform)


def perform(options: argparse.Namespace) -> ExperimentOutcome:
    """Predict every network on every device."""
    from fairlead.reproduce.devices.order import order_devices
    from fairlead.reproduce.devices.plot import svg

    with progress("devices"):
        answer = order_devices(shared.catalog_of(options))
    return ExperimentOutcome(answer, Page.of(*page(answer)), lambda: svg(answer))


def page(answer: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yield the predictions for people, and which published statements they share."""
    rows = [
        (
            row["network"],
            str(rank),
            each["device"],
            each["precision"],
            _milliseconds(each["seconds"]),
            _milliseconds(each["p90_seconds"]),
            _milliseconds(each["published_seconds"]),
            each["published_by"] or "-",
        )
        for row in answer["networks"]
        for rank, each in enumerate(row["devices"], 1)
    ]
    yield Table.of(_HEAD, rows)
    yield ""
    yield Table.of(
        _STATEMENTS,
        [(each["statement"], "the same" if each["agrees"] else "otherwise") for each in answer["statements"]],
    )
    yield ""
    yield "Of the study's own tables none is at hand: published latencies are public figures of others, and"
    yield "the order is the one that the paper of the accelerator monitor states."


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{format_number(1e3 * seconds)} ms"

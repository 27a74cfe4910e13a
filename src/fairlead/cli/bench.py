"""`fairlead bench`: measure this program against published tables and traces."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fairlead.cli import bench_openb
from fairlead.cli import options as shared
from fairlead.cli.output import FORMATS, show, to_table
from fairlead.errors import MissingPartError

PROTOCOLS = ("new-model", "new-device", "decision", "energy", "nas")
_HEAD = (
    "GROUP",
    "DEVICES",
    "METHOD",
    "MAPE",
    "MEDIAN",
    "IN 10 %",
    "SPEARMAN",
    "KENDALL",
    "RIGHT",
    "REGRET",
    "NOTE",
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "bench",
        help="measure predictions and policies against published tables and traces",
        description="Measure what this program says and does against what others have published.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    bench_openb.add(verbs)
    predict = verbs.add_parser(
        "predict",
        help="predict what a table's devices measured, and compare",
        description="Run an evaluation protocol on a table of latencies; no row under test is learnt from.",
    )
    predict.add_argument(
        "--data", metavar="FILE", required=True, help="a CSV file of latencies, plain or compressed with gzip"
    )
    predict.add_argument(
        "--protocol", choices=PROTOCOLS, default="new-device", help="what is new, and what is asked of it"
    )
    predict.add_argument(
        "--calibration",
        metavar="K",
        type=int,
        default=10,
        help="models that are measured on a new device (default: 10)",
    )
    predict.add_argument(
        "--seed", metavar="S", type=int, default=0, help="decides which models those are (default: 0)"
    )
    shared.add_catalog(predict)
    predict.add_argument("-o", "--output", choices=FORMATS, default="table", help="how to print it")
    predict.set_defaults(run=run_predict)


def run_predict(options: argparse.Namespace) -> int:
    """Run one protocol."""
    try:
        from fairlead.evaluate.run import Plan, evaluate
    except ImportError as error:
        raise MissingPartError(
            "numpy is not installed", "pip install 'fairlead[predict]' brings what predictions need"
        ) from error

    plan = Plan(options.data, options.protocol, options.calibration, options.seed)
    with _watched(options.protocol) as report:
        document = evaluate(plan, shared.catalog_of(options), report)
    if options.output != "table":
        show(document, options.output)
        return 0
    rows = [
        row
        for group in document["groups"]
        for row in (_row(group, name, figures) for name, figures in group["methods"].items())
    ]
    print(to_table(_HEAD, rows) if rows else "The table has no measurements.")
    return 0


@contextmanager
def _watched(protocol: str) -> Iterator[Callable[[int, int, str], None]]:
    """Draw on the terminal how far it is, where there is one."""
    from fairlead.lab.narrate import Narrator

    if not sys.stderr.isatty():
        yield lambda done, total, name: None
        return
    with Narrator(sys.stderr).step(protocol) as step:
        yield step.at


def _row(group: Mapping[str, Any], method: str, figures: Mapping[str, float | None]) -> tuple[str, ...]:
    shown = (
        _number(figures["mape"], "{:.1f} %"),
        _number(figures["median_ape"], "{:.1f} %"),
        _number(figures["within_10"], "{:.0f} %"),
        _number(figures["spearman"], "{:.3f}"),
        _number(figures["kendall"], "{:.3f}"),
        _number(figures["top1"], "{:.1f} %"),
        _number(figures["mean_regret"], "{:.1f} %"),
    )
    return (
        group["group"],
        str(group["devices"]),
        method,
        *shown,
        group["note"] if method == "fairlead" else "",
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)

"""`fairlead bench`: predictions, policies, sharing and splitting, each beside what it is held against."""

import argparse
from collections.abc import Mapping
from typing import Any

from fairlead.cli.model import bench_openb, bench_share, bench_split
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit
from fairlead.cli.shell import options as shared

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
    Column("NOTE", Fit.PROSE),
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "bench",
        help="measure predictions and policies against published tables, traces and this machine's GPU",
        description="Measure predictions and policies against published tables and traces, sharing on this "
        "machine's GPU, and the split of one job among workers.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    bench_openb.add(verbs)
    bench_share.add(verbs)
    bench_split.add(verbs)
    predict = verbs.add_parser(
        "predict",
        help="predict the latencies of a table, and compare",
        description="Run an evaluation protocol on a table of latencies; no row under test is used to learn.",
    )
    predict.add_argument(
        "--data", metavar="FILE", required=True, help="a CSV file of latencies, plain or compressed with gzip"
    )
    predict.add_argument(
        "--protocol", choices=PROTOCOLS, default="new-device", help="the protocol (default: new-device)"
    )
    predict.add_argument(
        "--calibration",
        metavar="K",
        type=int,
        default=10,
        help="how many models are measured on a new device (default: 10)",
    )
    predict.add_argument(
        "--seed", metavar="S", type=int, default=0, help="the seed that selects these models (default: 0)"
    )
    shared.add_catalog(predict)
    shared.add_list(predict, _HEAD)
    predict.set_defaults(run=run_predict)


def run_predict(options: argparse.Namespace) -> int:
    """Run one protocol."""
    from fairlead.evaluate.run import EvaluationPlan, evaluate

    plan = EvaluationPlan(options.data, options.protocol, options.calibration, options.seed)
    with progress(options.protocol) as bar:
        document = evaluate(plan, shared.catalog_of(options), bar.update)
    if options.output in ("json", "yaml"):
        show(document, options.output)
        return 0
    rows = [
        row
        for group in document["groups"]
        for row in (_row(group, name, figures) for name, figures in group["methods"].items())
    ]
    rows = sorted_by(rows, options.sort_by, _HEAD, lambda row: row)
    empty = "The table has no measurements."
    headers = not options.no_headers
    show_list(_HEAD, rows, options.output, headers=headers, empty=empty, color=options.color)
    return 0


def _row(
    group: Mapping[str, Any], method: str, figures: Mapping[str, float | None]
) -> tuple[str | Cell, ...]:
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


def _number(value: float | None, form: str) -> Cell:
    return Cell("-") if value is None else Cell(form.format(value), value)

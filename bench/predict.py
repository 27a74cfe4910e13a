"""Predict published latency tables by every protocol, and compare the figures with their bars.

For every bar, each method's figure is the mean over seeds and, if a bar is over several tables, over the
tables that have the figure; FLOPs and a roofline are the peers, with the same exams in the same run. Exits 1
if a bar is missed.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.catalog import load as load_catalog
from fairlead.estimate.similar import MeasurementLibrary
from fairlead.evaluate.protocols import PROTOCOLS
from fairlead.evaluate.result import MethodPredictions, over_devices
from fairlead.evaluate.run import load
from fairlead.evaluate.split import leave_one_device_out
from fairlead.evaluate.table import LatencyTable

LATENCIES, CELLS = "latency.csv.gz", "nasbench201_latency.csv.gz"
TIMM, MLPERF, OPENVINO, ANY = "timm", "mlperf_inference", "openvino_benchmarks", ""
METHODS = ("flops", "roofline", "fairlead")


@dataclass(frozen=True)
class Bar:
    """A figure of a protocol, and its limit."""

    group: str
    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Return whether a value meets the bar."""
        low = -float("inf") if self.at_least is None else self.at_least
        return low <= value <= (float("inf") if self.at_most is None else self.at_most)

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


RUNS: tuple[tuple[str, str, int, tuple[Bar, ...]], ...] = (
    (
        LATENCIES,
        "new-device",
        10,
        tuple(
            bar
            for group in (TIMM, MLPERF)
            for bar in (Bar(group, "mape", at_most=13), Bar(group, "median_ape", at_most=9))
        ),
    ),
    (LATENCIES, "new-device", 0, tuple(Bar(group, "spearman", 0.88) for group in (TIMM, OPENVINO, MLPERF))),
    (LATENCIES, "decision", 10, (Bar(ANY, "top1", 90), Bar(ANY, "mean_regret", at_most=6))),
    (LATENCIES, "energy", 10, (Bar(ANY, "mape", at_most=10),)),
    (LATENCIES, "new-model", 10, ()),
    (CELLS, "nas", 10, (Bar(ANY, "spearman", 0.96),)),
)
"""The file, the protocol, the number of calibration models, and the bars."""


def measure(
    tables: Iterable[LatencyTable], protocol: str, calibration: int, seeds: int
) -> Iterator[dict[str, Any]]:
    """Run a protocol on each table, once for every seed, and return the mean of each figure."""
    for table in tables:
        results = [PROTOCOLS[protocol](table, calibration, seed).to_json() for seed in range(seeds)]
        methods = {
            name: {figure: mean(one["methods"][name][figure] for one in results) for figure in figures}
            for name, figures in results[0]["methods"].items()
        }
        yield results[0] | {"methods": methods}


def ceiling(table: LatencyTable) -> float | None:
    """Return the Spearman over devices of a data sheet that never errs, but knows no runtime or submitter.

    Devices are ordered by how fast each really was, in its precision, on the average of all models run on it:
    the answers themselves decide. A predictor that does not know the runtime cannot be expected to do better.
    """
    levels = MeasurementLibrary.of(table.devices, table.models, table.seconds).levels
    alike = [(name, key.precision, key.mode) for name, key in zip(table.physical, table.keys, strict=True)]
    known = {one: np.mean([levels[row] for row, two in enumerate(alike) if one == two]) for one in alike}
    answers = [
        MethodPredictions(split.device, split.test, np.full(len(split.test), known[alike[split.device]]))
        for split in leave_one_device_out(table, ~np.isnan(table.seconds), 0, 0)
    ]
    return over_devices(table, answers).spearman


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def of(groups: Sequence[dict[str, Any]], bar: Bar, method: str) -> float | None:
    """Return a method's figure for a bar."""
    return mean(
        group["methods"][method][bar.figure] for group in groups if bar.group in (ANY, group["group"])
    )


def show(groups: Sequence[dict[str, Any]], bars: Sequence[Bar]) -> bool:
    """Print the figures of each table and then the bars; return whether all are met."""
    for group in groups:
        for method, figures in group["methods"].items():
            shown = "  ".join(f"{name} {value:.3g}" for name, value in figures.items() if value is not None)
            if shown:
                print(f"  {group['group']:30} {method:9} {shown}")
        if group["note"] and shown:
            print(f"  {'':30} {group['note']}")
    met = True
    for bar in bars:
        values = {method: of(groups, bar, method) for method in METHODS}
        ours = values["fairlead"]
        good = ours is not None and bar.met(ours)
        listed = "  ".join(f"{name} {value:.4g}" for name, value in values.items() if value is not None)
        name = f"{bar.group or 'mean of all tables'}: {bar.figure}"
        print(f"  BAR {name:38} {bar!s:8} {listed}: {'met' if good else 'MISSED'}")
        met = met and good
    return met


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data", help=f"the folder of {LATENCIES} and {CELLS}")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to take the mean of")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    catalog, met = load_catalog(), True
    tables = {name: load(os.path.join(options.data, name), catalog) for name in (LATENCIES, CELLS)}
    for file, protocol, calibration, bars in RUNS:
        start = time.perf_counter()
        seeds = options.seeds if calibration else 1  # without a pack there is nothing to draw
        groups = list(measure(tables[file], protocol, calibration, seeds))
        took = time.perf_counter() - start
        print(f"{protocol}, {calibration} calibration models, {seeds} seeds, {took:.0f} s")
        met = show(groups, bars) and met
        if not calibration:
            missed = {bar.group for bar in bars if not bar.met(of(groups, bar, "fairlead") or 0.0)}
            for table in (table for table in tables[file] if table.group in missed):
                print(f"  {table.group}: a data sheet that never errs would reach {ceiling(table) or 0:.3f}")
    print("repeat with: make bench-predict")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

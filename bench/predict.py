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

from bench import predict_sheets
from fairlead.catalog import load as load_catalog
from fairlead.estimate.similar import MeasurementLibrary
from fairlead.evaluate.methods import MethodPredictions
from fairlead.evaluate.protocols import PROTOCOLS
from fairlead.evaluate.result import over_devices
from fairlead.evaluate.run import load
from fairlead.evaluate.split import leave_one_device_out
from fairlead.evaluate.table import LatencyTable

LATENCIES, CELLS, NPUS = "latency.csv.gz", "nasbench201_latency.csv.gz", "latency_npu.csv.gz"
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
    (CELLS, "nas", 10, (Bar(ANY, "spearman", 0.96),)),
)
"""The file, the protocol, the number of calibration models, and the bars."""
COUNTS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
"""The numbers of runs at which the p90 is judged."""
COVERED, COVERED_EACH = (88.0, 93.0), 80.0
"""Percent of measured times below their p90: of all tables together, and at least of each."""
FEW = 100
"""Tables with fewer predictions are shown, and not judged one by one."""
SHARE, MOST = 0.8, 100.0
"""New models: at most this share of the roofline's error, and never more percent."""
SURE = ("high", "medium")
TENFOLD = 10.0
"""No prediction of medium or high confidence is off by this factor."""


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


def new_models(tables: Sequence[LatencyTable], seeds: int) -> bool:
    """Print the errors at new families of models beside the roofline's; return whether the bars are met."""
    met = True
    for group in measure(tables, "new-model", 10, seeds):
        ours, peer = (group["methods"][name]["mape"] for name in ("fairlead", "roofline"))
        if ours is None or peer is None:
            continue
        good = ours <= SHARE * peer and ours <= MOST
        met = met and good
        shown = f"fairlead {ours:.1f} %  roofline {peer:.1f} %  share {ours / peer:.2f}"
        print(f"  BAR {group['group']:30} {shown}: {'met' if good else 'MISSED'}")
    return met


def trust(tables: Sequence[LatencyTable], calibration: int) -> bool:
    """Print how many times are below their p90, and the worst confident predictions; return what is met."""
    found = {
        table.group: result
        for table in tables
        if (result := PROTOCOLS["new-device"](table, calibration, 0).trust)
    }
    rows = sum(one["all"].rows for one in found.values())
    below = sum(one["all"].rows * one["all"].below for one in found.values()) / max(rows, 1)
    least = {name: one["all"].below for name, one in found.items() if one["all"].rows >= FEW}
    lowest = min(least, key=lambda name: least[name])
    confident = [(one[level].worst, name) for name, one in found.items() for level in SURE if level in one]
    worst, where = max(confident, default=(1.0, "none"))
    good = COVERED[0] <= below <= COVERED[1] and least[lowest] >= COVERED_EACH
    shown = f"{below:.1f} % of {rows:,} below p90, least {least[lowest]:.0f} % ({lowest})"
    print(f"  BAR {calibration:2} runs: {shown}: {'met' if good else 'MISSED'}")
    verdict = "met" if worst <= TENFOLD else "MISSED"
    print(f"      worst of medium and high: {worst:.1f} times ({where}): {verdict}")
    return good and worst <= TENFOLD


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data", help=f"the folder of {LATENCIES} and {CELLS}")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to take the mean of")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    catalog, met = load_catalog(), True
    files = (LATENCIES, CELLS, NPUS)
    tables = {name: load(os.path.join(options.data, name), catalog) for name in files}
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
    published = [*tables[LATENCIES], *tables[NPUS]]
    print("data sheets alone: networks that the project builds, at batch 1")
    met = predict_sheets.show(published, catalog) and met
    print(f"new families of models on a device that has run ten others, {options.seeds} seeds")
    met = new_models(published, options.seeds) and met
    print("p90 of new devices, by the number of runs")
    for calibration in COUNTS:
        met = trust(published, calibration) and met
    print("repeat with: make bench-predict")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

"""Calibrate this machine, predict eight networks that no calibration runs, then run them and compare.

The pack and the eight are measured in the same rounds, interleaved, each in a process of its own. The peer is
the common assumption that time is proportional to multiply-adds. Exits 1 if a bar is missed.

    python bench/real_predict.py                                    this machine's CPU, through ONNX Runtime
    python bench/real_predict.py --backend torch --precision fp16   an NVIDIA GPU, through PyTorch
"""

import argparse
import json
import math
import os
import platform
import random
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from fairlead.analyze import analyze
from fairlead.calibrate.campaign import BuiltModel, CalibrationPlan, build_models, calibrate
from fairlead.calibrate.targets import CalibrationTarget
from fairlead.calibration import Calibration, MeasuredRun
from fairlead.catalog import load
from fairlead.cli.shell.options import gpus_of
from fairlead.detect import detect
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target_of_accelerator as found_target
from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.lab.run.steps import StepPrinter
from fairlead.prediction import Estimate
from fairlead.zoo import KNOWN, PACK

TIME_TARGET, MEMORY_TARGET = 20.0, 15.0
"""Percent: the mean error of time, and every error of memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network: its estimate and its measured run."""

    model: str
    gmacs: float
    flops_seconds: float
    estimate: Estimate
    measured: MeasuredRun

    @property
    def time_error(self) -> float:
        """In percent, positive if the estimate is too high."""
        return 100 * ((self.estimate.seconds or math.inf) / self.measured.seconds - 1)

    @property
    def memory_error(self) -> float:
        """In percent, positive if the estimate is too high."""
        return 100 * ((self.estimate.memory or math.inf) / self.measured.peak_bytes - 1)

    @property
    def energy_error(self) -> float | None:
        """In percent, positive if the estimate is too high; None if watts were not measured."""
        if not self.measured.watts or not self.estimate.joules:
            return None
        return 100 * (self.estimate.joules / (self.measured.watts * self.measured.seconds) - 1)


def predict(calibration: Calibration, made: Mapping[str, BuiltModel], accelerator: Accelerator) -> list[Row]:
    """Learn from the pack's figures alone and predict the other networks."""
    catalog = load()
    measured = {trial.model: trial.measured for trial in calibration.trials if trial.measured is not None}
    pack = tuple(trial for trial in calibration.trials if trial.model in PACK)
    knowledge = Knowledge.of([replace(calibration, trials=pack)], catalog)
    device = found_target(accelerator, catalog)
    rate = seconds_per_mac(
        [(made[name].profile.macs, measured[name].seconds) for name in PACK if name in measured]
    )
    rows = []
    for name in KNOWN:
        if name in measured:
            profile = made[name].profile
            [predicted] = estimate(Query.of(profile), [device], knowledge)
            rows.append(Row(name, profile.macs / 1e9, rate * profile.macs, predicted, measured[name]))
    return rows


def seconds_per_mac(runs: list[tuple[int, float]]) -> float:
    """Return the mean seconds of a multiply-add: the peer's only figure."""
    return math.exp(sum(math.log(seconds / macs) for macs, seconds in runs) / len(runs))


def target_of(backend: str, where: str) -> tuple[CalibrationTarget, str]:
    """Return the accelerator to use, and a description of its machine."""
    host = Host("/")
    inventory = detect(host, load(), gpus_of(host))
    kind = "cpu" if where == "cpu" else "gpu"
    for accelerator in inventory.accelerators:
        if accelerator.kind == kind and (kind == "cpu" or accelerator.vendor == "NVIDIA"):
            cpu = next((each.name for each in inventory.accelerators if each.kind == "cpu"), "")
            return CalibrationTarget(
                accelerator, where
            ), f"{accelerator.name}; {cpu}, {inventory.machine.cpus} CPUs"
    sys.exit(f"{backend} on {where}: this machine has no such accelerator; see: fairlead detect")


def measure(
    options: argparse.Namespace, target: CalibrationTarget, machine: str
) -> tuple[Calibration, dict[str, BuiltModel]]:
    """Run the pack and the eight together."""
    names = [*PACK, *KNOWN]
    random.Random(7).shuffle(names)
    plan = CalibrationPlan(
        models=tuple(names),
        runtime=options.backend,
        precision=options.precision,
        batch=options.batch,
        threads=options.threads,
        rounds=options.rounds,
        budget=options.budget,
    )
    printer = StepPrinter(sys.stderr)
    with tempfile.TemporaryDirectory(prefix="fairlead-zoo-") as folder:
        with printer.step("make 19 models"):
            made = build_models(plan, folder, analyze)
        with printer.step("run them") as step:
            return calibrate(plan, target, made, machine, step.report), made


def summary(rows: list[Row]) -> dict[str, float]:
    """Return the figures of the bars, in percent."""
    times, memory = [abs(row.time_error) for row in rows], [abs(row.memory_error) for row in rows]
    energy = [abs(row.energy_error) for row in rows if row.energy_error is not None]
    return {
        "time_mape": fmean(times),
        "time_worst": max(times),
        "flops_mape": fmean(100 * abs(row.flops_seconds / row.measured.seconds - 1) for row in rows),
        "within_p90": 100 * fmean(row.measured.seconds <= (row.estimate.p90 or 0) for row in rows),
        "memory_mape": fmean(memory),
        "memory_worst": max(memory),
        **({"energy_mape": fmean(energy)} if energy else {}),
    }


def report(rows: list[Row], figures: Mapping[str, float]) -> None:
    """Print estimates and measurements."""
    print(f"{'':18} {'GMACs':>6} {'est. ms':>9} {'took ms':>9} {'error':>6}", end="")
    print(f" {'est. MiB':>9} {'had MiB':>8} {'error':>6}  confidence")
    for row in rows:
        predicted, took = row.estimate, row.measured
        print(
            f"{row.model:18} {row.gmacs:6.3f} {1e3 * (predicted.seconds or 0):9.2f} "
            f"{1e3 * took.seconds:9.2f} "
            f"{row.time_error:+5.0f}% {(predicted.memory or 0) / 2**20:9.0f} {took.peak_bytes / 2**20:8.0f} "
            f"{row.memory_error:+5.0f}%  {predicted.confidence}, {predicted.basis}"
        )
    mape, peer = figures["time_mape"], figures["flops_mape"]
    print(
        f"time: mean error {mape:.1f} % (bar {TIME_TARGET:.0f} %), worst {figures['time_worst']:.1f} %;",
        end="",
    )
    print(f" {figures['within_p90']:.0f} % below their p90")
    print(f"  peer, time proportional to multiply-adds: {peer:.1f} %, {peer / mape:.1f} times as much")
    mean, worst = figures["memory_mape"], figures["memory_worst"]
    print(f"memory: mean error {mean:.1f} %, worst {worst:.1f} % (bar {MEMORY_TARGET:.0f} %)")
    if "energy_mape" in figures:
        print(f"energy: mean error {figures['energy_mape']:.1f} %")


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=("onnxruntime", "torch"), default="onnxruntime")
    parser.add_argument("--on", choices=("cpu", "cuda"), help="default: cpu for onnxruntime, cuda for torch")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument(
        "--threads", type=int, default=1, help="default: 1, which a busy machine disturbs least"
    )
    parser.add_argument("--rounds", type=int, help="default: 5, and on a GPU 2")
    parser.add_argument("--budget", type=float, default=0.6, help="seconds of each model in each round")
    parser.add_argument("--out", help="also write everything as JSON")
    options = parser.parse_args()
    options.on = options.on or ("cuda" if options.backend == "torch" else "cpu")
    options.rounds = options.rounds or (2 if options.on == "cuda" else 5)
    return options


def main() -> int:
    """Measure, predict and compare."""
    options = arguments()
    before = os.getloadavg()[0]
    target, machine = target_of(options.backend, options.on)
    calibration, made = measure(options, target, machine)
    rows = predict(calibration, made, target.accelerator)
    missing = [f"{trial.model}: {trial.reason}" for trial in calibration.trials if trial.measured is None]
    setup, figures = calibration.setup, summary(rows)
    waited = max(row.measured.waited for row in rows)
    after = os.getloadavg()[0]
    print(f"{machine}; {platform.system()} {platform.release()}, Python {platform.python_version()}")
    threads = f"threads {setup.threads}, " if setup.threads else ""
    print(f"{setup.runtime} {setup.version}, {setup.precision}, batch {options.batch}, {threads}", end="")
    print(f"rounds {options.rounds} of {options.budget} s for each model")
    print(f"load average {before:.1f} before, {after:.1f} after; waited for a CPU up to {waited:.0%}")
    report(rows, figures)
    print(*(f"not run: {line}" for line in missing), sep="\n", end="\n" if missing else "")
    if options.out:
        with open(options.out, "w", encoding="ascii") as out:
            json.dump({"summary": figures, **calibration.to_json()}, out, indent=1)
    met = figures["time_mape"] <= TIME_TARGET and figures["memory_worst"] <= MEMORY_TARGET
    return 0 if met and not missing else 1


if __name__ == "__main__":
    sys.exit(main())

"""Train networks for real, and hold what `estimate --train` says against them: memory and time.

Exports every network of `train_table.py` as an inference model, trains it for some steps in PyTorch (on
the GPU where there is one, and on the CPU), and predicts both from the exported file: peak memory beside the
allocator's own count, seconds of a step from the data sheet alone and after a calibration by inference.
Needs a Python with PyTorch and onnx; install them as pytorch.org says, or name that Python with --python.
The bar of the data sheet is for GPUs: of a CPU it tells too little.

    python -m bench.train [--python PYTHON] [--steps N] [--out FILE] [--measured FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean
from typing import Any

from bench.real_predict import target_of
from fairlead.analyze import analyze
from fairlead.calibrate.campaign import CalibrationPlan, build_models, calibrate
from fairlead.calibrate.document import parse_calibration
from fairlead.calibration import Calibration
from fairlead.catalog import load
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.target import target_of_setup
from fairlead.training.predict import TrainingJob, estimate_training
from fairlead.training.setup import TrainingSetup
from fairlead.zoo import PACK

MEMORY_TARGET, SHEET_TARGET, CALIBRATED_TARGET = 15.0, 0.45, 25.0
"""Percent of memory on the mean, root mean square of the logarithm of time, percent of time on the mean."""
_MODES = {"cuda": "fp32:sgd,amp:adam,fp32:adam,amp:sgd", "cpu": "fp32:sgd"}
_SHARES = {"cuda": 1.0, "cpu": 0.125}


@dataclass(frozen=True, slots=True)
class Row:
    """One network in one mode: what was measured, and what the data sheet and the calibration say."""

    network: str
    exporter: str
    mode: str
    fitted: bool
    seconds: float
    sheet: float
    calibrated: float
    peak: int
    memory: int


def main() -> int:
    """Measure, predict, print; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="python3", help="a Python that has PyTorch and onnx")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", help="where to write what was measured")
    parser.add_argument("--measured", help="a file of --out: predict only")
    parser.add_argument("--calibrate", choices=("cuda", "cpu"), help="only calibrate, and print the result")
    options = parser.parse_args()
    if options.calibrate:
        json.dump([each.to_json() for each in calibrations(options.calibrate)], sys.stdout)
        return 0
    with tempfile.TemporaryDirectory(prefix="fairlead-train-") as scratch:
        if options.measured:
            with open(options.measured, encoding="utf-8") as stream:
                measured = json.load(stream)
        else:
            measured = measure_all(options, scratch)
        if options.out:
            with open(options.out, "w", encoding="utf-8") as stream:
                json.dump(measured, stream)
        missed = [
            report(predict(part, write_files(measured, scratch)), part)
            for part in measured["devices"].values()
        ]
    return 1 if any(missed) else 0


def measure_all(options: argparse.Namespace, scratch: str) -> dict[str, Any]:
    """Export, train and calibrate on this machine."""
    check = "import torch, onnx; print(torch.cuda.is_available())"
    done = subprocess.run([options.python, "-c", check], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"{options.python} has no PyTorch and onnx: {done.stderr.strip()[-200:]}\n"
            "  install them as pytorch.org says, or name another Python: TORCH_PYTHON=/path/to/python"
        )
    folder = os.path.join(scratch, "onnx")
    run([options.python, "-m", "bench.train_export", folder])
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as stream:
            files[name] = stream.read().hex()
    devices = {}
    for device in ["cuda", "cpu"] if done.stdout.strip() == "True" else ["cpu"]:
        words = ["--device", device, "--modes", _MODES[device], "--steps", str(options.steps)]
        words += ["--batch-share", str(_SHARES[device])]
        part = json.loads(run([options.python, "-m", "bench.train_measure", *words]))
        learnt = json.loads(run([options.python, "-m", "bench.train", "--calibrate", device]))
        devices[device] = {**part, "calibrations": learnt}
    return {"devices": devices, "files": files}


def run(words: Sequence[str]) -> str:
    """Run a program of the bench, and return what it prints."""
    print(f"  {' '.join(words[1:5])}", file=sys.stderr)
    path = os.pathsep.join(filter(None, ("src", ".", os.environ.get("PYTHONPATH", ""))))
    environ = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environ).stdout


def calibrations(device: str) -> Iterator[Calibration]:
    """Calibrate by inference: a GPU through PyTorch, a CPU through ONNX Runtime."""
    backend, where = ("torch", "cuda") if device == "cuda" else ("onnxruntime", "cpu")
    target, machine = target_of(backend, where)
    for precision in ("fp32", "fp16") if device == "cuda" else ("fp32",):
        threads = len(os.sched_getaffinity(0)) if device == "cpu" else 1
        plan = CalibrationPlan(tuple(PACK), backend, precision, threads=threads, rounds=1, budget=0.3)
        with tempfile.TemporaryDirectory(prefix="fairlead-zoo-") as folder:
            made = build_models(plan, folder, analyze)
            yield calibrate(plan, target, made, machine, lambda done, total, name: None)


def write_files(measured: dict[str, Any], scratch: str) -> str:
    """Write the exported networks back, and return their folder."""
    folder = os.path.join(scratch, "files")
    os.makedirs(folder, exist_ok=True)
    for name, text in measured["files"].items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(bytes.fromhex(text))
    return folder


def predict(part: dict[str, Any], folder: str) -> list[Row]:
    """Predict every measured row from the exported files, without and with the calibrations."""
    catalog = load()
    known = [parse_calibration(each) for each in part["calibrations"]]
    device = target_of_setup(known[0].setup, catalog)
    assert device is not None, "the catalog has the device that was calibrated"
    learnt = Knowledge.of(known, catalog)
    profiles = {name: analyze(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
    rows = []
    for measured in part["rows"]:
        setup = TrainingSetup(measured["batch"], measured["optimizer"], measured["precision"])
        for file, profile in profiles.items():
            network, exporter, _ = file.rsplit(".", 2)
            if network != measured["network"]:
                continue
            job = TrainingJob.of(profile, setup)
            sheet, own = (
                estimate_training(job, [device], knowledge)[0].step for knowledge in (Knowledge(), learnt)
            )
            mode = f"{measured['precision']} {measured['optimizer']}"
            peak = measured.get("peak_bytes", 0)
            times = (measured["seconds"], sheet.seconds or 0.0, own.seconds or 0.0)
            rows.append(Row(network, exporter, mode, measured["fitted"], *times, peak, sheet.memory or 0))
    return rows


def report(rows: list[Row], part: dict[str, Any]) -> bool:
    """Print the figures of one device; return whether a bar is missed."""
    print(f"\n{part['device']}, PyTorch {part['torch']}")
    print(
        f"{'':13} {'':8} {'':9} {'took ms':>8} {'sheet':>8} {'calibrated':>10} {'had MB':>8} {'est. MB':>8}"
    )
    for row in rows:
        if row.exporter == rows[0].exporter:
            print(
                f"{row.network:13} {row.mode:9} {'' if row.fitted else 'unseen':7} {1e3 * row.seconds:8.2f} "
                f"{1e3 * row.sheet:8.2f} {1e3 * row.calibrated:10.2f} "
                f"{row.peak / 1e6:8.0f} {row.memory / 1e6:8.0f}"
            )
    missed = False
    for name, chosen in (("all", rows), ("unseen", [row for row in rows if not row.fitted])):
        missed = _figures(name, chosen) or missed
    return missed


def _figures(name: str, rows: Sequence[Row]) -> bool:
    """Print the errors of some rows; return whether a bar is missed."""
    logs = [log(row.sheet / row.seconds) for row in rows]
    rms, bias = sqrt(fmean(each**2 for each in logs)), exp(fmean(logs))
    own = 100 * fmean(abs(row.calibrated / row.seconds - 1) for row in rows)
    print(f"{name}: time by the data sheet rms {rms:.2f} (bar {SHEET_TARGET}), bias {bias:.2f}; ", end="")
    print(f"after calibration {own:.1f} % (bar {CALIBRATED_TARGET:.0f} %)")
    memory = [100 * abs(row.memory / row.peak - 1) for row in rows if row.peak]
    if memory:
        print(f"  memory {fmean(memory):.1f} % (bar {MEMORY_TARGET:.0f} %), worst {max(memory):.1f} %")
    off = bool(memory) and (fmean(memory) > MEMORY_TARGET or rms > SHEET_TARGET)
    return own > CALIBRATED_TARGET or off


if __name__ == "__main__":
    sys.exit(main())

"""Calibrate this machine, predict eight networks that no calibration runs, then judge by running them.

The pack and the eight are measured in the same rounds, interleaved, each in a process of its own. The peer is
the usual guess that time is proportional to multiply-adds. Exits 1 when a bar is missed.

    python bench/real_predict.py                                    this machine's CPU, through ONNX Runtime
    python bench/real_predict.py --backend torch --precision fp16   an NVIDIA GPU, through PyTorch
"""

import argparse
import json
import os
import platform
import random
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.analyze import analyze
from fairlead.calibrate.campaign import Made, Plan, calibrate, make, usable_cpus
from fairlead.calibrate.targets import Target
from fairlead.calibration import Calibration, Measured
from fairlead.catalog import load
from fairlead.cli.options import gpus_of
from fairlead.detect import detect
from fairlead.estimate import nonnegative
from fairlead.estimate.device import Device
from fairlead.estimate.library import Library
from fairlead.estimate.predictor import fit
from fairlead.estimate.traits import Array, Traits
from fairlead.host import Host
from fairlead.lab.narrate import Narrator
from fairlead.workload import Operator, Profile
from fairlead.zoo import KNOWN, PACK

TIME_TARGET, MEMORY_TARGET = 20.0, 15.0
"""Percent: the mean error of time, and every error of memory."""
HEAVY = ("conv", "depthwise", "matmul", "attention", "recurrent")
SMOOTH = ("Sigmoid", "Erf", "Tanh")


@dataclass(frozen=True, slots=True)
class Row:
    """One network: what was said and what came."""

    model: str
    gmacs: float
    seconds: float
    predicted_seconds: float
    flops_seconds: float
    peak_bytes: int
    predicted_bytes: float
    measured: Measured

    @property
    def time_error(self) -> float:
        """In percent, positive where too much was said."""
        return 100 * (self.predicted_seconds / self.seconds - 1)

    @property
    def memory_error(self) -> float:
        """In percent, positive where too much was said."""
        return 100 * (self.predicted_bytes / self.peak_bytes - 1)


def amounts(profile: Profile) -> dict[str, float]:
    """Return the work of a model by what devices are fast or slow at."""

    def moved(operator: Operator) -> int:
        return operator.read_bytes + operator.written_bytes - operator.weight_bytes

    each = profile.operators
    return {
        "macs.conv": float(sum(one.macs for one in each if one.kind == "conv")),
        "bytes.conv": float(sum(moved(one) for one in each if one.kind == "conv")),
        "bytes.depthwise": float(sum(moved(one) for one in each if one.kind == "depthwise")),
        "macs.matmul": float(sum(one.macs for one in each if one.kind in ("matmul", "attention"))),
        "weights.matmul": float(sum(one.weight_bytes for one in each if one.kind == "matmul")),
        "bytes.light": float(sum(moved(one) for one in each if one.kind not in HEAVY)),
        "bytes.smooth": float(sum(moved(one) for one in each if one.op in SMOOTH)),
        "groups": float(profile.groups),
    }


def memory_design(profiles: Mapping[str, Profile]) -> Array:
    """Return what a process's memory is made of: weights, copies of the largest one, live activations."""
    rows = []
    for profile in profiles.values():
        conv = [one.weight_bytes for one in profile.operators if one.kind in ("conv", "depthwise", "norm")]
        product = [
            one.weight_bytes for one in profile.operators if one.kind not in ("conv", "depthwise", "norm")
        ]
        rows.append([1.0, sum(conv), max(conv, default=0), sum(product), profile.peak_bytes])
    return np.array(rows, dtype=np.float64)


def predict(calibration: Calibration, made: Mapping[str, Made]) -> list[Row]:
    """Fit the pack's figures alone and predict the others."""
    found = {trial.model: trial.measured for trial in calibration.trials if trial.measured is not None}
    pack = [name for name in PACK if name in found]
    traits = {name: Traits(name, views=(amounts(made[name].profile),)) for name in made}
    times = np.array([found[name].seconds for name in pack])
    library = Library.of([], [traits[name] for name in pack], np.zeros((0, len(pack))))
    predictor = fit(Device(calibration.setup.name), np.arange(len(pack)), np.log(times), library)
    judged = [name for name in KNOWN if name in found]
    said = predictor.predict([traits[name] for name in judged])[0]
    peaks = np.array([float(found[name].peak_bytes) for name in pack])
    scale = nonnegative.fit(memory_design({name: made[name].profile for name in pack}), peaks)
    memory = memory_design({name: made[name].profile for name in judged}) @ scale
    macs = np.array([float(made[name].profile.macs) for name in pack])
    rate = float(np.exp(np.mean(np.log(times / macs))))
    return [
        Row(
            model=name,
            gmacs=made[name].profile.macs / 1e9,
            seconds=found[name].seconds,
            predicted_seconds=said[index].mean,
            flops_seconds=rate * made[name].profile.macs,
            peak_bytes=found[name].peak_bytes,
            predicted_bytes=float(memory[index]),
            measured=found[name],
        )
        for index, name in enumerate(judged)
    ]


def target_of(backend: str, where: str) -> tuple[Target, str]:
    """Return the accelerator to use, and the machine around it."""
    host = Host("/")
    inventory = detect(host, load(), gpus_of(host))
    kind = "cpu" if where == "cpu" else "gpu"
    for accelerator in inventory.accelerators:
        if accelerator.kind == kind and (kind == "cpu" or accelerator.vendor == "NVIDIA"):
            cpu = next((each.name for each in inventory.accelerators if each.kind == "cpu"), "")
            return Target(accelerator, where), f"{accelerator.name}; {cpu}, {inventory.machine.cpus} CPUs"
    sys.exit(f"{backend} on {where}: this machine has no such accelerator; see: fairlead detect")


def measure(options: argparse.Namespace) -> tuple[Calibration, dict[str, Made], str]:
    """Run the pack and the eight together."""
    names = [*PACK, *KNOWN]
    random.Random(7).shuffle(names)
    plan = Plan(
        models=tuple(names),
        runtime=options.backend,
        precision=options.precision,
        batch=options.batch,
        threads=options.threads,
        rounds=options.rounds,
        budget=options.budget,
    )
    target, machine = target_of(options.backend, options.on)
    narrator = Narrator(sys.stderr)
    with tempfile.TemporaryDirectory(prefix="fairlead-zoo-") as folder:
        with narrator.step("make 19 models"):
            made = make(plan, folder, analyze)
        with narrator.step("run them") as step:
            return calibrate(plan, target, made, machine, step.at), made, machine


def summary(rows: list[Row]) -> dict[str, float]:
    """Return the figures that the bars are for, in percent."""
    return {
        "time_mape": float(np.mean([abs(row.time_error) for row in rows])),
        "time_worst": max(abs(row.time_error) for row in rows),
        "flops_mape": float(np.mean([100 * abs(row.flops_seconds / row.seconds - 1) for row in rows])),
        "memory_mape": float(np.mean([abs(row.memory_error) for row in rows])),
        "memory_worst": max(abs(row.memory_error) for row in rows),
    }


def report(rows: list[Row], figures: Mapping[str, float]) -> None:
    """Print what was said and what came."""
    print(f"{'':18} {'GMACs':>6} {'said ms':>9} {'took ms':>9} {'error':>6}", end="")
    print(f" {'said MiB':>9} {'had MiB':>8} {'error':>6}")
    for row in rows:
        print(
            f"{row.model:18} {row.gmacs:6.3f} {row.predicted_seconds * 1e3:9.2f} {row.seconds * 1e3:9.2f} "
            f"{row.time_error:+5.0f}% {row.predicted_bytes / 2**20:9.0f} {row.peak_bytes / 2**20:8.0f} "
            f"{row.memory_error:+5.0f}%"
        )
    mape, peer = figures["time_mape"], figures["flops_mape"]
    print(f"time: mean error {mape:.1f} % (bar {TIME_TARGET:.0f} %), worst {figures['time_worst']:.1f} %")
    print(f"  peer, time proportional to multiply-adds: {peer:.1f} %, {peer / mape:.1f} times as much")
    mean, worst = figures["memory_mape"], figures["memory_worst"]
    print(f"memory: mean error {mean:.1f} %, worst {worst:.1f} % (bar {MEMORY_TARGET:.0f} %)")


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=("onnxruntime", "torch"), default="onnxruntime")
    parser.add_argument("--on", choices=("cpu", "cuda"), help="default: cpu for onnxruntime, cuda for torch")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="default: all CPUs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.6, help="seconds of each model in each round")
    parser.add_argument("--out", help="also write everything as JSON")
    options = parser.parse_args()
    options.on = options.on or ("cuda" if options.backend == "torch" else "cpu")
    return options


def main() -> int:
    """Measure, predict and judge."""
    options = arguments()
    before = os.getloadavg()[0]
    calibration, made, machine = measure(options)
    rows = predict(calibration, made)
    missing = [f"{trial.model}: {trial.reason}" for trial in calibration.trials if trial.measured is None]
    setup, figures = calibration.setup, summary(rows)
    waited = max(row.measured.waited for row in rows)
    after = os.getloadavg()[0]
    print(f"{machine}; {platform.system()} {platform.release()}, Python {platform.python_version()}")
    print(f"{setup.runtime} {setup.version}, {setup.precision}, batch {options.batch}, ", end="")
    print(f"threads {options.threads}, {options.rounds} rounds of {options.budget} s")
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

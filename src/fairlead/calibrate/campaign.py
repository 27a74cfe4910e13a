"""A whole calibration: build the models, run them in rounds, merge the trials."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from fairlead.calibrate.job import TrialJob, TrialOutcome
from fairlead.calibrate.targets import CalibrationTarget
from fairlead.calibrate.trial import merge_outcomes, run_rounds
from fairlead.calibration import Calibration, features, with_date
from fairlead.compat.times import UTC
from fairlead.workload import Profile
from fairlead.zoo import BUILDERS
from fairlead.zoo.onnxfile import write

Progress: TypeAlias = Callable[[int, int, str], None]
"""Receives the number of runs done, their total, and the model that runs next."""


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """How to calibrate."""

    models: tuple[str, ...]
    runtime: str = "onnxruntime"
    precision: str = "fp32"
    batch: int = 1
    threads: int = 1
    rounds: int = 3
    budget: float = 1.0
    """Seconds that each model runs in each round."""


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A model on disk."""

    file: str
    profile: Profile


def build_models(
    plan: CalibrationPlan, folder: str, analyze: Callable[[str], Profile]
) -> dict[str, BuiltModel]:
    """Write the models of a plan into a folder and analyse them."""
    models = {}
    for name in plan.models:
        file = os.path.join(folder, f"{name}.onnx")
        write(BUILDERS[name](plan.batch, plan.precision), file)
        models[name] = BuiltModel(file, analyze(file))
    return models


def calibrate(
    plan: CalibrationPlan,
    target: CalibrationTarget,
    models: Mapping[str, BuiltModel],
    host: str,
    progress: Progress,
) -> Calibration:
    """Run the models of a plan on one target."""
    outcomes: dict[str, list[TrialOutcome]] = {name: [] for name in plan.models}
    jobs = [_job(plan, target, name, models[name].file) for name in plan.models]
    total = len(jobs) * plan.rounds
    progress(0, total, plan.models[0])
    for number, (job, outcome) in enumerate(run_rounds(jobs, plan.rounds), start=1):
        outcomes[job.model].append(outcome)
        progress(number, total, plan.models[number % len(jobs)] if number < total else "")
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return Calibration(
        setup=target.setup(plan.runtime, _version(outcomes.values()), plan.precision, plan.threads),
        host=host,
        made=made,
        trials=tuple(
            with_date(merge_outcomes(name, features(models[name].profile), results), made)
            for name, results in outcomes.items()
        ),
    )


def _job(plan: CalibrationPlan, target: CalibrationTarget, name: str, file: str) -> TrialJob:
    return TrialJob(
        model=name,
        file=file,
        runtime=f"{plan.runtime}-{target.provider}",
        precision=plan.precision,
        batch=plan.batch,
        threads=plan.threads,
        budget=plan.budget,
        gpu=target.gpu,
    )


def _version(outcomes: Iterable[list[TrialOutcome]]) -> str:
    return next((outcome.version for results in outcomes for outcome in results if outcome.version), "")

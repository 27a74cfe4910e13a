"""The energy protocol: the energy of one inference is busy power times latency, both predicted."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from fairlead.evaluate.methods import METHODS, Method, MethodPredictions, MethodResult, fairlead
from fairlead.evaluate.result import Result, empty_result, over_models, run_methods
from fairlead.evaluate.split import FEWEST, Exam, Examiner, leave_one_device_out, skipped_note
from fairlead.evaluate.table import LatencyTable


def constant(exam: Exam) -> MethodResult:
    """Predict the average power of the device for every model."""
    return MethodResult(np.full(len(exam.test), np.log(np.exp(exam.values).mean())))


POWERS: Final[Mapping[str, Method]] = {
    "flops": constant,
    "roofline": constant,
    "fairlead": fairlead,
}


def energy(table: LatencyTable, calibration: int, seed: int) -> Result:
    """Take each physical device in turn as new: power and time of `calibration` models are known."""
    measured = ~np.isnan(table.seconds) & ~np.isnan(table.watts)
    if not measured.any():
        return empty_result(table, "no row has power_w")
    splits = leave_one_device_out(table, measured, max(calibration, 1), seed)
    times = run_methods(Examiner(table, table.seconds), splits, METHODS)
    powers = run_methods(Examiner(table, table.watts), splits, POWERS)
    joules = table.seconds + table.watts
    figures = {name: over_models(joules, _products(times[name], powers[name])) for name in METHODS}
    return Result(table, figures, skipped_note(table, len(splits), calibration + FEWEST))


def _products(times: list[MethodPredictions], powers: list[MethodPredictions]) -> list[MethodPredictions]:
    """Multiply times with powers: both are logarithms."""
    known = {answer.device: answer.predicted for answer in powers}
    return [
        MethodPredictions(answer.device, answer.columns, answer.predicted + known[answer.device])
        for answer in times
        if answer.device in known
    ]

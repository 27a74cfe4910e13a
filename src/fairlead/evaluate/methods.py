"""The methods to compare. Each takes an exam and returns a result, or None where it has no prediction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fairlead.estimate import nonnegative
from fairlead.estimate.similar.predictor import fit_columns
from fairlead.estimate.similar.traits import Array, Columns
from fairlead.evaluate.split import Exam
from fairlead.training.published import shifted


class MethodResult(NamedTuple):
    """The predictions of a method for the test models of an exam."""

    logs: Array
    """Logarithms of seconds, or of watts."""
    spread: Array | None = None
    """Standard deviations that the method expects of its own errors; None where it has none."""


@dataclass(frozen=True, slots=True)
class MethodPredictions:
    """The predictions of a method for some models on one device."""

    device: int
    columns: Columns
    predicted: Array
    spread: Array | None = None
    """Standard deviations that the method expects of its own errors."""


Method = Callable[[Exam], MethodResult | None]
_KNOWN: Final = 0.5
"""A peer uses an amount that is known for at least this share of the calibrated models."""


def flops(exam: Exam) -> MethodResult | None:
    """Predict a time in proportion to multiply-adds."""
    for names, view in zip(exam.library.vocabulary.amounts, exam.library.trait_matrix.views, strict=True):
        if "macs" in names and len(exam.columns):
            logs = np.log(view[:, names.index("macs")])
            ratios = exam.values - logs[exam.columns]
            if np.isfinite(ratios).mean() <= _KNOWN:
                return None
            return _filled(logs[exam.test] + np.nanmedian(ratios), exam)
    return None


def roofline(exam: Exam) -> MethodResult | None:
    """Predict a time as a constant and a term for each amount of work, none of them negative."""
    trait_matrix = exam.library.trait_matrix
    if not len(exam.columns) or not trait_matrix.views:
        return None
    amounts = trait_matrix.views[0]
    amounts = amounts[:, np.isfinite(amounts[exam.columns]).mean(0) > _KNOWN]
    complete = exam.columns[np.isfinite(amounts[exam.columns]).all(1)]
    if not len(complete) or not amounts.shape[1]:
        return None
    design = np.column_stack([np.ones(len(amounts)), amounts])
    own = np.isin(exam.columns, complete)
    times = np.exp(exam.values[own])
    return _filled(
        nonnegative.log_times(design[exam.test], nonnegative.fit(design[complete], times), times), exam
    )


def fairlead(exam: Exam) -> MethodResult | None:
    """Predict by similar devices, by the work of models, and by data sheets where nothing has run."""
    if exam.steps is not None:
        logs, spreads = shifted(exam.steps, exam.columns.tolist(), exam.values)
        return _filled_steps(logs[exam.test], spreads[exam.test], exam)
    if not len(exam.columns) and not exam.library.devices:
        return None
    logs, spreads = fit_columns(exam.device, exam.columns, exam.values, exam.library).at(exam.test)
    return MethodResult(logs[0], spreads[0])


METHODS: Final[Mapping[str, Method]] = {"flops": flops, "roofline": roofline, "fairlead": fairlead}


def _filled(predicted: Array, exam: Exam) -> MethodResult:
    """Use the median time where a model's work is not known."""
    return MethodResult(np.where(np.isfinite(predicted), predicted, np.median(exam.values)))


def _filled_steps(logs: Array, spreads: Array, exam: Exam) -> MethodResult:
    """Use the median time of runs where the amounts of a step are not known."""
    usual = np.median(exam.values) if len(exam.values) else np.nanmedian(logs)
    return MethodResult(np.where(np.isfinite(logs), logs, usual), spreads)

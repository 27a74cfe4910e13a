"""The methods that are compared. Each is given an exam and returns logarithms, or None where it cannot."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from fairlead.estimate import nonnegative
from fairlead.estimate.predictor import fit
from fairlead.estimate.traits import Array
from fairlead.evaluate.split import Exam

Method = Callable[[Exam], Array | None]


def flops(exam: Exam) -> Array | None:
    """Predict a time in proportion to multiply-adds."""
    names = exam.library.vocabulary.amounts
    if not names or "macs" not in names[0]:
        return None
    logs = np.log(_amounts(exam)[:, names[0].index("macs")])
    own = logs[exam.columns]
    if not np.isfinite(own).any():
        return None
    return _filled(logs[exam.asked] + np.nanmedian(exam.values - own), exam)


def roofline(exam: Exam) -> Array | None:
    """Predict a time as a start and a share for each amount of work, none of them negative."""
    amounts = _amounts(exam)
    amounts = amounts[:, np.isfinite(amounts[exam.columns]).mean(0) > 0.5]
    seen = exam.columns[np.isfinite(amounts[exam.columns]).all(1)]
    if not len(seen) or not amounts.shape[1]:
        return None
    design = np.column_stack([np.ones(len(amounts)), amounts])
    own = np.isin(exam.columns, seen)
    times = np.exp(exam.values[own])
    return _filled(nonnegative.logs(design[exam.asked], nonnegative.fit(design[seen], times), times), exam)


def fairlead(exam: Exam) -> Array | None:
    """Predict as `fairlead estimate` does."""
    return fit(exam.device, exam.columns, exam.values, exam.library).at(exam.asked)[0][0]


METHODS: Final[Mapping[str, Method]] = {"flops": flops, "roofline": roofline, "fairlead": fairlead}


def _amounts(exam: Exam) -> Array:
    sheet = exam.library.sheet
    return (
        sheet.views[0] if sheet.views and sheet.views[0].shape[1] else np.full((len(sheet.counts), 1), np.nan)
    )


def _filled(predicted: Array, exam: Exam) -> Array:
    """Put the usual time where a model's work is not known."""
    return np.where(np.isfinite(predicted), predicted, np.median(exam.values))

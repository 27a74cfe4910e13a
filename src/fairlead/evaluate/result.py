"""The result of a protocol: predictions, compared with measurements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from fairlead.estimate.similar.traits import Array, Columns
from fairlead.evaluate.methods import METHODS, Method, MethodPredictions
from fairlead.evaluate.score import Accuracy, average, judge, kendall, spearman
from fairlead.evaluate.split import Examiner, Split
from fairlead.evaluate.table import LatencyTable
from fairlead.evaluate.trust import Trust

_DEVICES: Final = 5
"""The fewest devices that must have run a model to compare their order."""


@dataclass(frozen=True, slots=True)
class Result:
    """The accuracy of the methods on one table."""

    table: LatencyTable
    methods: Mapping[str, Accuracy]
    note: str = ""
    trust: Mapping[str, Trust] = field(default_factory=dict)
    """Of `fairlead`, by class of confidence; empty where a protocol has none."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "group": self.table.group,
            "devices": len(self.table.keys),
            "rows": self.table.rows,
            "methods": {name: figures.to_json() for name, figures in self.methods.items()},
            "note": self.note,
            "trust": {name: trust.to_json() for name, trust in self.trust.items()},
        }


def empty_result(table: LatencyTable, note: str) -> Result:
    """Return a result without figures, with a note that says why."""
    return Result(table, dict.fromkeys(METHODS, Accuracy()), note)


def run_methods(
    examiner: Examiner, splits: Iterable[Split], methods: Mapping[str, Method] = METHODS
) -> dict[str, list[MethodPredictions]]:
    """Run every method on every exam; a method without a prediction is left out."""
    answers: dict[str, list[MethodPredictions]] = {name: [] for name in methods}
    for split in splits:
        exam = examiner.exam(split)
        for name, method in methods.items():
            result = method(exam)
            if result is not None:
                answers[name].append(MethodPredictions(split.device, split.test, *result))
    return answers


def over_models(measured: Array, answers: Sequence[MethodPredictions]) -> Accuracy:
    """Judge each device by its models, then take the mean over devices."""
    return average(
        judge(predicted, measured[device, columns]) for device, columns, predicted in _by_device(answers)
    )


def over_devices(table: LatencyTable, answers: Sequence[MethodPredictions]) -> Accuracy:
    """Judge as `over_models` does, but rank physical devices for one model, and take the mean over models.

    A physical device has the rank of its fastest configuration, as predicted and as measured.
    """
    predicted = np.full(table.seconds.shape, np.inf)
    for answer in answers:
        predicted[answer.device, answer.columns] = answer.predicted
    measured = np.where(np.isfinite(predicted), table.seconds, np.inf)
    names = sorted(set(table.physical))
    rows = [
        [index for index, device_rows in enumerate(table.physical) if device_rows == name] for name in names
    ]
    fastest = np.array(
        [[predicted[device_rows].min(0), measured[device_rows].min(0)] for device_rows in rows]
    ).reshape(len(rows), 2, -1)
    orders = []
    for guess, truth in np.moveaxis(fastest, 0, 2).swapaxes(0, 1):
        known = np.isfinite(guess)
        if known.sum() >= _DEVICES:
            pair = guess[known], truth[known]
            orders.append(Accuracy(spearman=spearman(*pair), kendall=kendall(*pair)))
    order = average(orders)
    return replace(over_models(table.seconds, answers), spearman=order.spearman, kendall=order.kendall)


def _by_device(answers: Sequence[MethodPredictions]) -> list[tuple[int, Columns, Array]]:
    parts: dict[int, list[MethodPredictions]] = defaultdict(list)
    for answer in answers:
        parts[answer.device].append(answer)
    return [
        (
            device,
            np.concatenate([answer.columns for answer in device_answers]),
            np.concatenate([answer.predicted for answer in device_answers]),
        )
        for device, device_answers in parts.items()
    ]

"""What a protocol found: answers, put beside what was measured."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairlead.estimate.similar.traits import Array, Columns
from fairlead.evaluate.methods import METHODS, Method
from fairlead.evaluate.score import Accuracy, average, judge, kendall, spearman
from fairlead.evaluate.split import Examiner, Split
from fairlead.evaluate.table import LatencyTable

_DEVICES: Final = 5
"""Devices that must have run a model for their order to mean something."""


@dataclass(frozen=True, slots=True)
class MethodPredictions:
    """What a method said of some models on one device."""

    device: int
    columns: Columns
    predicted: Array
    spread: Array | None = None
    """Standard deviations that the method gives its own errors."""


@dataclass(frozen=True, slots=True)
class Result:
    """How the methods did in one table."""

    table: LatencyTable
    methods: Mapping[str, Accuracy]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "group": self.table.group,
            "devices": len(self.table.keys),
            "rows": self.table.rows,
            "methods": {name: figures.to_json() for name, figures in self.methods.items()},
            "note": self.note,
        }


def empty_result(table: LatencyTable, note: str) -> Result:
    """Return a result without figures, and why there are none."""
    return Result(table, dict.fromkeys(METHODS, Accuracy()), note)


def run_methods(
    examiner: Examiner, splits: Iterable[Split], methods: Mapping[str, Method] = METHODS
) -> dict[str, list[MethodPredictions]]:
    """Set every exam to every method; a method that cannot answer is left out."""
    answers: dict[str, list[MethodPredictions]] = {name: [] for name in methods}
    for split in splits:
        given = examiner.exam(split)
        for name, method in methods.items():
            said = method(given)
            if said is not None:
                answers[name].append(MethodPredictions(split.device, split.test, *said))
    return answers


def over_models(measured: Array, answers: Sequence[MethodPredictions]) -> Accuracy:
    """Judge each device by its models, then take the mean over devices."""
    return average(judge(said, measured[device, columns]) for device, columns, said in _by_device(answers))


def over_devices(table: LatencyTable, answers: Sequence[MethodPredictions]) -> Accuracy:
    """Judge as `over_models` does, but the order by physical devices, for one model: the mean over models.

    A physical device stands where the fastest of its configurations does, as predicted and as measured.
    """
    said = np.full(table.seconds.shape, np.inf)
    for answer in answers:
        said[answer.device, answer.columns] = answer.predicted
    took = np.where(np.isfinite(said), table.seconds, np.inf)
    names = sorted(set(table.physical))
    rows = [[index for index, own in enumerate(table.physical) if own == name] for name in names]
    fastest = np.array([[said[own].min(0), took[own].min(0)] for own in rows]).reshape(len(rows), 2, -1)
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
            np.concatenate([one.columns for one in found]),
            np.concatenate([one.predicted for one in found]),
        )
        for device, found in parts.items()
    ]

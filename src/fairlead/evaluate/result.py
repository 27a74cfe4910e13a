"""What a protocol found: answers, put beside what was measured."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairlead.estimate.traits import Array, Columns
from fairlead.evaluate.methods import METHODS, Method
from fairlead.evaluate.score import Figures, average, judge, kendall, spearman
from fairlead.evaluate.split import Examiner, Split
from fairlead.evaluate.table import Table

_DEVICES: Final = 5
"""Devices that must have run a model for their order to mean something."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method said of some models on one device."""

    device: int
    columns: Columns
    predicted: Array


@dataclass(frozen=True, slots=True)
class Result:
    """How the methods did in one table."""

    table: Table
    methods: Mapping[str, Figures]
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


def nothing(table: Table, note: str) -> Result:
    """Return a result without figures, and why there are none."""
    return Result(table, dict.fromkeys(METHODS, Figures()), note)


def ask(
    examiner: Examiner, splits: Iterable[Split], methods: Mapping[str, Method] = METHODS
) -> dict[str, list[Answer]]:
    """Set every exam to every method; a method that cannot answer is left out."""
    answers: dict[str, list[Answer]] = {name: [] for name in methods}
    for split in splits:
        given = examiner.exam(split)
        for name, method in methods.items():
            said = method(given)
            if said is not None:
                answers[name].append(Answer(split.device, split.test, said))
    return answers


def over_models(measured: Array, answers: Sequence[Answer]) -> Figures:
    """Judge each device by its models, then take the mean over devices."""
    return average(judge(said, measured[device, columns]) for device, columns, said in _joined(answers))


def over_devices(table: Table, answers: Sequence[Answer]) -> Figures:
    """Judge as `over_models` does, but the order by devices, for one model: the mean over models."""
    said = np.full(table.seconds.shape, np.nan)
    for answer in answers:
        said[answer.device, answer.columns] = answer.predicted
    orders = []
    for column in range(said.shape[1]):
        rows = np.flatnonzero(np.isfinite(said[:, column]) & np.isfinite(table.seconds[:, column]))
        if len({table.physical[row] for row in rows}) >= _DEVICES:
            pair = said[rows, column], table.seconds[rows, column]
            orders.append(Figures(spearman=spearman(*pair), kendall=kendall(*pair)))
    order = average(orders)
    return replace(over_models(table.seconds, answers), spearman=order.spearman, kendall=order.kendall)


def _joined(answers: Sequence[Answer]) -> list[tuple[int, Columns, Array]]:
    parts: dict[int, list[Answer]] = defaultdict(list)
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

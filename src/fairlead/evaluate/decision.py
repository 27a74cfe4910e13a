"""The decision protocol: which of five new devices runs a model fastest."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fairlead.estimate.similar.traits import Array, Columns, Mask
from fairlead.evaluate.methods import METHODS
from fairlead.evaluate.result import Result, empty_result, run_methods
from fairlead.evaluate.score import Accuracy, choose
from fairlead.evaluate.split import Examiner, Split, draw_order, split_pack
from fairlead.evaluate.table import LatencyTable

BOARDS: Final = 5
_SETS: Final = 120
"""The number of sets of devices."""
_PER_SET: Final = 5
"""The most models to predict for a set."""


def decision(table: LatencyTable, calibration: int, seed: int) -> Result:
    """Draw sets of five physical devices, all new, and predict which one of each is fastest for a model.

    All five have run the same pack of models; nothing else is known about any of them.
    """
    device_sets = draw_sets(table, calibration, seed)
    if not device_sets:
        return empty_result(
            table, f"no model ran on {BOARDS} physical devices with {calibration} other models on each"
        )
    predictions = _DevicePredictions(Examiner(table, table.seconds))
    chosen: dict[str, list[tuple[bool, float]]] = {name: [] for name in METHODS}
    for splits in device_sets:
        truth = np.array([table.seconds[split.device, split.test] for split in splits])
        for name in METHODS:
            predicted = np.array([predictions.rows(split)[name][split.test] for split in splits])
            if not np.isnan(predicted).any():
                chosen[name] += [choose(*pair) for pair in zip(predicted.T, truth.T, strict=True)]
    trials = sum(len(splits[0].test) for splits in device_sets)
    note = f"{trials} choices, of one in {BOARDS} devices each"
    return Result(table, {name: _figures(choices) for name, choices in chosen.items()}, note)


@dataclass(frozen=True, slots=True)
class _DevicePredictions:
    """Predictions of a device among the same four others, made once for all models of the device."""

    examiner: Examiner
    cache: dict[tuple[int, frozenset[str]], dict[str, Array]] = field(default_factory=dict)

    def rows(self, split: Split) -> dict[str, Array]:
        """Return by method the prediction of every model, nan where a method has none."""
        key = split.device, split.held_out
        if key not in self.cache:
            measured = np.flatnonzero(~np.isnan(self.examiner.values[split.device]))
            whole = replace(split, test=np.setdiff1d(measured, split.calibration))
            rows = {name: np.full(self.examiner.values.shape[1], np.nan) for name in METHODS}
            for name, answers in run_methods(self.examiner, [whole]).items():
                for answer in answers:
                    rows[name][answer.columns] = answer.predicted
            self.cache[key] = rows
        return self.cache[key]


def _figures(chosen: list[tuple[bool, float]]) -> Accuracy:
    if not chosen:
        return Accuracy()
    right, regret = np.array(chosen, dtype=np.float64).T
    return Accuracy(top1=float(100 * right.mean()), mean_regret=float(regret.mean()))


def draw_sets(table: LatencyTable, calibration: int, seed: int) -> list[list[Split]]:
    """Draw sets of five splits, one for each device of a set; none where there are too few."""
    order, random = draw_order(table, seed), np.random.default_rng([seed, 5, *table.group.encode()])
    measured = ~np.isnan(table.seconds)
    packs = [split_pack(order, row, calibration) for row in measured]
    tested = np.zeros(measured.shape, dtype=bool)
    for device, (pack, rest) in enumerate(packs):
        tested[device, rest if len(pack) == calibration else rest[:0]] = True
    able = [
        column
        for column in order
        if len({table.physical[row] for row in np.flatnonzero(tested[:, column])}) >= BOARDS
    ]
    return (
        [_draw_set(table, tested, packs, int(random.choice(able)), random) for _ in range(_SETS)]
        if able
        else []
    )


def _draw_set(
    table: LatencyTable,
    tested: Mask,
    packs: list[tuple[Columns, Columns]],
    column: int,
    random: np.random.Generator,
) -> list[Split]:
    """Draw five devices with a model in common; test that model and more of the models that they share."""
    keys: dict[str, list[int]] = defaultdict(list)
    for row in np.flatnonzero(tested[:, column]):
        keys[table.physical[row]].append(int(row))
    names = random.choice(sorted(keys), BOARDS, replace=False)
    devices = [int(random.choice(keys[str(name)])) for name in names]
    shared = random.permutation(np.flatnonzero(tested[devices].all(0)))
    test = np.append(column, shared[shared != column])[:_PER_SET]
    held_out = frozenset(str(name) for name in names)
    return [Split(device, held_out, packs[device][0], test) for device in devices]

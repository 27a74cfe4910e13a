"""The decision: which of five new devices runs a model fastest?"""

from collections import defaultdict
from typing import Final

import numpy as np

from fairlead.estimate.traits import Array, Columns
from fairlead.evaluate.methods import METHODS
from fairlead.evaluate.result import Result, ask, nothing
from fairlead.evaluate.score import Figures, choose
from fairlead.evaluate.split import Examiner, Split, draw, packed
from fairlead.evaluate.table import Table

BOARDS: Final = 5
_SETS: Final = 120
"""Sets of devices that are drawn."""
_PER_SET: Final = 5
"""Models that a set is asked for, at most."""


def decision(table: Table, calibration: int, seed: int) -> Result:
    """Draw sets of five physical devices, all new, and ask which one of each is fastest for a model.

    All five have run the same pack of models; nothing else is known of any of them.
    """
    drawn = _sets(table, calibration, seed)
    if not drawn:
        return nothing(
            table, f"no model was run on {BOARDS} physical devices, beside {calibration} others on each"
        )
    examiner = Examiner(table, table.seconds)
    chosen: dict[str, list[tuple[bool, float]]] = {name: [] for name in METHODS}
    for splits in drawn:
        truth = np.array([table.seconds[split.device, split.test] for split in splits])
        for name, answers in ask(examiner, splits).items():
            if len(answers) == BOARDS:
                said = np.array([answer.predicted for answer in answers])
                chosen[name] += [choose(*pair) for pair in zip(said.T, truth.T, strict=True)]
    trials = sum(len(splits[0].test) for splits in drawn)
    note = f"{trials} choices, of one in {BOARDS} devices each"
    return Result(table, {name: _figures(found) for name, found in chosen.items()}, note)


def _figures(chosen: list[tuple[bool, float]]) -> Figures:
    if not chosen:
        return Figures()
    right, regret = np.array(chosen, dtype=np.float64).T
    return Figures(top1=float(100 * right.mean()), mean_regret=float(regret.mean()))


def _sets(table: Table, calibration: int, seed: int) -> list[list[Split]]:
    order, random = draw(table, seed), np.random.default_rng([seed, 5, *table.group.encode()])
    measured = ~np.isnan(table.seconds)
    packs = [packed(order, row, calibration) for row in measured]
    tested = np.zeros(measured.shape, dtype=bool)
    for device, (pack, rest) in enumerate(packs):
        tested[device, rest if len(pack) == calibration else rest[:0]] = True
    able = [
        column
        for column in order
        if len({table.physical[row] for row in np.flatnonzero(tested[:, column])}) >= BOARDS
    ]
    return (
        [_set(table, tested, packs, int(random.choice(able)), random) for _ in range(_SETS)] if able else []
    )


def _set(
    table: Table,
    tested: np.ndarray,
    packs: list[tuple[Columns, Columns]],
    column: int,
    random: np.random.Generator,
) -> list[Split]:
    """Draw five devices that have a model in common, and ask for it and some more that they share."""
    keys: dict[str, list[int]] = defaultdict(list)
    for row in np.flatnonzero(tested[:, column]):
        keys[table.physical[row]].append(int(row))
    names = random.choice(sorted(keys), BOARDS, replace=False)
    devices = [int(random.choice(keys[str(name)])) for name in names]
    shared = random.permutation(np.flatnonzero(tested[devices].all(0)))
    asked = np.append(column, shared[shared != column])[:_PER_SET]
    apart = frozenset(str(name) for name in names)
    return [Split(device, apart, packs[device][0], asked) for device in devices]

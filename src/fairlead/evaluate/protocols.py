"""The protocols: which device or models are new, and what may be known about them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from fairlead.evaluate.decision import decision
from fairlead.evaluate.energy import energy
from fairlead.evaluate.nas import nas
from fairlead.evaluate.result import Result, empty_result, over_devices, over_models, run_methods
from fairlead.evaluate.split import FEWEST, Examiner, Split, leave_one_device_out, skipped_note
from fairlead.evaluate.table import LatencyTable
from fairlead.evaluate.trust import summary, trust_by_class

_FOLDS: Final = 5
"""The number of folds of new models, each of whole families."""

_DESCRIBED: Final = 1 / 2
"""The share of models that must have amounts of work to predict new ones."""

Protocol = Callable[[LatencyTable, int, int], Result]


def new_device(table: LatencyTable, calibration: int, seed: int) -> Result:
    """Take each physical device in turn as new: `calibration` models are known, the others are predicted."""
    splits = leave_one_device_out(table, ~np.isnan(table.seconds), calibration, seed)
    answers = run_methods(Examiner(table, table.seconds, times_steps=True), splits)
    note = skipped_note(table, len(splits), calibration + FEWEST)
    trust = trust_by_class(table.seconds, answers["fairlead"])
    if calibration:
        figures = {name: over_models(table.seconds, predictions) for name, predictions in answers.items()}
        return Result(table, figures, _join_notes(note, summary(trust)), trust)
    note = _join_notes(note, "spearman and kendall are over physical devices, for one model")
    orders = {name: over_devices(table, predictions) for name, predictions in answers.items()}
    return Result(table, orders, note, trust)


def new_model(table: LatencyTable, calibration: int, seed: int) -> Result:
    """Take whole families of models as new: no device has run them, this device has run `calibration` others.

    With 0 it has run all others.
    """
    if np.mean([bool(model.views[0]) for model in table.models]) < _DESCRIBED:
        return empty_result(
            table, "new models have no amounts of work: gmacs, mparams and mactivations are empty"
        )
    splits = [_with_runs(split, calibration) for split in families(table, seed)]
    answers = run_methods(Examiner(table, table.seconds, times_steps=True), splits)
    tested = len({split.device for split in splits})
    note = skipped_note(table, tested, 2 * FEWEST) if tested else "no device has run models of two families"
    trust = trust_by_class(table.seconds, answers["fairlead"])
    figures = {name: over_models(table.seconds, predictions) for name, predictions in answers.items()}
    return Result(table, figures, _join_notes(note, summary(trust)), trust)


def _with_runs(split: Split, runs: int) -> Split:
    return replace(split, calibration=split.calibration[:runs]) if runs else split


def _join_notes(*notes: str) -> str:
    return "; ".join(filter(None, notes))


PROTOCOLS: Final[Mapping[str, Protocol]] = {
    "new-model": new_model,
    "new-device": new_device,
    "decision": decision,
    "energy": energy,
    "nas": nas,
}


def families(table: LatencyTable, seed: int) -> list[Split]:
    """Assign families to folds, the largest first and each to the smallest fold; the seed breaks ties."""
    random = np.random.default_rng([seed, *table.group.encode()])
    names, places, sizes = np.unique(table.families, return_inverse=True, return_counts=True)
    order = random.permutation(len(names))
    fold_of, fold_sizes = np.zeros(len(names), dtype=np.intp), np.zeros(_FOLDS)
    for family in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of[family] = np.argmin(fold_sizes)
        fold_sizes[fold_of[family]] += sizes[family]
    all_devices = frozenset(table.physical)
    splits = []
    for device in range(len(table.keys)):
        columns = np.flatnonzero(~np.isnan(table.seconds[device]))
        folds = fold_of[places[columns]]
        tests = [(columns[folds != fold], columns[folds == fold]) for fold in range(_FOLDS)]
        usable = [(known, new) for known, new in tests if len(known) >= FEWEST and len(new)]
        if len(columns) >= 2 * FEWEST:
            splits += [Split(device, all_devices, random.permutation(known), new) for known, new in usable]
    return splits

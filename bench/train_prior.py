"""Fit the expected seconds of published training steps, and print `training/steps.toml`.

The steps of a table (column `mode`: train) are fitted by layout: the logarithm of the seconds of a sample is
a polynomial of the logarithms of the amounts, plus an offset for each word of a model's name that several
models share. The loss is absolute and asks for the 0.4 quantile: relative errors weigh a prediction that is
too long more than one that is too short.
"""

import argparse

import numpy as np

from fairlead.evaluate.rows import read, records
from fairlead.evaluate.table import family
from fairlead.training.published import FEATURES, Steps, layout_of, name_words, step_features

_QUANTILE = 0.4
_ROUNDS = 20
_FOLDS = 5
_MARGIN = 1.15
_FEWEST = 3
_RIDGE = 1e-3
_WORD_RIDGE = 1.0
_NEAR = 0.03


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    path = parser.parse_args().data
    rows = [row for row in read(*records(path), path).rows if row.mode == "train" and len(row.amounts) == 3]
    names = sorted({word for row in rows for word in name_words(row.model)})
    offsets: dict[str, dict[str, float]] = {}
    print(_HEAD.format(rows=len(rows), models=len({row.model for row in rows})))
    for layout in ("nchw", "nhwc"):
        own = [row for row in rows if layout_of(f"{row.runtime} {row.precision}") == layout]
        steps = Steps.of([(row.amounts, row.batch, row.size) for row in own])
        amounts = step_features(steps)
        words = [word for word in names if sum(word in name_words(row.model) for row in own) >= _FEWEST]
        flags = np.array([[float(word in name_words(row.model)) for word in words] for row in own])
        logs = np.log([row.seconds for row in own])
        coefficients, extra, _ = fit(amounts, flags, logs)
        left = held_out(amounts, flags, logs, [row.model for row in own])
        spread = _MARGIN * float(np.quantile(left, 0.9)) / 1.2816
        print(f"\n[layout.{layout}]\nspread = {spread:.3f}")
        for name, value in zip(FEATURES, coefficients, strict=True):
            print(f"{name} = {value:.5f}")
        for word, value in zip(words, extra, strict=True):
            offsets.setdefault(word, {})[layout] = value
    print("\n[words]")
    for word, by_layout in sorted(offsets.items()):
        pair = [by_layout.get(layout, 0.0) for layout in ("nchw", "nhwc")]
        if max(map(abs, pair)) >= _NEAR:
            print(f'"{word}" = [{pair[0]:.2f}, {pair[1]:.2f}]')


def fit(
    amounts: np.ndarray, flags: np.ndarray, logs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the coefficients of amounts, the offsets of words, and the errors that are left."""
    centre, scale = amounts.mean(0), amounts.std(0)
    centre[0], scale[0] = 0.0, 1.0
    design = np.hstack([(amounts - centre) / scale, flags])
    count = amounts.shape[1]
    penalty = np.diag(
        np.r_[0.0, np.full(count - 1, _RIDGE * len(logs)), np.full(flags.shape[1], _WORD_RIDGE)]
    )
    weights = np.ones(len(logs))
    for _ in range(_ROUNDS):
        solution = np.linalg.solve((design.T * weights) @ design + penalty, (design.T * weights) @ logs)
        errors = logs - design @ solution
        weights = 0.2 * np.where(errors > 0, _QUANTILE, 1 - _QUANTILE) / np.maximum(np.abs(errors), _NEAR)
    own = solution[:count] / scale
    own[0] -= float(own[1:] @ centre[1:])
    return own, solution[count:], errors


def held_out(amounts: np.ndarray, flags: np.ndarray, logs: np.ndarray, models: list[str]) -> np.ndarray:
    """Return the error of each step, by a fit without its family."""
    families = sorted({family(model) for model in models})
    folds = np.array([families.index(family(model)) % _FOLDS for model in models])
    errors = np.zeros(len(logs))
    for fold in range(_FOLDS):
        part = folds == fold
        own, extra, _ = fit(amounts[~part], flags[~part], logs[~part])
        errors[part] = logs[part] - amounts[part] @ own - flags[part] @ extra
    return errors


_HEAD = """\
# The expected seconds of training steps, by amounts of work: the prior of tables that have nothing else.
#
# Fitted by `bench/train_prior.py` on {rows} published steps of {models} models of timm: an RTX 3090, PyTorch
# 1.12 with CUDA 11.3, automatic mixed precision, eager. The logarithm of the seconds of one sample is a sum
# over the features of `published.py`, and over words of the model's name that tell what amounts do not
# (grouped convolutions in channels-last layout take three times as long). `spread` covers nine of ten steps
# above, of families that the fit had not seen.

device = "RTX 3090"
ops = 142e12"""


if __name__ == "__main__":
    main()

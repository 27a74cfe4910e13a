"""Fit positive times by sums of positive parts: non-negative least squares of the relative error."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FLOOR = 1e-9
"""No prediction is below this share of the least time that was seen."""
_LEAST_SHARE = 1e-4
"""No kind of work is for nothing: it costs this share of what is usual."""
_FOLDS = 12


def fit(design: Array, times: Array, weights: Array | None = None) -> Array:
    """Return non-negative coefficients whose sums come near the times, relative to each time.

    The active-set method of Lawson and Hanson; a handful of columns, so that plain solves will do.
    """
    heavy = np.ones(len(times)) if weights is None else weights
    scaled = design * (heavy / times)[:, None]
    sizes = np.linalg.norm(scaled, axis=0)
    columns = np.where(sizes > 0, scaled / np.where(sizes > 0, sizes, 1), 0)
    gram, goal = columns.T @ columns, columns.T @ heavy
    found = np.zeros(len(goal))
    used = np.zeros(len(goal), dtype=bool)
    for _ in range(3 * len(goal)):
        slope = np.where(used | (sizes == 0), -np.inf, goal - gram @ found)
        best = int(np.argmax(slope))
        if slope[best] <= 1e-9 * len(times):
            break
        used[best] = True
        found, used = _solve_active_set(gram, goal, found, used)
    return found / np.where(sizes > 0, sizes, 1)


def _solve_active_set(
    gram: Array, goal: Array, found: Array, used: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """Solve for the used columns, dropping those that would turn negative."""
    while used.any():
        trial = np.zeros(len(goal))
        block = gram[np.ix_(used, used)] + 1e-10 * np.eye(int(used.sum()))
        trial[used] = np.linalg.solve(block, goal[used])
        if trial[used].min() > 0:
            return trial, used
        wrong = used & (trial <= 0)
        step = np.min(found[wrong] / np.maximum(found[wrong] - trial[wrong], 1e-300))
        found = found + step * (trial - found)
        used = used & (found > 1e-12)
    return np.zeros(len(goal)), used


def log_times(design: Array, coefficients: Array, times: Array) -> Array:
    """Return the logarithms of fitted times, kept positive."""
    floor = _FLOOR * float(times.min()) if len(times) else _FLOOR
    return np.log(np.maximum(design @ coefficients, floor))


def held_out(design: Array, times: Array) -> Array:
    """Return the logarithm of each time as predicted without it: one at a time, or by folds if many."""
    folds = np.arange(len(times)) % _FOLDS if len(times) > 2 * _FOLDS else np.arange(len(times))
    predicted = np.zeros(len(times))
    for fold in range(int(folds.max(initial=-1)) + 1):
        rest, part = folds != fold, folds == fold
        known = rest if rest.any() else part
        predicted[part] = log_times(design[part], fit(design[known], times[known]), times[known])
    return predicted


def fit_near(design: Array, times: Array, usual: Array, strength: float) -> Array:
    """Fit as above, each coefficient drawn toward what is usual: the few runs say most, it says the rest.

    What is usual is first brought to the level of the runs, so that only its proportions count.
    """
    level = float(np.exp(np.median(np.log(times / (design @ usual)))))
    anchors = np.diag(1 / (usual * level))
    weights = np.append(np.ones(len(times)), np.full(len(usual), strength))
    found = fit(np.vstack([design, anchors]), np.append(times, np.ones(len(usual))), weights)
    return np.maximum(found, _LEAST_SHARE * usual * level)

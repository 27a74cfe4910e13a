"""Fit positive times by sums of positive parts: non-negative least squares of the relative error."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FLOOR = 1e-9
"""No prediction is below this share of the least measured time."""
_LEAST_SHARE = 1e-4
"""No kind of work is free: it costs at least this share of its typical cost."""
_FOLDS = 12


def fit(design: Array, times: Array, weights: Array | None = None) -> Array:
    """Return the non-negative coefficients whose sums have the least error relative to each time.

    The active-set method of Lawson and Hanson. There is a handful of columns, so direct solves suffice.
    """
    row_weights = np.ones(len(times)) if weights is None else weights
    scaled = design * (row_weights / times)[:, None]
    sizes = np.linalg.norm(scaled, axis=0)
    columns = np.where(sizes > 0, scaled / np.where(sizes > 0, sizes, 1), 0)
    gram, goal = columns.T @ columns, columns.T @ row_weights
    solution = np.zeros(len(goal))
    used = np.zeros(len(goal), dtype=bool)
    for _ in range(3 * len(goal)):
        slope = np.where(used | (sizes == 0), -np.inf, goal - gram @ solution)
        best = int(np.argmax(slope))
        if slope[best] <= 1e-9 * len(times):
            break
        used[best] = True
        solution, used = _solve_active_set(gram, goal, solution, used)
    return solution / np.where(sizes > 0, sizes, 1)


def _solve_active_set(
    gram: Array, goal: Array, solution: Array, used: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """Solve for the active columns, and drop those whose coefficient turns negative."""
    while used.any():
        trial = np.zeros(len(goal))
        block = gram[np.ix_(used, used)] + 1e-10 * np.eye(int(used.sum()))
        trial[used] = np.linalg.solve(block, goal[used])
        if trial[used].min() > 0:
            return trial, used
        wrong = used & (trial <= 0)
        step = np.min(solution[wrong] / np.maximum(solution[wrong] - trial[wrong], 1e-300))
        solution = solution + step * (trial - solution)
        used = used & (solution > 1e-12)
    return np.zeros(len(goal)), used


def log_times(design: Array, coefficients: Array, times: Array) -> Array:
    """Return the logarithms of fitted times; a floor keeps the times positive."""
    floor = _FLOOR * float(times.min()) if len(times) else _FLOOR
    return np.log(np.maximum(design @ coefficients, floor))


def held_out(design: Array, times: Array) -> Array:
    """Return the logarithm of each time, predicted by a fit without it: one by one, or in folds if many."""
    folds = np.arange(len(times)) % _FOLDS if len(times) > 2 * _FOLDS else np.arange(len(times))
    predicted = np.zeros(len(times))
    for fold in range(int(folds.max(initial=-1)) + 1):
        rest, part = folds != fold, folds == fold
        known = rest if rest.any() else part
        predicted[part] = log_times(design[part], fit(design[known], times[known]), times[known])
    return predicted


def fit_near(design: Array, times: Array, typical: Array, strength: float) -> Array:
    """Fit as `fit` does, with each coefficient drawn toward a typical one.

    The runs decide most, the typical coefficients what the runs leave open. These are first scaled to the
    level of the runs, so that only their proportions count.
    """
    level = float(np.exp(np.median(np.log(times / (design @ typical)))))
    anchors = np.diag(1 / (typical * level))
    weights = np.append(np.ones(len(times)), np.full(len(typical), strength))
    fitted = fit(np.vstack([design, anchors]), np.append(times, np.ones(len(typical))), weights)
    return np.maximum(fitted, _LEAST_SHARE * typical * level)

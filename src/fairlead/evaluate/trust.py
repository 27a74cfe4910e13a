"""Whether predictions know how wrong they may be: what lies below their p90, and the errors of each class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.estimate.similar.traits import Array
from fairlead.evaluate.result import MethodPredictions
from fairlead.evaluate.score import judge
from fairlead.prediction import CONFIDENCES, Z90, confidence


@dataclass(frozen=True, slots=True)
class Trust:
    """Predictions of one class of confidence, or of all classes."""

    rows: int
    below: float
    """Percent of measured values below the predicted p90: 90 would be right."""
    mape: float

    def __str__(self) -> str:
        return f"{self.rows} off by {self.mape:.1f} %, {self.below:.0f} % below p90"


def trust_by_class(measured: Array, answers: Sequence[MethodPredictions]) -> dict[str, Trust]:
    """Return by class, the surest first, how predictions did, after `all`; without empty classes."""
    told = [answer for answer in answers if answer.spread is not None and len(answer.columns)]
    if not told:
        return {}
    truth = np.concatenate([measured[answer.device, answer.columns] for answer in told])
    logs = np.concatenate([answer.predicted for answer in told])
    spread = np.concatenate([answer.spread for answer in told if answer.spread is not None])
    classes = np.array([confidence(float(each)) for each in spread])
    parts = {"all": np.ones(len(logs), dtype=bool)} | {name: classes == name for name in CONFIDENCES}
    return {name: _trust(truth[part], logs[part], spread[part]) for name, part in parts.items() if part.any()}


def summary(found: dict[str, Trust]) -> str:
    """Say it in a line; nothing where nothing is known."""
    if not found:
        return ""
    errors = ", ".join(f"{name} {trust.mape:.1f} %" for name, trust in found.items() if name != "all")
    return f"{found['all'].below:.0f} % below their p90; errors by confidence: {errors}"


def _trust(truth: Array, logs: Array, spread: Array) -> Trust:
    below = float(100 * (truth <= logs + Z90 * spread).mean())
    return Trust(len(truth), below, judge(logs, truth).mape or 0.0)

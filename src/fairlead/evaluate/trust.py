"""Whether confidence is reliable: the share of values below the predicted p90, and errors of each class."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fairlead.estimate.similar.traits import Array
from fairlead.evaluate.methods import MethodPredictions
from fairlead.evaluate.score import judge
from fairlead.prediction import CONFIDENCES, Z90, confidence


@dataclass(frozen=True, slots=True)
class Trust:
    """Predictions of one class of confidence, or of all classes."""

    rows: int
    below: float
    """Percent of measured values below the predicted p90: 90 is ideal."""
    mape: float
    worst: float
    """The factor of the largest error."""

    def to_json(self) -> dict[str, float]:
        """Return the fields of the contract."""
        return {name: round(value, 4) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        return f"{self.rows} off by {self.mape:.1f} %, {self.below:.0f} % below p90"


def trust_by_class(measured: Array, answers: Sequence[MethodPredictions]) -> dict[str, Trust]:
    """Return the trust of `all` predictions, then by class, the highest first; empty classes are left out."""
    with_spread = [answer for answer in answers if answer.spread is not None and len(answer.columns)]
    if not with_spread:
        return {}
    truth = np.concatenate([measured[answer.device, answer.columns] for answer in with_spread])
    logs = np.concatenate([answer.predicted for answer in with_spread])
    spread = np.concatenate([answer.spread for answer in with_spread if answer.spread is not None])
    classes = np.array([confidence(float(value)) for value in spread])
    parts = {"all": np.ones(len(logs), dtype=bool)} | {name: classes == name for name in CONFIDENCES}
    return {name: _trust(truth[part], logs[part], spread[part]) for name, part in parts.items() if part.any()}


def summary(by_class: dict[str, Trust]) -> str:
    """Return the trust as one line; empty where nothing is known."""
    if not by_class:
        return ""
    errors = ", ".join(f"{name} {trust.mape:.1f} %" for name, trust in by_class.items() if name != "all")
    return f"{by_class['all'].below:.0f} % below their p90; errors by confidence: {errors}"


def _trust(truth: Array, logs: Array, spread: Array) -> Trust:
    below = float(100 * (truth <= logs + Z90 * spread).mean())
    worst = float(np.exp(np.abs(truth - logs).max()))
    return Trust(len(truth), below, judge(logs, truth).mape or 0.0, worst)

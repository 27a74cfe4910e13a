"""Whether the confidence of predictions is true."""

import numpy as np
import pytest

from fairlead.evaluate.methods import MethodPredictions
from fairlead.evaluate.trust import Trust, summary, trust_by_class

RANDOM = np.random.default_rng(0)
ERRORS = RANDOM.normal(0, 1, 4000)


def predictions(expected: float) -> list[MethodPredictions]:
    """Return predictions of zero that expect this spread."""
    logs = np.zeros(len(ERRORS))
    return [MethodPredictions(0, np.arange(len(logs)), logs, np.full(len(logs), expected))]


@pytest.mark.parametrize(
    ("spread", "expected", "low", "high"),
    [(0.1, 0.1, 88.5, 91.5), (0.1, 0.05, 70, 78), (0.1, 0.3, 99, 100)],
)
def test_nine_of_ten_values_are_below_a_true_p90(
    spread: float, expected: float, low: float, high: float
) -> None:
    measured = (ERRORS * spread)[None]
    assert low <= trust_by_class(measured, predictions(expected))["all"].below <= high


def test_each_class_has_its_own_errors() -> None:
    spread = np.where(np.arange(len(ERRORS)) % 2, 0.05, 0.5)
    measured = (ERRORS * spread)[None]
    by_class = trust_by_class(
        measured, [MethodPredictions(0, np.arange(len(ERRORS)), np.zeros(len(ERRORS)), spread)]
    )
    assert list(by_class) == ["all", "high", "low"]
    assert by_class["high"].mape < 0.2 * by_class["low"].mape
    assert by_class["high"].rows + by_class["low"].rows == by_class["all"].rows == len(ERRORS)


def test_a_method_without_spread_has_no_trust() -> None:
    assert trust_by_class(np.zeros((1, 3)), [MethodPredictions(0, np.arange(3), np.zeros(3))]) == {}
    assert summary({}) == ""


def test_trust_has_a_summary_line() -> None:
    by_class = {"all": Trust(10, 91.2, 7.0, 2.0), "high": Trust(10, 91.2, 7.04, 2.0)}
    assert summary(by_class) == "91 % below their p90; errors by confidence: high 7.0 %"
    assert str(by_class["all"]) == "10 off by 7.0 %, 91 % below p90"

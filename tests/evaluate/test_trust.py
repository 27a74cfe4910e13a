"""Predictions that say how wrong they may be, held to it."""

import numpy as np
import pytest

from fairlead.evaluate.result import MethodPredictions
from fairlead.evaluate.trust import Trust, summary, trust_by_class

RANDOM = np.random.default_rng(0)
ERRORS = RANDOM.normal(0, 1, 4000)


def answers(spread: float, believed: float) -> list[MethodPredictions]:
    """Return predictions that are off by one spread and believe another."""
    said = np.zeros(len(ERRORS))
    return [MethodPredictions(0, np.arange(len(said)), said, np.full(len(said), believed))]


@pytest.mark.parametrize(
    ("spread", "believed", "low", "high"),
    [(0.1, 0.1, 88.5, 91.5), (0.1, 0.05, 70, 78), (0.1, 0.3, 99, 100)],
)
def test_nine_of_ten_are_below_a_p90_that_is_true(
    spread: float, believed: float, low: float, high: float
) -> None:
    measured = (ERRORS * spread)[None]
    assert low <= trust_by_class(measured, answers(spread, believed))["all"].below <= high


def test_each_class_has_its_own_errors() -> None:
    spread = np.where(np.arange(len(ERRORS)) % 2, 0.05, 0.5)
    measured = (ERRORS * spread)[None]
    found = trust_by_class(
        measured, [MethodPredictions(0, np.arange(len(ERRORS)), np.zeros(len(ERRORS)), spread)]
    )
    assert list(found) == ["all", "high", "low"]
    assert found["high"].mape < 0.2 * found["low"].mape
    assert found["high"].rows + found["low"].rows == found["all"].rows == len(ERRORS)


def test_a_method_without_an_opinion_is_not_asked_for_one() -> None:
    assert trust_by_class(np.zeros((1, 3)), [MethodPredictions(0, np.arange(3), np.zeros(3))]) == {}
    assert summary({}) == ""


def test_a_line_says_it() -> None:
    found = {"all": Trust(10, 91.2, 7.0), "high": Trust(10, 91.2, 7.04)}
    assert summary(found) == "91 % below their p90; errors by confidence: high 7.0 %"
    assert str(found["all"]) == "10 off by 7.0 %, 91 % below p90"

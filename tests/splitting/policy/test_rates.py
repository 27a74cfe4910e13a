"""The rate of a side: a prediction at first, then what was measured."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.prediction import Estimate
from fairlead.splitting.policy.rates import (
    RateBasis,
    SideRate,
    measured_rate,
    predicted_rate,
    unknown_rate,
)
from fairlead.units import Seconds

PREDICTED = Estimate("coral-usb", "net", batch=4, seconds=Seconds(0.02), p90=Seconds(0.03))


def test_an_estimate_is_a_rate_with_its_spread() -> None:
    rate = predicted_rate(PREDICTED, workers=2)
    assert rate.per_s == pytest.approx(400)
    assert rate.spread == pytest.approx(math.log(1.5) / 1.2816)
    assert rate.basis is RateBasis.PREDICTED


@pytest.mark.parametrize(
    "estimate",
    [
        Estimate("a", "net", runs=False, seconds=Seconds(1.0)),
        Estimate("a", "net", fits=False, seconds=Seconds(1.0)),
        Estimate("a", "net"),
    ],
    ids=["does not run", "does not fit", "no latency"],
)
def test_a_model_that_does_not_run_has_no_rate(estimate: Estimate) -> None:
    assert predicted_rate(estimate) == unknown_rate()


def test_measured_completions_outweigh_a_prediction_one_by_one() -> None:
    prior = SideRate(100.0, 0.35, RateBasis.PREDICTED)
    rates = [measured_rate(prior, 50.0, count) for count in (0, 1, 3, 10, 100)]
    values = [each.per_s for each in rates if each.per_s is not None]
    assert values == sorted(values, reverse=True)
    assert rates[0] == prior
    assert 60 < values[1] < 90
    assert values[-1] == 50
    assert [each.basis for each in rates[::4]] == [RateBasis.PREDICTED, RateBasis.MEASURED]
    assert rates[1].basis is RateBasis.BOTH


def test_without_a_prediction_the_first_completion_counts() -> None:
    assert measured_rate(unknown_rate(), 7.0, 1).per_s == 7.0
    assert measured_rate(unknown_rate(), None, 0) == unknown_rate()


@given(st.floats(0.01, 1e4), st.floats(0.01, 2), st.floats(0.01, 1e4), st.integers(1, 10_000))
def test_a_rate_is_between_what_was_predicted_and_what_was_measured(
    prior: float, spread: float, measured: float, count: int
) -> None:
    rate = measured_rate(SideRate(prior, spread, RateBasis.PREDICTED), measured, count)
    assert rate.per_s is not None
    low, high = sorted((prior, measured))
    assert low * (1 - 1e-9) <= rate.per_s <= high * (1 + 1e-9)
    assert rate.spread <= spread

"""Predictions corrected by observed latencies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.calibration import Latency
from fairlead.estimate.observed_latency import correct
from fairlead.units import Seconds

SECONDS = st.floats(1e-6, 1e3)


def observed(median: float, count: int, p90: float | None = None) -> Latency:
    return Latency(Seconds(median), Seconds(p90 or median), count)


def test_without_latencies_nothing_changes() -> None:
    assert correct(0.01, 0.02, observed(0.5, 0)) == (0.01, 0.02)


def test_one_latency_counts_in_part_and_many_count_wholly() -> None:
    one, _ = correct(0.01, 0.02, observed(0.04, 1))
    many, high = correct(0.01, 0.02, observed(0.04, 500))
    assert 0.01 < one < 0.04
    assert many == pytest.approx(0.04, rel=0.02)
    assert high == pytest.approx(0.04, rel=0.02)


def test_the_ninth_decile_is_that_of_the_latencies() -> None:
    _, high = correct(0.01, 0.011, observed(0.01, 100, 0.05))
    assert high > 0.04


@given(SECONDS, st.floats(1, 10), SECONDS, st.floats(1, 10), st.integers(0, 10_000))
def test_the_mean_lies_between_prediction_and_latencies(
    mean: float, wide: float, median: float, wider: float, count: int
) -> None:
    corrected, high = correct(mean, mean * wide, observed(median, count, median * wider))
    assert min(mean, median) * 0.999 <= corrected <= max(mean, median) * 1.001
    assert high >= corrected

"""Sizes and risks computed by hand, and each reason for no advice."""

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.rightsize.recommend import MIB, SampleRules, SizeAdvice, Verdict, format_age, recommend
from fairlead.rightsize.tail import DAY, UseTail
from fairlead.series import Series
from fairlead.units import Bytes

GIB = 1 << 30
HOUR = 3600.0


def mib(number: float) -> Bytes:
    return Bytes(int(number * MIB))


def day(*values: float, end: float = DAY) -> Series:
    """Return a day of values in MiB, at equal distances."""
    step = DAY / (len(values) - 1)
    return Series(
        tuple(end - DAY + at * step for at in range(len(values))),
        tuple(value * MIB for value in values),
        "csv",
    )


def flat(size: float, samples: int = 201, end: float = DAY) -> Series:
    return day(*[size] * samples, end=end)


def advise(
    requested: float, *series: Series, bound: float = 0.01, now: float = DAY, **rules: int
) -> SizeAdvice:
    return recommend(mib(requested), series, bound, now, SampleRules(**rules))  # type: ignore[arg-type]


def test_a_day_of_one_pod_gives_an_even_chance_at_the_peak() -> None:
    tail = UseTail.of([flat(1000)])
    assert (tail.peak, tail.scale) == (1000 * MIB, 100 * MIB)
    assert tail.risk(1000 * MIB) == 0.5
    assert tail.risk(1100 * MIB) == pytest.approx(0.5 / exp(1))
    assert tail.risk(999 * MIB) == 1.0, "the only pod was above it"


@pytest.mark.parametrize(("pods", "risk"), [(1, 1 / 2), (3, 1 / 4), (6, 1 / 7)])
def test_more_pods_lower_the_risk_at_the_peak(pods: int, risk: float) -> None:
    assert UseTail.of([flat(1000)] * pods).risk(1000 * MIB) == pytest.approx(risk)


def test_the_scale_is_the_distance_of_the_peak_from_the_median_block() -> None:
    # Blocks of two samples, peaks 4 4 4 6 8 8 8 10: the median is 7, the peak 10.
    values = [4, 1, 4, 1, 4, 1, 6, 1, 8, 1, 8, 1, 8, 1, 10, 1]
    assert UseTail.of([day(*values)]).scale == 3 * MIB


def test_of_several_pods_those_above_a_size_count() -> None:
    tail = UseTail.of([flat(1000), flat(2000), flat(2000)])
    assert tail.risk(1500 * MIB) == 3 / 4
    assert tail.peak == 2000 * MIB
    assert tail.scale == 200 * MIB


def test_a_request_far_above_the_use_is_lowered() -> None:
    advice = advise(4000, flat(1000))
    # 1000 + 100 * ln(0.5 / 0.01) = 1391.2
    assert (advice.size, advice.verdict) == (mib(1392), Verdict.OVER)
    assert advice.risk is not None
    assert 0.0099 < advice.risk < 0.01
    assert advice.reason == "peak 1000 MiB in 24 h of 1 series with 201 samples"


@pytest.mark.parametrize(
    ("requested", "verdict", "size", "words"),
    [
        (1548, Verdict.OVER, 1392, "24 h"),
        (1546, Verdict.RIGHT, 1546, "a smaller size would save less than 10%"),
        (1392, Verdict.RIGHT, 1392, "a smaller size would save less than 10%"),
        (1100, Verdict.RIGHT, 1100, "at most 0.01 would take 1.4 GiB"),
        (1000, Verdict.RIGHT, 1000, "at most 0.01 would take 1.4 GiB"),
        (999, Verdict.UNDER, 1392, "above the request"),
    ],
)
def test_a_request_is_changed_only_for_a_reason(
    requested: float, verdict: Verdict, size: float, words: str
) -> None:
    advice = advise(requested, flat(1000))
    assert (advice.verdict, advice.size) == (verdict, mib(size))
    assert words in advice.reason


def test_the_risk_of_a_right_request_is_its_own() -> None:
    assert advise(1100, flat(1000)).risk == pytest.approx(0.5 / exp(1))


def test_a_failed_allocation_raises_a_request_that_was_never_exceeded() -> None:
    advice = advise(2000, flat(1000), crashes=2)
    assert (advice.verdict, advice.size) == (Verdict.UNDER, mib(2500))
    assert "2 restarts by a failed allocation" in advice.reason


def test_a_size_is_a_multiple_of_the_unit_of_the_request() -> None:
    assert advise(4096, flat(1000), step=GIB).size == 2 * GIB
    assert advise(2048, flat(1000), step=GIB).verdict is Verdict.RIGHT, "2 GiB is the next size up"


def test_no_size_is_larger_than_the_accelerator() -> None:
    advice = advise(900, flat(1000), capacity=mib(1200))
    assert (advice.size, advice.risk, advice.verdict) == (mib(1200), 0.0, Verdict.UNDER)


@pytest.mark.parametrize(
    ("series", "now", "reason"),
    [
        ((), DAY, "no series"),
        ((Series(),), DAY, "no series"),
        ((flat(1000),), DAY + 3 * HOUR, "stale: the last value is 3 h old"),
        ((flat(1000, 99),), DAY, "too few samples: 99 instead of 100"),
        ((flat(0),), DAY, "no memory was used: check that the pods do their work"),
    ],
)
def test_without_good_samples_there_is_no_advice(series: tuple[Series, ...], now: float, reason: str) -> None:
    advice = advise(1000, *series, now=now)
    assert advice == SizeAdvice(None, None, Verdict.UNKNOWN, reason)


def test_one_current_pod_makes_the_series_of_ended_pods_usable() -> None:
    advice = advise(9000, flat(2000), flat(1000, end=3 * DAY), now=3 * DAY)
    assert advice.size == mib(3754)  # 2000 + 500 * ln(1 / 3 / 0.01): half of the blocks reach 1000
    assert advice.verdict is Verdict.OVER


@given(
    st.lists(st.integers(1, 10**6), min_size=100, max_size=140),
    st.sampled_from([0.3, 0.1, 0.01, 0.001]),
    st.integers(1, 10**7),
)
def test_a_changed_size_covers_the_peak_within_the_bound(
    values: list[int], bound: float, requested: int
) -> None:
    series = day(*values)
    advice = recommend(mib(requested), [series], bound, DAY)
    assert advice.size is not None
    assert advice.risk is not None
    if advice.verdict is Verdict.RIGHT:
        assert advice.size == mib(requested)
    else:
        assert advice.size >= max(series.values)
        assert advice.risk <= bound * (1 + 1e-9)
        assert (advice.size < mib(requested)) is (advice.verdict is Verdict.OVER)


def test_a_smaller_bound_never_gives_a_smaller_size() -> None:
    tail = UseTail.of([day(*range(1, 202))])
    sizes = [tail.size(bound) for bound in (0.9, 0.5, 0.1, 0.01, 0.001)]
    assert sizes == sorted(sizes)
    assert sizes[:2] == [tail.peak, tail.peak]
    assert sizes[2] == pytest.approx(tail.peak + tail.scale * log(5))


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (1800, "30 min"), (43200, "12 h"), (86400, "24 h"), (604800, "7 d")]
)
def test_periods_for_people(seconds: float, text: str) -> None:
    assert format_age(seconds) == text

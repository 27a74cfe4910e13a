"""The published rules on series whose figures are computed by hand, in the comments."""

import pytest

from fairlead.series import Series
from fairlead.sizing import published
from fairlead.sizing.published import MeasuredFree, correlates, measured_free
from fairlead.units import Bytes

TOTAL = Bytes(1000)


def every_second(*values: float, start: float = 0.0) -> Series:
    return Series(tuple(start + at for at in range(len(values))), values, "test")


def answer(policy: str, used: Series, placed_at: float = 0.0, total: Bytes = TOTAL) -> MeasuredFree:
    return measured_free(policy, total, used, placed_at, used.times[-1])


# Statistics


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((2, 4, 4, 4, 5, 5, 7, 9), 0.4),  # mean 40/8 = 5; squares 9+1+1+1+0+0+4+16 = 32; sqrt(32/8)/5 = 2/5
        ((1, 3), 0.5),  # mean 2; sqrt((1+1)/2) = 1; 1/2
        ((7, 7, 7), 0.0),
        ((), None),
        ((0, 0), None),
        ((-3, -5), None),  # more used than there is
    ],
)
def test_coefficient_of_variation(values: tuple[float, ...], expected: float | None) -> None:
    assert published.coefficient_of_variation(values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (tuple(range(1, 21)), 17),  # index floor(20 * 0.8) = 16 of 0..19: the 17th
        (tuple(range(20, 0, -1)), 17),
        ((5, 1, 4, 2, 3), 5),  # index floor(5 * 0.8) = 4: the largest
        ((1, 2, 3, 4), 4),  # index floor(3.2) = 3
        ((9,), 9),  # index 0
    ],
)
def test_the_80th_percentile_is_a_sample(values: tuple[float, ...], expected: float) -> None:
    assert published.percentile(values, 0.8) == expected


def test_a_percentile_beyond_the_end_is_the_largest() -> None:
    assert published.percentile((1, 2, 3), 1.0) == 3  # index 3 of 0..2


def test_equal_values_share_their_ranks() -> None:
    assert published.ranks_of((10, 30, 20, 30)) == [1.0, 3.5, 2.0, 3.5]  # ranks 3 and 4 are shared
    assert published.ranks_of((5, 5, 5)) == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("left", "right", "rho"),
    [
        ((1, 2, 3, 4), (10, 20, 30, 40), 1.0),
        ((1, 2, 3, 4), (4, 3, 2, 1), -1.0),  # d^2: 9+1+1+9 = 20; 1 - 120/60
        ((1, 2, 3, 4, 5), (2, 1, 4, 3, 5), 0.8),  # d^2: 1+1+1+1+0 = 4; 1 - 24/120
        ((1, 2, 2, 3), (1, 2, 3, 4), 0.95),  # ranks 1 2.5 2.5 4: d^2 = 0.25+0.25 = 0.5; 1 - 3/60
        ((7, 7, 7, 7), (1, 2, 3, 4), 0.5),  # ranks 2.5: d^2 = 2.25+0.25+0.25+2.25 = 5; 1 - 30/60
        ((7, 7), (8, 8), 1.0),
        ((1,), (1,), None),
    ],
)
def test_spearman(left: tuple[float, ...], right: tuple[float, ...], rho: float | None) -> None:
    assert published.spearman(left, right) == pytest.approx(rho)


def test_autocorrelation() -> None:
    # Mean 3; deviations -2 -1 0 1 2; squares 10. Lag 1: 2+0+0+2 = 4. Lag 2: 0-1+0 = -1. Lag 4: -4.
    assert published.autocorrelation((1, 2, 3, 4, 5), 1) == pytest.approx(0.4)
    assert published.autocorrelation((1, 2, 3, 4, 5), 2) == pytest.approx(-0.1)
    assert published.autocorrelation((1, 2, 3, 4, 5), 4) == pytest.approx(-0.4)
    assert published.autocorrelation((1, 2, 3, 4, 5), 5) == 0
    assert published.autocorrelation((0.1,) * 30, 1) is None
    assert published.autocorrelation((), 1) is None


def test_autoregression_and_its_forecast() -> None:
    # 8 = 2 + 2 * 3, 18 = 2 + 2 * 8, 38 = 2 + 2 * 18: mu 2, phi 2; then 2 + 2 * 38 = 78, and 158.
    values = (3, 8, 18, 38)
    assert published.autoregression(values, 1) == pytest.approx((2, 2))
    assert published.forecast(values, 1, 1) == pytest.approx(78)
    assert published.forecast(values, 1, 2) == pytest.approx(158)
    # Pairs (1, 3), (2, 5) at lag 2: phi 2, mu 1; two after the last: 1 + 2 * 5 = 11.
    assert published.forecast((1, 2, 3, 5), 2, 1) == pytest.approx(11)
    # Three pairs that no line meets: (1, 1), (2, 3), (3, 2). Means 2 and 2; phi = (1 + 0 + 0) / 2; mu 1.
    assert published.autoregression((1, 2, 3, 1, 3, 2), 3) == pytest.approx((1, 0.5))
    assert published.autoregression((4, 4, 4, 9), 1) is None  # all first values are equal
    assert published.autoregression((1, 2), 2) is None
    assert published.forecast((1, 2), 2, 1) is None


# The rules of Ferikoglou et al.


def test_cbp_grants_all_but_the_80th_percentile() -> None:
    used = every_second(*([600] * 16), *([700] * 4))  # index 16 of 20: 700
    assert answer("cbp", used).memory == 300
    used = every_second(*([600] * 17), *([700] * 3))
    assert answer("cbp", used).memory == 400


def test_cbp_needs_steady_free_memory() -> None:
    # Free is 1 half of the time and 3 the other half: 0.5, not below. With 1 and 2.99: 0.995/1.995 = 0.4987.
    unsteady = every_second(*([999, 997] * 10))
    assert answer("cbp", unsteady).memory is None
    assert "0.5, not below 0.5" in answer("cbp", unsteady).reason
    assert answer("cbp", every_second(*([999, 997.01] * 10))).memory == 1
    assert answer("cbp", every_second(*([1000] * 20))).reason == "no memory was free"


@pytest.mark.parametrize("policy", ["cbp", "pp", "cbp+pp"])
def test_the_authors_need_twenty_samples(policy: str) -> None:
    used = every_second(*range(500, 519))
    assert answer(policy, used, placed_at=used.times[0]) == MeasuredFree(
        None, {"cbp": "cbp", "pp": "pp"}.get(policy, "cbp+pp"), "19 samples, at least 20 needed"
    )
    assert answer("cbp", every_second(*range(500, 520))).memory is not None


def test_the_window_starts_at_the_last_placement_and_at_least_twenty_seconds_ago() -> None:
    used = every_second(*([900] * 60), *([100] * 40))  # times 0 to 99; 100 from second 60 on
    assert answer("cbp", used, placed_at=60).memory == 900  # 40 samples of 100
    assert answer("cbp", used, placed_at=95).memory == 900  # 21 samples, from second 79 on
    assert answer("cbp", used, placed_at=0).memory is None  # free 100 and 900: deviation 392, mean 420
    assert published.authors_window(used, 95, 99).times[0] == 79
    assert published.authors_window(used, 60, 99).times[0] == 60


def test_pp_follows_a_trend() -> None:
    # Used memory falls by 10 a second, so free memory is linear: r_10 of 0, 1, ... n-1 decides.
    # n = 44: squares n(n^2-1)/12 = 7095; sum of (i-21.5)(i-11.5) for i < 34 is 2422.5: 0.3414.
    # n = 45: squares 7590; sum of (i-22)(i-12) for i < 35 is 2695: 0.3551.
    short, longer = every_second(*range(940, 500, -10)), every_second(*range(950, 500, -10))
    assert (len(short), len(longer)) == (44, 45)
    assert answer("pp", short).memory is None
    assert answer("pp", short).reason == "no trend: autocorrelation 0.341, not above 0.35"
    # Y_{t+10} = Y_t + 100, and the last free memory is 490.
    assert answer("pp", longer) == MeasuredFree(
        Bytes(590), "pp", "forecast with autocorrelation 0.355, above 0.35"
    )


def test_pp_does_not_follow_a_constant() -> None:
    assert answer("pp", every_second(*([600] * 30))).reason == "free memory is constant: there is no trend"


def test_a_negative_forecast_grants_nothing_to_place() -> None:
    rising = every_second(*range(510, 1010, 10))  # used up to 1000: free 0, forecast -100
    assert answer("pp", rising).memory == 0


def test_cbp_and_pp_together_grant_the_larger() -> None:
    falling = every_second(*range(740, 490, -5))  # 50 samples: used 740 to 495, free 260 to 505
    # CBP: index 40 of the sorted used memory: 495 + 5 * 40 = 695; 1000 - 695 = 305. PP: 505 + 50 = 555.
    assert answer("cbp", falling).memory == 305
    assert answer("pp", falling).memory == 555
    assert answer("cbp+pp", falling) == answer("pp", falling)
    steady = every_second(*([600] * 30))
    assert answer("cbp+pp", steady) == answer("cbp", steady)
    # Free 1, then 3: coefficient of variation 1/2; lag 10 pairs each 1 with a 3: r_10 = -10/20.
    neither = answer("cbp+pp", every_second(*([999] * 10), *([997] * 10)))
    assert neither.memory is None
    assert "unsteady" in neither.reason
    assert "autocorrelation -0.5" in neither.reason


def test_res_ag_goes_by_requests() -> None:
    assert answer("res-ag", every_second(*([0] * 60))) == MeasuredFree(
        None, "res-ag", "res-ag goes by requests"
    )


@pytest.mark.parametrize("policy", sorted(published.RULES))
def test_stale_and_missing_series_grant_nothing(policy: str) -> None:
    used = every_second(*([100] * 30))
    last = used.times[-1]
    assert measured_free(policy, TOTAL, used, 0, last + 61).memory is None
    assert "61 s old" in measured_free(policy, TOTAL, used, 0, last + 61).reason
    assert measured_free(policy, TOTAL, Series(), 0, 0).reason == "there is no measurement of its memory"


def test_old_samples_count_until_they_are_stale() -> None:
    used = every_second(*([100] * 30))
    assert measured_free("cbp", TOTAL, used, 0, used.times[-1] + 60).memory == 900


# The rules of Kube-Knots


def test_knots_harvests_the_last_five_seconds() -> None:
    used = every_second(900, 900, 900, 100, 100, 200, 100, 300)  # now 7: samples at 2 to 7
    # Sorted 100 100 100 200 300 900: index floor(6 * 0.8) = 4: 300.
    assert answer("cbp-knots", used) == MeasuredFree(Bytes(700), "cbp-knots", "6 samples of the last 5 s")


def test_knots_has_no_room_for_rare_samples() -> None:
    used = Series((0.0,), (100.0,))
    assert measured_free("cbp-knots", TOTAL, used, 0, 6).reason == "0 samples, at least 1 needed"


@pytest.mark.parametrize(
    ("pod", "node", "together"),
    [
        ((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), True),
        ((1, 2, 3, 4, 5), (5, 4, 3, 2, 1), False),
        ((1, 2, 3, 4, 5), (1, 5, 2, 3, 4), False),  # d^2: 0+9+1+1+1 = 12; 1 - 72/120 = 0.4
        ((1, 2, 3, 4, 5), (1, 2, 5, 3, 4), True),  # d^2: 0+0+4+1+1 = 6; 0.7
        ((1, 2, 3, 4, 5), (1, 4, 2, 5, 3), True),  # d^2: 0+4+1+1+4 = 10; exactly 0.5
        ((0, 0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5), True),  # the last five are paired
        ((7, 7, 7), (1, 2, 3), True),  # exactly 0.5
        ((1,), (1, 2, 3), False),
    ],
)
def test_correlates(pod: tuple[float, ...], node: tuple[float, ...], together: bool) -> None:
    assert correlates(every_second(*pod), every_second(*node, start=100)) is together


def test_knots_forecasts_one_second_ahead() -> None:
    # Twice a second, free memory 500 510 520 530 540: deviations -20..20, r_1 = (2+0+0+2)/10 = 0.4 > 0.
    times = (0.0, 0.5, 1.0, 1.5, 2.0)
    used = Series(times, (500, 490, 480, 470, 460))
    assert published.knots_forecast_free(TOTAL, used, 2.0).memory == 560  # two samples of +10
    # Free 500 520 500 520 500: mean 508, deviations -8 12 -8 12 -8; lag 1: -384, so r_1 < 0.
    zigzag = Series(times, (500, 480, 500, 480, 500))
    assert published.knots_forecast_free(TOTAL, zigzag, 2.0).memory is None
    assert published.knots_forecast_free(TOTAL, Series(times[:2], (1, 2)), 2.0).memory is None


def test_knots_takes_a_correlated_accelerator_only_by_forecast() -> None:
    rising, falling = every_second(100, 200, 300, 400), every_second(400, 300, 200, 100)
    may = {"memory": falling}
    assert published.knots_refusal(may, {"memory": rising}, TOTAL, Bytes(900), 3) == ""
    # Used memory falls by 100 a second: free is 900, and 1000 in a second.
    node = {"memory": falling, "busy": rising}
    assert published.knots_refusal(may, node, TOTAL, Bytes(1000), 3) == ""
    assert "memory of the accelerator and of the pod correlate" in published.knots_refusal(
        may, node, TOTAL, Bytes(1001), 3
    )
    assert published.knots_refusal({"bandwidth": rising}, node, TOTAL, Bytes(1001), 3) == ""

"""The published GPU-sharing experiment in the simulator: its figures, its arrivals, and fairlead-safe."""

from itertools import pairwise

import pytest

from fairlead.reproduce.compare import CLAIMS, band, compared, gains, worse_than_published_policy
from fairlead.reproduce.engines import MIX, WORKLOADS, arrivals, kinds_in_order, solo_times
from fairlead.reproduce.frontier import frontier
from fairlead.reproduce.gpu_sharing import Experiment, play_level, play_levels, requested
from fairlead.reproduce.published import CBP_PP, LEVELS, PUBLISHED, SAFE, SCHEDULERS, SEED
from fairlead.units import Bytes

MIB = 1 << 20
UNSEEN = 7001
Levels = dict[str, dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def levels() -> Levels:
    """Return two levels of the published arrivals, and of others."""
    return {
        f"{seed}/{level}": {
            name: play_level(Experiment(arrival_seed=seed), level, name) for name in SCHEDULERS
        }
        for seed, level in ((SEED, 0), (SEED, 100), (UNSEEN, 250))
    }


def test_the_authors_arrivals_are_drawn_again() -> None:
    """Their log has the seventh pod 200.8 s after the first."""
    times = arrivals(SEED, 30)
    assert times[6] == pytest.approx(200.8)
    assert all(20 <= later - first <= 40.3 for first, later in pairwise(times))


@pytest.mark.parametrize("level", [0, 100])
@pytest.mark.parametrize("figure", ["mean_pending_s", "makespan_s", "memory_mean_mib", "utilisation_percent"])
@pytest.mark.parametrize("scheduler", ["stock", "alibaba"])
def test_the_baselines_are_within_15_percent(levels: Levels, scheduler: str, figure: str, level: int) -> None:
    published = getattr(PUBLISHED[level][scheduler], figure)
    assert levels[f"{SEED}/{level}"][scheduler][figure] == pytest.approx(published, rel=0.15)


def test_cbp_pp_shows_its_utilisation_its_peak_and_its_restarts(levels: Levels) -> None:
    figures = levels[f"{SEED}/100"][CBP_PP]
    published = PUBLISHED[100][CBP_PP]
    assert figures["utilisation_percent"] == pytest.approx(published.utilisation_percent, rel=0.15)
    assert figures["memory_max_mib"] == pytest.approx(published.memory_max_mib, rel=0.02)
    assert published.restarts / 2 <= figures["restarts"] <= published.restarts * 2


def test_fairlead_safe_never_restarts_and_is_no_worse(levels: Levels) -> None:
    for figures in levels.values():
        assert figures[SAFE]["restarts"] == 0
        assert worse_than_published_policy(figures) == []
    for figure, factors in gains(levels.values()).items():
        assert factors[0] >= CLAIMS[figure][0]
        assert factors[1] >= CLAIMS[figure][1]


def test_without_a_profile_it_is_safe_and_slower() -> None:
    known = play_level(Experiment(arrival_seed=UNSEEN), 50, SAFE)
    learned = play_level(Experiment(arrival_seed=UNSEEN, profiles=False), 50, SAFE)
    assert (known["restarts"], learned["restarts"]) == (0, 0)
    assert known["mean_pending_s"] < learned["mean_pending_s"]


def test_any_level_and_the_mix_can_be_played() -> None:
    answer = play_levels(Experiment(MIX, 3), (725.5,))
    (level,) = answer["levels"]
    assert level["overprovision_percent"] == 725.5
    assert level["schedulers"][SAFE]["restarts"] == 0
    assert len(kinds_in_order(MIX, 3)) == 25


def test_requests_are_those_of_each_scheduler() -> None:
    (kind,) = WORKLOADS["homogeneous"]
    assert requested(kind, 50, "stock").memory is None
    assert requested(kind, 50, "alibaba").memory == 10 << 30
    assert requested(kind, 1000, "alibaba").memory == 31 << 30
    assert requested(kind, 50, CBP_PP).memory == Bytes(10491 * MIB)
    assert requested(kind, 1000, CBP_PP).memory == Bytes(32510 * MIB)


def test_times_alone_come_from_the_run_of_the_level() -> None:
    for level in LEVELS:
        times = solo_times(level)
        assert times.start_up + times.work == pytest.approx(PUBLISHED[level]["stock"].makespan_s / 30)
    assert solo_times(25).work == pytest.approx((solo_times(0).work + solo_times(50).work) / 2)
    assert solo_times(900) == solo_times(250)


def test_a_figure_agrees_within_15_percent_or_in_the_band() -> None:
    assert band([float(value) for value in range(20)]) == (1.0, 18.0)
    runs = [{name: _figures(factor) for name in SCHEDULERS[:3]} for factor in (1.0, 1.1, 1.2)]
    rows = {row.figure: row for row in compared(0, runs) if row.scheduler == CBP_PP}
    assert rows["makespan_s"].ok
    assert rows["makespan_s"].simulated == pytest.approx(1.1 * 1149)
    assert not rows["restarts"].ok


def _figures(factor: float) -> dict[str, float]:
    published = PUBLISHED[0][CBP_PP]
    names = ("mean_pending_s", "worst_job_s", "makespan_s", "memory_mean_mib", "memory_max_mib",
             "utilisation_percent", "power_w")  # fmt: skip
    return {**{name: factor * getattr(published, name) for name in names}, "restarts": 7.0}


def test_the_frontier_bends_at_the_true_least_size() -> None:
    points = frontier(Experiment(), (0,), sizes=(0.5, 1.0, 8.31), bounds=())["frontier"]
    low, true, full = [point for point in points if point["knows"] == "profile"]
    assert low["restarts"] > true["restarts"] == full["restarts"] == 0
    assert true["mean_pending_s"] < full["mean_pending_s"]

"""The figures of an arrangement, from outcomes and samples that are known."""

from dataclasses import replace

import pytest

from fairlead.sharebench.arrangements import in_rounds
from fairlead.sharebench.document import kept_rounds, with_ratios
from fairlead.sharebench.events import EngineEvents
from fairlead.sharebench.figures import SoloRun, arrangement_figures, predicted_slowdown, solo_run
from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.plot import svg
from fairlead.sharebench.rounds import medians
from fairlead.sharebench.samples import GpuSample, gpu_figures
from fairlead.sharebench.workload import ServingEngine
from tests.sharebench.worlds import GIB, LARGE, SMALL, outcome, steady

SOLO = {
    "small": SoloRun(5.0, 1.0, 10.0, 10.0, "same", 0.4, 1024.0),
    "large": SoloRun(5.0, 1.0, 10.0, 10.0, "same", 0.8, 4096.0),
}


def test_times_queries_and_gpu() -> None:
    outcomes = [outcome(SMALL, 0.0, 4.0), outcome(LARGE, 2.0, 10.0, latency=0.03)]
    figures = arrangement_figures(outcomes, steady(2 * GIB, 0.0, 20.0), SOLO, mps=False)
    assert (figures["makespan_s"], figures["pending_mean_s"], figures["pending_worst_s"]) == (10.0, 1.0, 2.0)
    assert figures["most_at_once"] == 2
    assert (figures["query_p50_ms"], figures["query_p99_ms"]) == (30.0, 30.0)
    assert figures["networks"]["small"] == {"query_p50_ms": 10.0, "query_p99_ms": 10.0}
    assert (figures["memory_mean_mib"], figures["memory_max_mib"]) == (2048, 2048)
    assert (figures["utilisation_percent"], figures["power_w"]) == (50.0, 100.0)
    assert figures["energy_j"] == pytest.approx(1000, abs=1)
    assert (figures["failures"], figures["outputs_equal"]) == ([], True)


def test_the_energy_counter_counts_before_the_power() -> None:
    samples = [GpuSample(0.0, watts=100.0, joules=7000.0), GpuSample(10.0, watts=100.0, joules=7300.0)]
    assert gpu_figures(samples)["energy_j"] == 300


def test_failures_have_their_reason() -> None:
    refused = EngineOutcome(
        ServingEngine("e", SMALL),
        0.0,
        1.0,
        2.0,
        3,
        events=EngineEvents(1, refused=1.5, error="out of memory"),
    )
    silent = EngineOutcome(ServingEngine("f", SMALL), 0.0, 1.0, 2.0, 0)
    late = EngineOutcome(ServingEngine("g", SMALL), 0.0, reason="it did not start in time")
    figures = arrangement_figures([refused, silent, late], [], SOLO, mps=False)
    assert [
        (each["engine"], each["exit_code"], each["out_of_memory"], each["reason"])
        for each in figures["failures"]
    ] == [
        ("e", 3, True, "out of memory"),
        ("f", 0, False, ""),
        ("g", None, False, "it did not start in time"),
    ]
    assert figures["outputs_equal"] is None


def test_another_answer_is_seen() -> None:
    outcomes = [outcome(SMALL, 0.0, 1.0), outcome(SMALL, 0.0, 1.0, digest="other")]
    assert arrangement_figures(outcomes, [], SOLO, mps=False)["outputs_equal"] is False


@pytest.mark.parametrize(
    ("mps", "expected"),
    [
        # Three engines with a load of 0.4 + 0.4 + 0.8, and the tail of the 99th percentile.
        (False, (1 + 2 * 0.1) * 1.6 * (1 + 0.8 * 2 / 3)),
        (True, (1 + 2 * 0.025) * 1.6 * (1 + 0.25 * 2 / 3)),
    ],
)
def test_the_prediction_is_that_of_the_fullest_placement(mps: bool, expected: float) -> None:
    early, middle, late = outcome(SMALL, 0.0, 4.0), outcome(SMALL, 2.0, 6.0), outcome(LARGE, 3.0, 9.0)
    alone = outcome(SMALL, 20.0, 21.0)
    outcomes = [early, middle, late, alone]
    assert predicted_slowdown(early, outcomes, SOLO, mps=mps) == pytest.approx(expected)
    assert predicted_slowdown(alone, outcomes, SOLO, mps=mps) == 1.0


def test_slowdowns_count_the_engines_within_their_prediction() -> None:
    outcomes = [outcome(SMALL, 0.0, 4.0, latency=0.0105), outcome(SMALL, 0.0, 4.0, latency=0.02)]
    slowdown = arrangement_figures(outcomes, [], SOLO, mps=False)["slowdown"]
    assert slowdown == {"predicted_worst": 1.54, "measured_worst": 2.0, "engines_within": 1, "engines": 2}


def test_a_solo_run_has_its_memory_above_the_start_and_its_busy_time() -> None:
    samples = [*steady(GIB, 0.0, 1.0), *steady(3 * GIB, 1.0, 5.0)]
    run = solo_run(outcome(SMALL, 1.0, 5.0), samples)
    assert run is not None
    assert (run.memory_mib, run.busy, run.seconds, run.p99_ms, run.digest) == (2048.0, 0.5, 4.0, 10.0, "same")
    failed = replace(outcome(SMALL, 1.0, 5.0), exit_code=1)
    assert solo_run(failed, samples) is None


def _rows() -> list[dict[str, object]]:
    rows = []
    for mode, limiter, seconds in (
        ("exclusive", "plain", 100.0),
        ("fixed-4", "plain", 40.0),
        ("fixed-8", "plain", 30.0),
        ("fairlead-safe", "plain", 25.0),
        ("fairlead-safe", "mps", 20.0),
    ):
        figures = arrangement_figures([outcome(SMALL, 0.0, seconds)], [], SOLO, mps=limiter == "mps")
        rows.append({"mode": mode, "limiter": limiter, **figures})
    return with_ratios(rows)


def test_ratios_against_exclusive_and_the_best_fixed_number() -> None:
    rows = _rows()
    assert [row["against_exclusive"]["makespan"] for row in rows] == [1.0, 2.5, 3.33, 4.0, 5.0]  # type: ignore[index]
    assert [row["against_best_fixed"] for row in rows] == [0.3, 0.75, 1.0, 1.2, None]


def test_rounds_become_the_median_and_the_worst() -> None:
    rows = [
        _round(1, 30.0, within=16, failures=[]),
        _round(2, 20.0, within=15, failures=["one"]),
        _round(3, 25.0, within=16, failures=[]),
    ]
    (row,) = medians([*rows[1:], rows[0]])
    assert (row["makespan_s"], row["makespans_s"]) == (25.0, [30.0, 20.0, 25.0])
    assert (row["failures"], row["outputs_equal"]) == (["one"], False)
    assert row["slowdown"]["engines_within"] == 15
    assert "round" not in row


def test_of_an_even_number_of_rounds_the_median_lies_between_the_middle_two() -> None:
    (row,) = medians([_round(1, 30.0, within=16, failures=[]), _round(2, 20.0, within=16, failures=[])])
    assert (row["makespan_s"], row["makespans_s"]) == (25.0, [30.0, 20.0])


def _round(number: int, seconds: float, *, within: int, failures: list[str]) -> dict[str, object]:
    slowdown = {"predicted_worst": 9.0, "measured_worst": 3.0, "engines_within": within, "engines": 16}
    return {
        **{"round": number, "mode": "fixed-8", "limiter": "plain", "makespan_s": seconds},
        **{"failures": failures, "outputs_equal": not failures, "slowdown": slowdown},
    }


def test_every_second_round_runs_in_reverse() -> None:
    turns = [(number, each.mode) for number, each in in_rounds(["exclusive", "fixed-4"], ["plain"], 2)]
    assert turns == [(1, "exclusive"), (1, "fixed-4"), (2, "fixed-4"), (2, "exclusive")]


def test_the_picture_has_a_bar_for_each_arrangement() -> None:
    picture = svg({"arrangements": _rows(), "machine": {"gpu": "NVIDIA <H200>"}, "settings": {"engines": 16}})
    assert picture.count("<rect ") == 5 * 5
    assert "16 engines on one NVIDIA &lt;H200&gt;" in picture
    assert "fairlead-safe, mps" in picture


@pytest.mark.parametrize(
    ("earlier", "kept"),
    [
        ({"machine": 1, "settings": 2, "rounds": ["row"]}, ["row"]),
        ({"machine": 1, "settings": 3, "rounds": ["row"]}, []),
        ({"machine": 9, "settings": 2, "rounds": ["row"]}, []),
        ({}, []),
    ],
)
def test_arrangements_of_other_engines_or_machines_are_not_kept(
    earlier: dict[str, object], kept: list[object]
) -> None:
    assert kept_rounds(earlier, {"machine": 1, "settings": 2}) == kept

"""Counters of workers become the status of a run: sums, rates, shares of time, and the bottleneck."""

from pathlib import Path
from typing import Any

import pytest

from fairlead.pipeline.observe.bottleneck import bottleneck
from fairlead.pipeline.observe.histogram import BOUNDS, DurationHistogram, quantile, without_buckets
from fairlead.pipeline.observe.window import ReportWindow
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.status import RunStatus
from tests.pipeline.pipelines import plan, run

CHAIN = """
pipeline: p
fuse: false
stages:
  - {name: camera, source: numbers}
  - {name: slow, run: "$S:slow"}
  - {name: log, sink: "null"}
"""


def times(*names: str, seconds: float = 0.0) -> dict[str, Any]:
    """Return histograms with one duration each."""
    histogram = DurationHistogram()
    histogram.observe(seconds)
    return {name: histogram.to_json() for name in names}


def report(out: int, busy: float, dropped: int = 0) -> dict[str, Any]:
    """Return what the worker `slow` has counted."""
    return {
        "stages": {
            "slow": {
                "in": out,
                "out": out,
                "failed": 0,
                "times": times("receive", "send") | times("process", seconds=busy),
            }
        },
        "edges": {
            "camera->slow": {
                "received": out + dropped + 3,
                "taken": out,
                "dropped": {"oldest": dropped},
                "depth": 3,
                "age": 0.2,
                "times": times("receive", "age", seconds=0.2),
            },
            "slow->log": {"sent": out, "times": times("send")},
        },
    }


@pytest.mark.parametrize(
    ("durations", "share", "expected"),
    [
        ([], 0.5, None),
        ([0.002] * 10, 0.5, 0.00175),  # half way between 1 and 2.5 ms
        ([0.002] * 9 + [0.3], 0.9, 0.0025),
        ([0.002] * 9 + [0.3], 1.0, 0.5),
        ([99.0], 1.0, BOUNDS[-1]),
        ([0.0], 1.0, BOUNDS[0]),
    ],
)
def test_quantiles_are_interpolated_in_their_bucket(
    durations: list[float], share: float, expected: float | None
) -> None:
    histogram = DurationHistogram()
    for each in durations:
        histogram.observe(each)
    counted = histogram.to_json()
    assert counted["sum"] == pytest.approx(sum(durations))
    assert sum(counted["buckets"]) == len(durations)
    assert histogram.to_json() == counted, "a report counts nothing twice"
    assert quantile(counted["buckets"], share) == (None if expected is None else pytest.approx(expected))


def test_rates_are_of_the_last_reports_and_fall_when_a_worker_is_silent() -> None:
    window = ReportWindow()
    for index in range(20):
        window.add({"n": index * 10}, 100.0 + index)
    last = 119.0
    assert window.rate(lambda it: it["n"], last) == pytest.approx(10.0)
    assert window.rate(lambda it: it["n"], last + 1.5) == pytest.approx(10.0), "not overdue yet"
    assert window.rate(lambda it: it["n"], last + 8.0) == pytest.approx(5.0)
    assert ReportWindow().rate(lambda it: it["n"], last) == 0.0


def test_what_a_process_has_counted_outlives_it_except_what_it_holds(tmp_path: Path) -> None:
    status = RunStatus(plan(CHAIN, tmp_path), 100.0)
    for worker in ("camera", "slow", "log"):
        status.on_spawn(worker)
    status.on_report("slow", report(10, 0.25, dropped=2), 101.0)
    status.on_report("slow", report(20, 0.5, dropped=4), 101.5)
    before = status.document(101.5)["stages"][1]
    assert (before["rate"], before["busy"]) == (pytest.approx(20.0), pytest.approx(0.5))
    status.on_spawn("slow")
    after = status.document(102.0)
    stage, edge = after["stages"][1], after["edges"][0]
    assert (stage["out"], stage["restarts"], stage["rate"]) == (20, 1, 0.0)
    assert stage["times"]["process"]["sum"] == pytest.approx(0.5)
    assert (edge["taken"], edge["dropped"], edge["depth"], edge["age"]) == (20, {"oldest": 4}, 0, 0.0)
    status.on_report("slow", report(5, 0.1), 102.5)
    stage, edge = status.document(102.5)["stages"][1], status.document(102.5)["edges"][0]
    assert (stage["out"], edge["taken"], edge["depth"], edge["age"]) == (25, 25, 3, 0.2)
    assert stage["times"]["process"]["count"] == 2


def test_a_stage_that_does_not_return_is_busy(tmp_path: Path) -> None:
    status = RunStatus(plan(CHAIN, tmp_path), 100.0)
    status.on_spawn("slow")
    call = {"slow": WorkedOn(0, 0, 7, 100.5)}
    assert status.document(101.0, call)["stages"][1]["busy"] == 0.0, "it may return in time for its report"
    assert status.document(110.0, call)["bottleneck"] == "slow"
    status.on_report("slow", report(10, 0.0), 100.0)
    status.on_report("slow", report(20, 0.25), 100.5)
    stage = status.document(110.5, call)["stages"][1]
    assert stage["busy"] == pytest.approx(10.25 / 10.5)
    assert stage["rate"] == pytest.approx(10 / 10.5)
    idle = {"slow": WorkedOn(0, 0, 7, 0.0)}
    assert status.document(110.5, idle)["stages"][1]["busy"] == pytest.approx(0.25 / 10.5)


def test_what_carries_frames_between_workers_reports_as_well(tmp_path: Path) -> None:
    status = RunStatus(plan(CHAIN, tmp_path), 0.0)
    status.on_spawn("slow")
    for now, dropped in ((1.0, 0), (2.0, 8)):
        status.on_report("slow", report(1, 0.1), now)
        status.on_report(
            "links of edge", {"stages": {}, "edges": {"camera->slow": {"dropped": {"oldest": dropped}}}}, now
        )
    edge = status.document(2.0)["edges"][0]
    assert (edge["dropped"], edge["drop_rate"]) == ({"oldest": 8}, pytest.approx(8.0))


def test_the_largest_batch_of_replicas_is_shown_while_they_run(tmp_path: Path) -> None:
    text = CHAIN.replace('"$S:slow"', '"$S:slow", replicas: 2')
    status = RunStatus(plan(text, tmp_path), 0.0)
    assert status.document(0.0)["stages"][1]["batch"] is None
    for worker, batch in (
        ("slow/0", {"size": 4, "most": 8, "wait": 0.02}),
        ("slow/1", {"size": 6, "most": 6, "wait": 0.0}),
    ):
        status.on_spawn(worker)
        sent = report(1, 0.1)
        sent["stages"]["slow"]["batch"] = batch
        status.on_report(worker, sent, 1.0)
        status.on_report(worker, sent, 2.0)
    assert status.document(2.0)["stages"][1]["batch"] == {"size": 6, "most": 8, "wait": 0.02}
    status.on_spawn("slow/0")
    assert status.document(2.0)["stages"][1]["batch"] == {"size": 6, "most": 6, "wait": 0.0}


def test_a_counter_that_is_not_known_here_is_summed_as_well(tmp_path: Path) -> None:
    status = RunStatus(plan(CHAIN, tmp_path), 0.0)
    status.on_spawn("slow")
    extended = report(1, 0.1)
    extended["stages"]["slow"]["dropped"] = {"overrun": 7}
    status.on_report("slow", extended, 1.0)
    assert status.document(1.0)["stages"][1]["dropped"] == {"overrun": 7}


@pytest.mark.parametrize(
    ("busy", "expected"),
    [({"a": 0.2, "b": 0.95, "c": 0.6}, "b"), ({"a": 0.2, "b": 0.4}, None), ({}, None)],
)
def test_the_busiest_stage_is_the_bottleneck(busy: dict[str, float], expected: str | None) -> None:
    assert bottleneck([{"name": name, "busy": share} for name, share in busy.items()]) == expected


def test_every_frame_is_in_the_histograms_of_its_stages_and_edges(tmp_path: Path) -> None:
    status = run(
        CHAIN.replace("numbers", "numbers, options: {count: 40}").replace("slow}", "number}"), tmp_path
    )
    camera, slow, log = (
        {kind: each["count"] for kind, each in stage["times"].items()} for stage in status["stages"]
    )
    assert camera == {"receive": 0, "process": 41, "send": 40}, "the last read finds the end"
    assert (slow, log) == (
        {"receive": 40, "process": 40, "send": 40},
        {"receive": 40, "process": 40, "send": 0},
    )
    for edge in status["edges"]:
        assert {kind: each["count"] for kind, each in edge["times"].items()} == {
            "send": 40,
            "receive": 40,
            "age": 40,
        }
    assert status["pid"]
    short = without_buckets(status)
    assert "bounds" not in short
    assert list(short["stages"][0]["times"]["process"]) == ["count", "sum", "p50", "p99"]

"""The parts of a simulation: interference, queue orders, gauges, telemetry and plots."""

from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement import DeviceState
from fairlead.schedule.filter.interference import MODELS, mps, time_slicing
from fairlead.simulate.play.accelerator import SimulatedAccelerator
from fairlead.simulate.play.telemetry import SimulatedTelemetry
from fairlead.simulate.play.waiting import ORDERS, JobQueue, WaitingJob
from fairlead.simulate.report.figures import document, summarize
from fairlead.simulate.report.plot import nice, svg, time_unit
from fairlead.simulate.report.recorder import MOST_ROWS, Gauge, SeriesRecorder
from fairlead.simulate.trace.job import Trace
from fairlead.simulate.trace.settings import SimulationSettings, merge_settings
from fairlead.units import Bytes
from tests.simulate.plays import POWER, job, play

GIB = 1 << 30


def test_interference_is_what_was_measured() -> None:
    assert [time_slicing(jobs, 0.1) for jobs in (1, 3, 5)] == pytest.approx([1.0, 1.2, 1.4])
    assert time_slicing(16, 0.1) / time_slicing(8, 0.1) == pytest.approx(12.5 / 7.8, rel=0.1)
    assert mps(16, 0.1) / mps(8, 0.1) == pytest.approx(6.5 / 5.5, rel=0.1)
    assert time_slicing(8, 0.1) / mps(8, 0.1) == pytest.approx(7.8 / 5.5, rel=0.1)


@given(st.sampled_from(sorted(MODELS)), st.integers(0, 50), st.floats(0, 50))
def test_co_runners_never_speed_a_job_up(model: str, jobs: int, load: float) -> None:
    assert MODELS[model](jobs + 1, load) >= MODELS[model](jobs, load) >= 1


@pytest.mark.parametrize(
    ("order", "first"),
    [("fifo", "early"), ("largest", "large"), ("shortest", "short"), ("kubernetes", "early")],
)
def test_each_order_tries_its_first_job(order: str, first: str) -> None:
    queue = JobQueue(order, Random(0))
    for waiting in (job("large", 5, 90, gib=7), job("early", 0, 80), job("short", 9, 10)):
        queue.add(WaitingJob(waiting, tried=waiting.arrival))
    assert queue.in_order(20, {None})[0].job.name == first
    queue.add(WaitingJob(job("urgent", 19, 200, gib=1, priority=1), tried=19))
    assert queue.in_order(20, {None})[0].job.name == "urgent"


def test_a_job_that_waits_long_under_kubernetes_has_a_random_place() -> None:
    firsts = set()
    for seed in range(20):
        queue = JobQueue("kubernetes", Random(seed))
        for index in range(5):
            queue.add(WaitingJob(job(f"j{index}", index), tried=index))
        firsts.add(queue.in_order(500, {None})[0].job.name)
    assert len(firsts) > 2
    assert "kubernetes" in ORDERS


def test_jobs_tried_at_the_same_time_keep_the_order_of_their_attempts() -> None:
    queue = JobQueue("kubernetes", Random(3))
    for index in range(6):
        queue.add(WaitingJob(job(f"j{index}", index), tried=index))
    line = queue.in_order(500, {None})
    assert [waiting.job.name for waiting in line] != [f"j{index}" for index in range(6)]
    queue.record_attempts(line, 500)
    assert queue.in_order(520, {None}) == line


def test_an_accelerator_holds_no_more_than_it_has() -> None:
    accelerator = SimulatedAccelerator("n", DeviceState("gpu-0", "t4", memory=Bytes(8 * GIB)), POWER)
    assert accelerator.watts == 10
    accelerator.enter("a", 0.5)
    accelerator.enter("b", 0.25)
    assert accelerator.hold("a", 5 * GIB)
    assert not accelerator.hold("b", 4 * GIB)
    assert accelerator.hold("b", 3 * GIB)
    assert (accelerator.memory, accelerator.watts) == (8 * GIB, 20 + 0.75 * 80)
    accelerator.leave("a")
    assert (accelerator.memory, accelerator.load) == (3 * GIB, 0.25)


@given(st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, 10)), min_size=1, max_size=60))
def test_means_are_weighted_by_time(steps: list[tuple[float, float]]) -> None:
    recorder, now = SeriesRecorder(), 0.0
    for seconds, value in steps:
        recorder.set(now, Gauge(waiting=value))
        now += seconds
    recorder.pass_to(now)
    area = sum(seconds * value for seconds, value in steps)
    assert recorder.mean("waiting") == pytest.approx(area / now, abs=1e-9)
    assert recorder.total("waiting") == pytest.approx(area, abs=1e-9)
    assert recorder.peak("waiting") == max(value for _, value in steps)


def test_a_long_series_is_thinned_and_keeps_its_mean() -> None:
    recorder = SeriesRecorder()
    for second in range(20_000):
        recorder.set(second, Gauge(waiting=second % 7))
    recorder.pass_to(20_000)
    assert len(recorder.rows) <= MOST_ROWS
    area = sum(row.means[3] * (row.end - row.start) for row in recorder.rows)
    assert area == pytest.approx(recorder.total("waiting"))


def test_telemetry_returns_the_memory_held_at_each_time() -> None:
    telemetry = SimulatedTelemetry()
    accelerator = SimulatedAccelerator("n", DeviceState("g", memory=Bytes(8 * GIB)), None)
    accelerator.enter("a", 0.5)
    for now in range(0, 3000, 10):
        accelerator.hold("a", now)
        telemetry.record(now, accelerator)
    readings = telemetry.window("n", "g", [2975.0, 2985.0])
    assert [reading.memory for reading in readings] == [2970, 2980]
    assert telemetry.window("n", "other", [1.0]) == []


def test_quantiles_are_values_of_jobs() -> None:
    assert summarize([3.0, 1.0, 2.0]) == {"mean": 2.0, "p50": 2.0, "p99": 3.0, "worst": 3.0}
    assert summarize([])["worst"] is None


@given(st.floats(1e-6, 1e9))
def test_axes_have_few_round_numbers_that_reach_the_top(most: float) -> None:
    ticks = nice(most)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] == 0
    assert ticks[-1] >= most * (1 - 1e-6)


def test_a_plot_is_valid_svg_and_has_a_line_for_each_policy() -> None:
    outcomes = [play([job("a"), job("b", 30)], policy=policy) for policy in ("binpack", "exclusive")]
    drawn = svg(document(Trace("<a> & b", ()), SimulationSettings(), 0, outcomes))
    root = ElementTree.fromstring(drawn)
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 2 * 4
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert time_unit(7 * 86400)[0] == "d"


def test_settings_are_checked() -> None:
    assert merge_settings(SimulationSettings(), {"until": "2h", "queue": "largest"}, "t").until == 7200
    for overrides in (
        {"queue": "lifo"},
        {"qeue": "fifo"},
        {"until": "-3"},
        {"keep_progress": "no"},
        {"kills": 0},
    ):
        with pytest.raises(Exception, match="t: "):
            merge_settings(SimulationSettings(), overrides, "t")

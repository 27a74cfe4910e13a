"""Engines that share an accelerator: elastic memory, busy share, start-up, and policies that measure."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairlead.catalog import load
from fairlead.simulate.play.busy import busy_share
from fairlead.simulate.play.policies import simulated_policy
from fairlead.simulate.play.published import PublishedPolicy
from fairlead.simulate.play.safe import SafePolicy, images_of
from fairlead.simulate.play.simulation import SimulationOutcome
from fairlead.simulate.play.waiting import JobQueue, WaitingJob
from fairlead.simulate.trace.job import Job, PowerCurve, staged_curve
from fairlead.simulate.trace.read import TraceReader
from fairlead.sizing.footprint import FootprintBook
from fairlead.sizing.shares import PLACES, offered_share
from fairlead.units import Bytes, Watts
from tests.simulate.plays import GIB, fleet, job, node, play, records


def engine(name: str = "e", at: float = 0.0, gib: int = 2, warm_up: float = 10.0, **more: Any) -> Job:
    """Return an elastic engine that runs in 1 GiB and takes up to 4; its request is `gib`."""
    steps = staged_curve(Bytes(0), [Bytes(GIB), Bytes(2 * GIB), Bytes(4 * GIB)], warm_up, 1.0)
    plain = replace(job(name, at, 100.0, gib, start=5.0), memory=steps, warm_up=warm_up, least=Bytes(GIB))
    return replace(plain, image="engine", **more)


def peak(outcome: SimulationOutcome) -> float:
    """Return the most memory that was held, in GiB."""
    return outcome.recorder.peak("memory") / GIB


def test_elastic_engines_take_what_is_there_and_keep_it() -> None:
    outcome = play([engine("a"), engine("b", 1), engine("c", 2)], fleet(node(memory=7)))
    assert peak(outcome) == 7  # 4 GiB, then 2 of 3, and the least size of the last
    assert all(record.kills == 0 for record in outcome.records)
    assert records(outcome)["a"].finished == 5 + 10 + 100


def test_an_engine_without_its_least_size_restarts_after_the_back_off_and_starts_up_again() -> None:
    jobs = [engine("a"), engine("b", 20, 1)]
    last = records(play(jobs, fleet(node(memory=4)), "spread", restart_first=0.0, preemption=False))["b"]
    # Four failures, each after 15 s of start-up; restarts after 0, 10, 20 and 40 s of back-off.
    assert last.kills == 4
    assert last.finished == 20 + 15 * 5 + 0 + 10 + 20 + 40 + 100


def test_start_up_takes_longer_beside_an_engine_at_work() -> None:
    outcome = play([engine("a"), engine("b", 50, crowded_start=2.0)], fleet(node(memory=16)))
    assert records(outcome)["b"].finished == 50 + 2 * (5 + 10) + 100


def test_a_lone_engine_has_its_own_slowdown_and_co_runners_add_none_below_it() -> None:
    alone = play([engine("a", least_slowdown=1.5)], interference="time-slicing")
    assert records(alone)["a"].finished == 15 + 150
    both = [engine("a", least_slowdown=1.1), engine("b", least_slowdown=1.1)]
    outcome = play(both, fleet(node(memory=16)), interference="time-slicing", price=0.5)
    assert records(outcome)["a"].finished == 15 + 150


@pytest.mark.parametrize(
    ("engines", "share"),
    [(1, 0.1), (2, 0.25 + 2 * 0.05), (3, 0.5 + 3 * 0.1 * 0.25)],
)
def test_the_accelerator_is_busy_while_two_contexts_have_work(engines: int, share: float) -> None:
    """Outstanding half of the time, busy a tenth alone: the share by hand."""
    assert busy_share([(0.1, 0.5)] * engines) == pytest.approx(share)


def test_a_busy_share_does_not_depend_on_the_order_and_is_a_share() -> None:
    jobs = [(0.3, 0.9), (0.1, 0.2), (0.0, 0.0), (1.0, 1.0)]
    assert busy_share(jobs) == pytest.approx(busy_share(jobs[::-1]))
    assert busy_share([(1.0, 1.0)] * 3) == 1.0
    assert busy_share([]) == 0.0


def test_power_follows_the_busy_share() -> None:
    power = PowerCurve(Watts(10), Watts(20), Watts(100), Watts(40))
    machines = replace(fleet(), power={"t4": power})
    outcome = play([replace(job(seconds=100), outstanding=0.5)], machines, interference="time-slicing")
    assert outcome.recorder.mean("watts") == pytest.approx(20 + 20 * 0.1)


def test_the_driver_holds_memory_while_a_context_is_open() -> None:
    machines = replace(fleet(node(memory=8)), first_context={"t4": Bytes(GIB)})
    assert peak(play([job("a", gib=2), job("b", gib=2)], machines)) == 5


def test_a_heap_yields_the_first_item_and_then_the_last() -> None:
    queue = JobQueue("heap", Random(0))
    for name in "abcd":
        queue.add(WaitingJob(job(name, gib=8 if name == "c" else 4), 0))
    line = queue.in_order(0.0, {0})
    assert [waiting.job.name for waiting in line] == ["c", "a", "d", "b"]
    queue.record_attempts(line, 0.0)
    assert [waiting.job.name for waiting in queue.in_order(0.0, {0})] == ["c", "a", "b", "d"]


def test_cbp_places_by_measured_memory_and_rests_after_a_placement() -> None:
    jobs = [job("a", 0, 200, gib=6, real=[(0, 1)]), job("b", 30, 200, gib=6, real=[(0, 1)])]
    jobs.append(job("c", 31, 200, gib=6, real=[(0, 1)]))
    placed = {
        name: record.placed for name, record in records(play(jobs, policy=PublishedPolicy("cbp"))).items()
    }
    assert placed["a"] == 0
    assert placed["b"] == 30  # 8 GiB, 1 in use: 7 are granted
    assert placed["c"] == pytest.approx(31 + 0.8 * 6)  # the first pass after 5.5 s
    assert records(play(jobs))["b"].placed == 200  # by requests


def test_safe_hands_limits_that_never_exceed_the_accelerator() -> None:
    jobs = [engine(f"e{at}", at, 8) for at in range(12)]
    book = FootprintBook()
    book.state("engine", least=Bytes(GIB), full=Bytes(4 * GIB), now=0.0)
    outcome = play(jobs, fleet(node(memory=16)), SafePolicy(images_of(jobs), book), preemption=False)
    assert sum(record.kills for record in outcome.records) == 0
    assert peak(outcome) <= 16
    assert sum(record.placed == record.job.arrival for record in outcome.records) == PLACES


def test_safe_learns_the_peak_of_an_image_and_stops_its_crashes() -> None:
    """Each requests 2 GiB and grows to 3: two fit by requests, and by what the first run taught only one."""
    jobs = [
        replace(job(f"j{at}", at * 400.0, 300.0, 2, real=[(0, 1), (60, 3)]), image="grows") for at in range(4)
    ]
    twins = [replace(each, name=f"{each.name}b", requests=(replace(each.requests[0], name=f"{each.name}b"),))
             for each in jobs]  # fmt: skip
    everything = [*jobs, *twins]
    small = fleet(node(memory=5))
    unlearned = play(everything, small, "binpack")
    learned = play(everything, small, simulated_policy("fairlead-safe", everything), preemption=False)
    assert sum(record.kills for record in unlearned.records) > 0
    later = [record for record in learned.records if record.job.arrival > 0]
    assert sum(record.kills for record in later) == 0
    assert all(record.finished is not None for record in learned.records)


def test_an_elastic_pod_is_offered_what_leaves_room_for_others() -> None:
    assert offered_share(Bytes(1), Bytes(6), 32, 0) == 6
    assert offered_share(Bytes(1), Bytes(6), 10, 3) == 6
    assert offered_share(Bytes(1), Bytes(6), 8, 3) == 4
    assert offered_share(Bytes(1), Bytes(6), 2, 7) == 2
    assert offered_share(Bytes(1), Bytes(6), 1, 2) == 1


def test_the_fields_of_an_elastic_engine_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "nodes: [{name: n, devices: [{model: v100}]}]\n"
        "power: {v100: {full: 250, sliced: 55}}\n"
        "first-context: {v100: 11MiB}\n"
        "settings: {price: 0.085, restart-first: 0s}\n"
        "generate:\n"
        "  - {name: e, count: 1, duration: 90s, gpu-memory: 7GiB, warm-up: 9s, crowded-start: 1.4,\n"
        "     least-slowdown: 1.1, outstanding: 0.56, gives-back: true,\n"
        "     real: {start: 1MiB, stages: [2MiB, 4MiB], apart: 2s}}\n"
    )
    trace = TraceReader(load([])).read(str(path))
    (one,) = trace.jobs
    assert [(step.after, step.memory >> 20) for step in one.memory] == [(0, 1), (9, 2), (11, 4)]
    assert (one.least, one.warm_up, one.crowded_start, one.outstanding) == (2 << 20, 9, 1.4, 0.56)
    assert (one.image, one.gives_back, one.least_slowdown) == ("e/0", True, 1.1)
    assert trace.fleet is not None
    assert trace.fleet.first_context == {"v100": 11 << 20}
    assert trace.fleet.power["v100"].sliced == Watts(55)

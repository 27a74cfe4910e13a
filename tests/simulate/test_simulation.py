"""Jobs in a simulation: they wait, run together, are evicted, and are all accounted for."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.placement import Decision
from fairlead.request import Request, Selector
from fairlead.simulate.play.simulation import JobState
from fairlead.simulate.play.world import RequestPolicy, World
from fairlead.simulate.report.figures import document, figures
from fairlead.simulate.trace.job import Fault, Job, RandomFaults, Trace
from fairlead.simulate.trace.settings import SimulationSettings
from fairlead.units import Bytes
from tests.simulate.plays import ends, fleet, job, node, play, records


def test_jobs_run_together_while_there_is_room_and_the_next_begins_when_one_ends() -> None:
    outcome = play([job("a", 0, 100), job("b", 10, 100), job("c", 20, 100)])
    assert ends(outcome) == {"a": 100, "b": 110, "c": 200}
    assert records(outcome)["c"].placed == 100


def test_exclusive_gives_each_job_a_whole_accelerator() -> None:
    assert ends(play([job("a"), job("b")], policy="exclusive")) == {"a": 100, "b": 200}


def test_start_up_time_precedes_the_work() -> None:
    outcome = play([job("a", start=15), job("b", gib=8)])
    assert ends(outcome) == {"a": 115, "b": 215}


def test_co_runners_slow_each_other_down_while_they_run_together() -> None:
    outcome = play([job("a", 0, 100), job("b", 0, 55)], interference="time-slicing")
    assert ends(outcome) == pytest.approx({"a": 105.5, "b": 60.5})
    """b takes 1.1 times as long; by then a has done 55 of its 100 s, and runs alone for the rest."""


def test_load_above_one_accelerator_is_divided() -> None:
    outcome = play([job("a", load=1.0), job("b", load=1.0)], interference="mps")
    assert ends(outcome) == pytest.approx({"a": 205.0, "b": 205.0})


def test_a_job_that_never_fits_is_refused_at_once_with_the_reason() -> None:
    outcome = play([job("big", gib=9), job("small")])
    result = records(outcome)
    assert result["big"].state is JobState.REFUSED
    assert figures(outcome)["refusals"] == {"accelerator-memory": 1}
    assert result["small"].finished == 100


def test_a_gang_runs_whole_or_waits_and_has_the_pace_of_its_slowest_member() -> None:
    machines = fleet(node("a"), node("b"))
    outcome = play([job("first", 0, 50), job("gang", 0, 100, gib=8, replicas=2)], machines)
    assert ends(outcome) == {"first": 50, "gang": 150}
    late = play(
        [job("first", 0, 50), job("gang", 0, 100, replicas=2)], machines, "spread", interference="mps"
    )
    assert ends(late)["gang"] == pytest.approx(50 * 1.025 + 100 - 50, abs=2)


@pytest.mark.parametrize(("kept", "end"), [(False, 250), (True, 200)])
def test_a_higher_priority_evicts_a_lower_one_which_is_retried(kept: bool, end: float) -> None:
    jobs = [job("low", 0, 100, gib=8), job("high", 50, 100, gib=8, priority=10)]
    outcome = play(jobs, keep_progress=kept)
    assert ends(outcome) == {"low": end, "high": 150}
    assert records(outcome)["low"].preemptions == 1
    assert figures(outcome)["preemptions"] == 1


def test_without_preemption_and_among_equals_no_job_is_evicted() -> None:
    jobs = [job("low", 0, 100, gib=8), job("high", 50, 100, gib=8, priority=10)]
    assert ends(play(jobs, preemption=False)) == {"low": 100, "high": 200}
    equals = [job("low", 0, 100, gib=8), job("high", 50, 100, gib=8)]
    assert ends(play(equals)) == {"low": 100, "high": 200}


def test_a_gang_is_evicted_whole() -> None:
    machines = fleet(node("a"), node("b"))
    jobs = [
        job("gang", 0, 100, gib=8, replicas=2),
        job("high", 10, 20, gib=8, priority=1),
        job("other", 15, 5),
    ]
    outcome = play(jobs, machines)
    assert ends(outcome) == {"gang": 130, "high": 30, "other": 20}


def test_a_job_without_memory_is_killed_and_restarts_later() -> None:
    jobs = [job("a", 0, 300, real=[(0, 1), (50, 6)]), job("b", 0, 60, real=[(0, 1), (20, 3)])]
    outcome = play(jobs)
    result = records(outcome)
    assert (result["a"].kills, result["b"].kills) == (1, 0)
    assert result["a"].finished == 360
    """It grows at 50 s, when b still holds 3 GiB; it restarts 10 s later, when b is done."""
    assert figures(outcome)["memory_kills"] == 1


def test_a_job_that_never_has_enough_memory_doubles_its_back_off() -> None:
    outcome = play([job("a", 0, 100, real=[(0, 1), (50, 9)])], until=900)
    assert records(outcome)["a"].state is JobState.RUNNING
    assert records(outcome)["a"].kills == 6
    """At 50, 110, 180, 270, 400 and 610 s: the back-off of 10 s doubles."""


def test_a_job_that_is_killed_too_often_fails() -> None:
    outcome = play([job("a", 0, 100, real=[(0, 1), (50, 9)]), job("b", 0, 100, gib=8)], kills=3)
    assert records(outcome)["a"].state is JobState.FAILED
    assert ends(outcome) == {"a": None, "b": 280}
    assert figures(outcome)["failed"] == 1


def test_the_jobs_of_a_failed_node_go_elsewhere_or_wait_for_its_repair() -> None:
    fault = Fault(30, "a", seconds=100)
    alone = play([job("j")], fleet(node("a")), faults=[fault])
    assert ends(alone) == {"j": 230}
    assert figures(alone)["evictions"] == 1
    two = play([job("j")], fleet(node("a"), node("b")), "binpack", faults=[fault, Fault(30, "b", seconds=1)])
    assert (ends(two)["j"] or 0) <= 131


def test_a_failed_accelerator_evicts_its_jobs_and_no_other() -> None:
    machines = fleet(node("a", gpus=2))
    jobs = [job("left", gib=None), job("right", gib=None)]
    outcome = play(jobs, machines, faults=[Fault(30, "a", "gpu-0", 10)])
    assert sorted(end or 0 for end in ends(outcome).values()) == [100, 140]


def test_jobs_wait_for_a_machine_that_is_never_repaired() -> None:
    outcome = play([job("j")], faults=[Fault(30, "server")])
    assert records(outcome)["j"].state is JobState.WAITING


def test_random_failures_end_with_the_jobs() -> None:
    outcome = play([job("j", seconds=5000)], failures=[RandomFaults("node", 3600, 60)], keep_progress=True)
    assert records(outcome)["j"].state is JobState.DONE


def test_a_job_without_an_end_runs_until_the_others_are_done() -> None:
    outcome = play([job("service", seconds=float("inf")), job("batch", 10, 20)])
    assert records(outcome)["service"].state is JobState.RUNNING
    assert outcome.end == 30


def test_until_ends_the_simulation() -> None:
    outcome = play([job("a", 0, 100), job("b", 80, 100)], until=50)
    result = figures(outcome)
    assert (result["arrived"], result["running"], result["end_s"]) == (1, 1, 50)


def test_energy_and_allocation_follow_from_the_running_jobs() -> None:
    result = figures(play([job("a", 0, 100, load=0.5)], fleet(node(gpus=2))))
    assert result["energy_j"] == 100 * (10 + 20 + 0.5 * 80)
    assert result["allocation_percent"] == {"mean": 25.0, "peak": 25.0}
    assert result["utilisation_percent"] == {"mean": 25.0, "peak": 25.0}
    assert result["memory_used_bytes"]["mean"] == 4 << 30


# Properties

JOBS = st.lists(
    st.builds(
        lambda at, seconds, gib, gpus, priority, replicas, real: (
            at,
            seconds,
            gib,
            gpus,
            priority,
            replicas,
            real,
        ),
        st.integers(0, 200),
        st.integers(1, 200),
        st.sampled_from([None, 1, 3, 4, 8, 9]),
        st.sampled_from([1, 1, 2]),
        st.integers(0, 2),
        st.sampled_from([1, 1, 1, 3]),
        st.sampled_from([(), ((0, 1), (30, 5)), ((0, 6),)]),
    ),
    max_size=14,
)
FAULTS = st.lists(
    st.builds(
        Fault,
        st.integers(0, 300),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "gpu-0"]),
        st.sampled_from([None, 5, 50]),
    ),
    max_size=4,
)


@dataclass(frozen=True, slots=True)
class Watchful:
    """A policy of the engine that checks, before it decides, that nothing is allocated twice."""

    name: str
    every: float | None = None

    def choose(self, world: World, request: Request, evict: bool) -> Decision:
        for each in world.cluster.nodes():
            free = world.cluster.free(each.name)
            assert min(free.cpu, free.memory, free.pods) >= 0
            assert all(left.memory >= 0 and left.compute >= 0 for left in free.devices)
        return RequestPolicy(self.name).choose(world, request, evict)


def made(rows: list[tuple[int, int, int | None, int, int, int, tuple[tuple[int, int], ...]]]) -> list[Job]:
    """Return jobs with drawn values."""
    return [
        job(f"j{index}", at, seconds, gib, gpus=gpus, priority=priority, replicas=replicas, real=real)
        for index, (at, seconds, gib, gpus, priority, replicas, real) in enumerate(rows)
    ]


@settings(max_examples=60, deadline=None)
@given(
    rows=JOBS, faults=FAULTS, policy=st.sampled_from(["fairlead", "exclusive", "spread"]), kept=st.booleans()
)
def test_every_job_is_accounted_for_and_no_capacity_is_allocated_twice(
    rows: list[tuple[int, int, int | None, int, int, int, tuple[tuple[int, int], ...]]],
    faults: list[Fault],
    policy: str,
    kept: bool,
) -> None:
    machines = fleet(node("a", 2), node("b", 1, 4))
    outcome = play(
        made(rows),
        machines,
        Watchful(policy),
        faults=faults,
        keep_progress=kept,
        until=20_000,
        interference="mps",
    )
    result = figures(outcome)
    counts = Counter(record.state for record in outcome.records)
    assert result["arrived"] == sum(
        result[state] for state in ("done", "running", "waiting", "refused", "failed")
    )
    assert result["arrived"] + counts[JobState.TO_COME] == len(rows)
    for record in outcome.records:
        if record.finished is not None:
            assert record.placed is not None
            assert record.finished - record.placed >= record.job.duration - 1e-6
    assert outcome.recorder.peak("allocated") <= 3 + 1e-9


@settings(max_examples=20, deadline=None)
@given(rows=JOBS, seed=st.integers(0, 5))
def test_the_same_seed_gives_the_same_bytes(
    rows: list[tuple[int, int, int | None, int, int, int, tuple[tuple[int, int], ...]]], seed: int
) -> None:
    machines = fleet(node("a", 2), node("b", 1, 4))
    failures = [RandomFaults("node", 500, 50), RandomFaults("device", 500, 50)]

    def once() -> str:
        outcome = play(
            made(rows), machines, "fairlead", failures=failures, seed=seed, until=5000, queue="kubernetes"
        )
        return json.dumps(document(Trace("t", ()), SimulationSettings(), seed, [outcome]))

    assert once() == once()


@settings(max_examples=20, deadline=None)
@given(rows=JOBS, order=st.permutations(["a", "b", "c"]))
def test_the_order_of_nodes_does_not_matter(
    rows: list[tuple[int, int, int | None, int, int, int, tuple[tuple[int, int], ...]]], order: list[str]
) -> None:
    nodes = {"a": node("a", 2), "b": node("b", 1, 4), "c": node("c", 2)}

    def once(names: list[str]) -> dict[str, float | None]:
        return ends(play(made(rows), fleet(*(nodes[name] for name in names)), "fairlead", until=20_000))

    assert once(["a", "b", "c"]) == once(order)


def test_a_policy_may_read_telemetry_and_retry_periodically() -> None:
    """Placement by measured use: the policy reads that little memory is held, and places more jobs."""

    @dataclass(frozen=True, slots=True)
    class ByUse:
        name: str = "by use"
        every: float | None = 5.0

        def choose(self, world: World, request: Request, evict: bool) -> Decision:
            readings = world.telemetry.window("server", "gpu-0", [world.now - 1, world.now])
            if len(readings) == 2 and all(reading.memory <= 2 << 30 for reading in readings):
                request = replace(request, demand=replace(request.demand, memory=Bytes(1 << 30)))
            return RequestPolicy("binpack").choose(world, request, evict)

    jobs = [job("a", 0, 100, gib=6, real=[(0, 2)]), job("b", 0, 100, gib=6, real=[(0, 2)])]
    assert ends(play(jobs, policy=ByUse())) == {"a": 100, "b": 105}
    assert ends(play(jobs)) == {"a": 100, "b": 200}


def test_a_selector_that_no_node_has_is_a_reason() -> None:
    chosen = job("j")
    picky = replace(chosen, requests=(replace(chosen.requests[0], selector=Selector.of({"zone": "x"})),))
    outcome = play([picky])
    assert records(outcome)["j"].state is JobState.REFUSED
    assert figures(outcome)["refusals"] == {"node-selector": 1}

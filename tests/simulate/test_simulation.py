"""What happens to jobs: they wait, run together, make room, and are all accounted for."""

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
from tests.simulate.plays import ends, fleet, job, lives, node, play


def test_jobs_run_together_while_there_is_room_and_the_next_begins_when_one_ends() -> None:
    outcome = play([job("a", 0, 100), job("b", 10, 100), job("c", 20, 100)])
    assert ends(outcome) == {"a": 100, "b": 110, "c": 200}
    assert lives(outcome)["c"].placed == 100


def test_exclusive_gives_each_the_whole_accelerator() -> None:
    assert ends(play([job("a"), job("b")], policy="exclusive")) == {"a": 100, "b": 200}


def test_a_start_takes_its_time_before_the_work() -> None:
    outcome = play([job("a", start=15), job("b", gib=8)])
    assert ends(outcome) == {"a": 115, "b": 215}


def test_co_runners_slow_each_other_down_for_as_long_as_they_are_together() -> None:
    outcome = play([job("a", 0, 100), job("b", 0, 55)], interference="time-slicing")
    assert ends(outcome) == pytest.approx({"a": 105.5, "b": 60.5})
    """b takes 1.1 times as long; a has 55 of its 100 s behind it by then, and is alone for the rest."""


def test_more_load_than_one_accelerator_bears_is_divided() -> None:
    outcome = play([job("a", load=1.0), job("b", load=1.0)], interference="mps")
    assert ends(outcome) == pytest.approx({"a": 205.0, "b": 205.0})


def test_who_never_fits_is_refused_at_once_with_the_reason() -> None:
    outcome = play([job("big", gib=9), job("small")])
    found = lives(outcome)
    assert found["big"].state is JobState.REFUSED
    assert figures(outcome)["refusals"] == {"accelerator-memory": 1}
    assert found["small"].finished == 100


def test_a_gang_runs_whole_or_waits_and_goes_at_the_pace_of_its_slowest() -> None:
    machines = fleet(node("a"), node("b"))
    outcome = play([job("first", 0, 50), job("gang", 0, 100, gib=8, replicas=2)], machines)
    assert ends(outcome) == {"first": 50, "gang": 150}
    late = play(
        [job("first", 0, 50), job("gang", 0, 100, replicas=2)], machines, "spread", interference="mps"
    )
    assert ends(late)["gang"] == pytest.approx(50 * 1.025 + 100 - 50, abs=2)


@pytest.mark.parametrize(("kept", "end"), [(False, 250), (True, 200)])
def test_a_higher_priority_puts_out_a_lower_one_which_comes_again(kept: bool, end: float) -> None:
    jobs = [job("low", 0, 100, gib=8), job("high", 50, 100, gib=8, priority=10)]
    outcome = play(jobs, keep_progress=kept)
    assert ends(outcome) == {"low": end, "high": 150}
    assert lives(outcome)["low"].preemptions == 1
    assert figures(outcome)["preemptions"] == 1


def test_without_preemption_and_among_equals_nobody_is_put_out() -> None:
    jobs = [job("low", 0, 100, gib=8), job("high", 50, 100, gib=8, priority=10)]
    assert ends(play(jobs, preemption=False)) == {"low": 100, "high": 200}
    equals = [job("low", 0, 100, gib=8), job("high", 50, 100, gib=8)]
    assert ends(play(equals)) == {"low": 100, "high": 200}


def test_a_gang_that_is_put_out_goes_whole() -> None:
    machines = fleet(node("a"), node("b"))
    jobs = [
        job("gang", 0, 100, gib=8, replicas=2),
        job("high", 10, 20, gib=8, priority=1),
        job("other", 15, 5),
    ]
    outcome = play(jobs, machines)
    assert ends(outcome) == {"gang": 130, "high": 30, "other": 20}


def test_who_holds_more_than_there_is_gets_killed_and_comes_again_ever_later() -> None:
    jobs = [job("a", 0, 300, real=[(0, 1), (50, 6)]), job("b", 0, 60, real=[(0, 1), (20, 3)])]
    outcome = play(jobs)
    found = lives(outcome)
    assert (found["a"].kills, found["b"].kills) == (1, 0)
    assert found["a"].finished == 360
    """It grows at 50 s, when b still holds 3 GiB; it starts again 10 s later, when b is done."""
    assert figures(outcome)["memory_kills"] == 1


def test_a_job_that_can_never_hold_what_it_needs_backs_off_for_longer_each_time() -> None:
    outcome = play([job("a", 0, 100, real=[(0, 1), (50, 9)])], until=900)
    assert lives(outcome)["a"].state is JobState.RUNNING
    assert lives(outcome)["a"].kills == 6
    """At 50, 110, 180, 270, 400 and 610 s: the back-off of 10 s doubles."""


def test_a_job_that_is_killed_too_often_is_given_up() -> None:
    outcome = play([job("a", 0, 100, real=[(0, 1), (50, 9)]), job("b", 0, 100, gib=8)], kills=3)
    assert lives(outcome)["a"].state is JobState.FAILED
    assert ends(outcome) == {"a": None, "b": 280}
    assert figures(outcome)["failed"] == 1


def test_the_jobs_of_a_failed_node_go_elsewhere_or_wait_for_its_repair() -> None:
    fault = Fault(30, "a", seconds=100)
    alone = play([job("j")], fleet(node("a")), faults=[fault])
    assert ends(alone) == {"j": 230}
    assert figures(alone)["evictions"] == 1
    two = play([job("j")], fleet(node("a"), node("b")), "binpack", faults=[fault, Fault(30, "b", seconds=1)])
    assert (ends(two)["j"] or 0) <= 131


def test_a_failed_accelerator_takes_its_jobs_along_and_no_other() -> None:
    machines = fleet(node("a", gpus=2))
    jobs = [job("left", gib=None), job("right", gib=None)]
    outcome = play(jobs, machines, faults=[Fault(30, "a", "gpu-0", 10)])
    assert sorted(end or 0 for end in ends(outcome).values()) == [100, 140]


def test_a_machine_that_never_comes_back_leaves_its_jobs_waiting() -> None:
    outcome = play([job("j")], faults=[Fault(30, "server")])
    assert lives(outcome)["j"].state is JobState.WAITING


def test_random_failures_end_with_the_jobs() -> None:
    outcome = play([job("j", seconds=5000)], failures=[RandomFaults("node", 3600, 60)], keep_progress=True)
    assert lives(outcome)["j"].state is JobState.DONE


def test_a_job_without_an_end_runs_until_the_others_are_done() -> None:
    outcome = play([job("service", seconds=float("inf")), job("batch", 10, 20)])
    assert lives(outcome)["service"].state is JobState.RUNNING
    assert outcome.end == 30


def test_until_ends_it() -> None:
    outcome = play([job("a", 0, 100), job("b", 80, 100)], until=50)
    found = figures(outcome)
    assert (found["arrived"], found["running"], found["end_s"]) == (1, 1, 50)


def test_energy_and_allocation_follow_from_who_was_there() -> None:
    found = figures(play([job("a", 0, 100, load=0.5)], fleet(node(gpus=2))))
    assert found["energy_j"] == 100 * (10 + 20 + 0.5 * 80)
    assert found["allocation_percent"] == {"mean": 25.0, "peak": 25.0}
    assert found["utilisation_percent"] == {"mean": 25.0, "peak": 25.0}
    assert found["memory_used_bytes"]["mean"] == 4 << 30


# Whatever happens

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
    """A policy of the engine that looks, before it decides, whether anything is handed out twice."""

    name: str
    every: float | None = None

    def choose(self, world: World, request: Request, evict: bool) -> Decision:
        for each in world.cluster.nodes():
            free = world.cluster.free(each.name)
            assert min(free.cpu, free.memory, free.pods) >= 0
            assert all(left.memory >= 0 and left.compute >= 0 for left in free.devices)
        return RequestPolicy(self.name).choose(world, request, evict)


def made(rows: list[tuple[int, int, int | None, int, int, int, tuple[tuple[int, int], ...]]]) -> list[Job]:
    """Return jobs of drawn figures."""
    return [
        job(f"j{index}", at, seconds, gib, gpus=gpus, priority=priority, replicas=replicas, real=real)
        for index, (at, seconds, gib, gpus, priority, replicas, real) in enumerate(rows)
    ]


@settings(max_examples=60, deadline=None)
@given(
    rows=JOBS, faults=FAULTS, policy=st.sampled_from(["fairlead", "exclusive", "spread"]), kept=st.booleans()
)
def test_every_job_is_somewhere_and_nothing_is_handed_out_twice(
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
    found = figures(outcome)
    counts = Counter(life.state for life in outcome.records)
    assert found["arrived"] == sum(
        found[state] for state in ("done", "running", "waiting", "refused", "failed")
    )
    assert found["arrived"] + counts[JobState.TO_COME] == len(rows)
    for life in outcome.records:
        if life.finished is not None:
            assert life.placed is not None
            assert life.finished - life.placed >= life.job.duration - 1e-6
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


def test_a_policy_may_read_what_was_measured_and_look_again_in_time() -> None:
    """The seam for placement by use: it sees that little is held, and places more than that."""

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
    assert lives(outcome)["j"].state is JobState.REFUSED
    assert figures(outcome)["refusals"] == {"node-selector": 1}

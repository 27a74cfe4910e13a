"""Summaries of many runs: steady on a busy machine, and never less than the CPU time of the thread."""

import math
from collections.abc import Iterator, Mapping

import pytest

from fairlead.calibrate.infer import answer_queries
from fairlead.calibrate.timing import (
    Clocks,
    RunSample,
    least_disturbed,
    longest_wait,
    sample,
    summarise,
    warm_up,
)


class World:
    """A clock that only a step advances; every fourth step, other programs have the CPU for a while."""

    def __init__(self, takes: float, stolen: float = 0.0) -> None:
        self.now = self.worked = 0.0
        self.waits = {"1": 0.0}
        self.steps = 0
        self._takes, self._stolen = takes, stolen

    def step(self) -> None:
        self.steps += 1
        stolen = self._stolen if self.steps % 4 == 0 else 0.0
        self.now += self._takes + stolen
        self.worked += self._takes
        self.waits["1"] += stolen

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.worked, lambda: dict(self.waits))


def test_a_model_runs_for_as_long_as_its_budget() -> None:
    world = World(0.01)
    samples = sample(world.step, 1.0, world.clocks)
    assert len(samples) == pytest.approx(100, abs=1)
    assert samples[0].seconds == pytest.approx(0.01)


def test_an_engine_tells_its_latency_from_the_time_that_others_took() -> None:
    world = World(0.01, stolen=0.05)
    answers = answer_queries(world.step, 8, 0.0, world.clocks)
    assert [round(answer.wall, 3) for answer in answers] == [0.06, 0.01, 0.01, 0.01, 0.06, 0.01, 0.01, 0.01]
    assert {round(answer.seconds, 3) for answer in answers} == {0.01}


@pytest.mark.parametrize(
    ("takes", "runs"),
    [
        (0.4, 5),  # slow: the fewest runs, beyond the budget
        (20.0, 1),  # far too slow: one run is enough
        (1e-6, 10_000),  # quick: as many as make a difference
    ],
)
def test_slow_and_quick_models_get_a_sensible_number_of_runs(takes: float, runs: int) -> None:
    world = World(takes)
    assert len(sample(world.step, 1.0, world.clocks)) == runs


def test_warming_up_counts_for_nothing_and_runs_at_least_once() -> None:
    world = World(30.0)
    warm_up(world.step, 1.0, world.clocks)
    assert world.steps == 1


def test_time_waiting_for_a_cpu_is_subtracted() -> None:
    world = World(0.01, stolen=0.05)
    timing = summarise([sample(world.step, 1.0, world.clocks)])
    assert timing.seconds == pytest.approx(0.01)
    assert timing.p90 == pytest.approx(0.01)
    assert timing.waited == pytest.approx(0.05 / 0.09, abs=0.05)


def test_the_time_of_a_run_is_at_least_its_cpu_time() -> None:
    assert RunSample(wall=10.0, waited=9.5, worked=8.0).seconds == 8.0
    assert RunSample(wall=10.0, waited=1.0, worked=8.0).seconds == 9.0


def test_the_quickest_round_counts() -> None:
    slow = [RunSample(1.5)] * 9
    quick = [RunSample(1.0)] * 7 + [RunSample(3.0)] * 2
    timing = summarise([slow, quick, []])
    assert (timing.seconds, timing.p90, timing.runs) == (1.0, 3.0, 18)


@pytest.mark.parametrize(
    ("rounds", "noise"),
    [
        ([[RunSample(1.0)] * 5], 0.0),
        ([[RunSample(1.0)] * 5, [RunSample(1.2)] * 5, [RunSample(9.0)] * 5], math.log(1.2)),
        ([[RunSample(1.0)] * 2 + [RunSample(1.3)] * 3], math.log(1.3)),
    ],
)
def test_noise_is_how_far_usual_rounds_and_runs_lie_above_the_best(
    rounds: list[list[RunSample]], noise: float
) -> None:
    assert summarise(rounds).noise == pytest.approx(noise)


def test_runs_that_waited_are_left_out_where_there_are_others() -> None:
    calm, disturbed = [RunSample(1.0)] * 5, [RunSample(9.0, 7.0)] * 4
    assert least_disturbed([*calm, *disturbed]) == calm


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ({}, {}, 0.0),
        ({"1": 1.0, "2": 5.0}, {"1": 1.5, "2": 5.2}, 0.5),
        ({"1": 1.0}, {"1": 1.0, "9": 4.0}, 0.0),  # a thread that started during the run
        ({"1": 1.0, "2": 1.0}, {"1": 1.1}, 0.1),  # a thread that ended during the run
    ],
)
def test_the_wait_of_a_run_is_the_longest_wait_of_a_thread(
    before: Mapping[str, float], after: Mapping[str, float], seconds: float
) -> None:
    assert longest_wait(before, after) == pytest.approx(seconds)


def rounds() -> Iterator[list[RunSample]]:
    yield from ([RunSample(float(number))] for number in (3, 1, 2))


def test_one_run_is_enough_for_figures() -> None:
    timing = summarise(list(rounds()))
    assert (timing.seconds, timing.p90, timing.runs, timing.waited) == (1.0, 1.0, 3, 0.0)

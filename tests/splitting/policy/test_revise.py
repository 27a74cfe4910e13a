"""The decision while a job runs: it follows the rates, and noise moves nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.splitting.policy.decide import behind
from fairlead.splitting.policy.facts import Compute, OffloadFacts, OffloadLink, OffloadObjective, SideFacts
from fairlead.splitting.policy.rates import SideRate
from fairlead.splitting.policy.revise import Hysteresis, PolicyState, begin, revise
from tests.splitting.policy.worlds import JOBS, job

RULES = Hysteresis()
LINK = OffloadLink(1e9, 1e9)


def run(facts: Sequence[OffloadFacts], first: OffloadFacts) -> list[PolicyState]:
    """Return the states of a job, one a second."""
    states = [begin(first, 0.0)]
    for second, each in enumerate(facts, 1):
        states.append(revise(states[-1], each, float(second)))
    return states


def computes(states: Sequence[PolicyState]) -> list[str]:
    return [state.chosen.compute.value if state.chosen else "nothing" for state in states]


def test_a_measured_device_that_is_slow_is_left_out_after_a_while() -> None:
    both, server = job(1.0, 4.0, link=LINK), job(0.001, 4.0, link=LINK, objective=OffloadObjective.ENERGY)
    energy = replace(
        server, device=replace(server.device, busy_watts=6.0, idle_watts=0.1), inputs=both.inputs
    )
    states = run([energy] * 6, both)
    assert computes(states)[:4] == ["split"] * 4  # three seconds of patience
    assert computes(states)[4:] == ["server"] * 3
    assert states[-1].changes == 1


def test_a_lost_link_is_followed_at_once_and_its_return_after_a_rest() -> None:
    near, away = job(1.0, 4.0, link=LINK), job(1.0, 4.0, link=None)
    states = run([near, away, *[near] * 14], near)
    assert computes(states)[:3] == ["split", "split", "device"]
    assert computes(states).index("split", 3) == 2 + RULES.rest_s


def test_what_was_measured_decides_as_soon_as_it_is_known() -> None:
    unknown, known = job(None, 300.0, link=LINK), job(1.0, 300.0, link=LINK)
    states = run([unknown, known], unknown)
    assert computes(states) == ["split", "split", "server"]
    assert "splitting cannot help" in states[-1].decision.reason


def test_near_the_end_nothing_is_changed() -> None:
    slow = replace(job(0.5, 100.0, link=LINK), inputs=0.4)
    states = run([slow] * 9, replace(slow, link=None))
    assert computes(states) == ["device"] * 10
    assert "kept" in states[-1].decision.reason


def test_nothing_is_possible_until_a_side_is_back() -> None:
    gone = job(1.0, 4.0, link=None, on_device=0.0)
    states = run([gone, job(1.0, 4.0, link=LINK)], job(1.0, 4.0, link=LINK))
    assert computes(states) == ["split", "nothing", "split"]


@pytest.mark.parametrize(("server", "changes"), [(0.10, 0), (0.20, 1)])
def test_only_what_is_well_behind_is_left(server: float, changes: int) -> None:
    side = SideFacts(SideRate(1.0), busy_watts=6.0, idle_watts=6.0)
    back = job(side, server, link=LINK, objective=OffloadObjective.ENERGY)
    states = run([back] * 20, replace(back, link=None))
    assert computes(states)[0] == "device"
    assert states[-1].changes == changes


@pytest.mark.parametrize(
    ("first", "then", "computed"),
    [(60, 90, "split"), (60, 110, "split"), (60, 140, "server"), (400, 90, "server"), (400, 60, "split")],
)
def test_a_side_joins_at_a_gain_of_1_25_percent_and_leaves_below_0_8(
    first: float, then: float, computed: str
) -> None:
    states = run([job(1.0, then, link=LINK)] * 20, job(1.0, first, link=LINK))
    assert computes(states)[-1] == computed


def test_a_side_that_joins_unmeasured_is_measured_at_once() -> None:
    alone = job(SideFacts(refusal="no worker"), 4.0, link=LINK)
    joined = job(None, 4.0, link=LINK)
    states = run([alone, joined, job(1.0, 4.0, link=LINK)], alone)
    assert computes(states) == ["server", "server", "split", "split"]


@given(st.lists(st.tuples(st.floats(0.96, 1.04), st.floats(0.96, 1.04)), max_size=40), st.floats(0.1, 100))
def test_noise_moves_nothing(noise: list[tuple[float, float]], ratio: float) -> None:
    steady = job(1.0, ratio, link=LINK)
    states = run([job(one, ratio * two, link=LINK) for one, two in noise], steady)
    assert states[-1].changes == 0


@given(JOBS, st.lists(JOBS, min_size=1, max_size=30))
def test_a_change_never_takes_what_is_behind_another(first: OffloadFacts, rest: list[OffloadFacts]) -> None:
    states = run(rest, first)
    for before, after, facts in zip(states, states[1:], rest, strict=False):
        chosen = after.decision.chosen
        if chosen is None:
            assert not after.decision.alternatives
            continue
        assert chosen in after.decision.alternatives
        if after.changes > before.changes:
            best = after.decision.alternatives[0]
            assert behind(chosen, best, facts.objective) <= RULES.margin


@given(JOBS, JOBS)
def test_what_stays_behind_is_left_in_time(first: OffloadFacts, then: OffloadFacts) -> None:
    patience = int(RULES.patience_s + RULES.rest_s) + 3
    last = run([then] * patience, first)[-1].decision
    if last.chosen is None or last.chosen.seconds is None or last.chosen.seconds <= RULES.saves_s:
        return
    assert behind(last.chosen, last.alternatives[0], then.objective) <= RULES.margin


@pytest.mark.parametrize("compute", Compute)
def test_the_sites_of_an_alternative_are_those_that_workers_name(compute: Compute) -> None:
    names = {"device": ("device",), "server": ("pod",), "split": ("device", "pod")}
    assert compute.sites == names[compute.value]

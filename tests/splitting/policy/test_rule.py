"""The policy over running jobs, in virtual time: makespans against the ideal, who works, what it believes."""

import json
from dataclasses import replace

import pytest

from fairlead.splitting.bound import RateChange, ideal_makespan
from fairlead.splitting.chunks import TimedChunks
from fairlead.splitting.policy.document import facts_of, facts_to_json
from fairlead.splitting.policy.facts import OffloadFacts, OffloadObjective, SideFacts
from fairlead.splitting.policy.rates import RateBasis, SideRate
from fairlead.splitting.policy.rule import OffloadRule
from fairlead.splitting.queue import SplitQueue
from fairlead.splitting.rules import SplitRules
from tests.splitting.play import Play, PlayedWorker
from tests.splitting.policy.worlds import job

STATED = facts_of({})
THRIFTY = replace(STATED, device=SideFacts(busy_watts=9.0, idle_watts=0.5), objective=OffloadObjective.ENERGY)
RULES = SplitRules()
EACH = 100.0
"""Seconds that all workers together take."""


def play(
    rates: tuple[float, float], facts: OffloadFacts = STATED, sites: tuple[str, ...] = (), inputs: int = 2000
) -> tuple[OffloadRule, Play]:
    """Return a job of a device and a server that is ready to be played."""
    one = inputs / EACH / sum(rates)
    rule = OffloadRule(TimedChunks(RULES, sites), facts)
    crew = [PlayedWorker("d", one * rates[0]), PlayedWorker("s", one * rates[1], "pod")]
    world = Play(SplitQueue(RULES, rule), crew, inputs)
    return rule, world


def chosen(rule: OffloadRule) -> str:
    assert rule.state is not None
    assert rule.state.chosen is not None
    return rule.state.chosen.compute.value


@pytest.mark.parametrize("ratio", [36.8, 7.25, 3.7, 1.4, 1.0, 0.2])
def test_a_split_that_helps_is_as_fast_as_all_rates_together(ratio: float) -> None:
    rule, world = play((1.0, ratio))
    done = world.run(most=1000.0)
    assert done.results == 2000
    assert done.makespan < 1.015 * EACH
    assert chosen(rule) == "split"


def test_where_splitting_cannot_help_the_server_works_alone() -> None:
    rule, world = play((1.0, 306.0))
    done = world.run(most=1000.0)
    assert chosen(rule) == "server"
    assert done.by["d"] <= 2  # that measured it
    assert done.makespan < 1.01 * EACH
    assert rule.state is not None
    assert "splitting cannot help" in rule.state.decision.reason


def test_a_device_that_slows_down_leaves_and_one_that_recovers_comes_back() -> None:
    _, world = play((1.0, 20.0))
    device = world.workers[0]
    rate = device.rate
    world.strikes = [
        (400, lambda: world.change_rate(device, rate / 20)),
        (800, lambda: world.change_rate(device, rate)),
    ]
    done = world.run(most=1000.0)
    assert done.results == 2000
    assert done.makespan < 1.02 * ideal_makespan(
        2000, [rate, 20 * rate], [RateChange(20, [rate / 20, 20 * rate]), RateChange(41, [rate, 20 * rate])]
    )


def test_a_lost_server_leaves_the_rest_to_the_device() -> None:
    rule, world = play((1.0, 3.7), THRIFTY, inputs=300)
    server = world.workers[1]

    def lose() -> None:
        server.lost = True

    world.strikes = [(250, lose)]
    done = world.run(most=1000.0)
    assert done.results == 300
    assert done.by["d"] > 40
    assert chosen(rule) == "device"


def test_a_side_that_was_not_asked_for_gets_nothing() -> None:
    rule, world = play((1.0, 3.7), sites=("device",))
    done = world.run(most=1000.0)
    assert done.by == {"d": 2000, "s": 0}
    assert chosen(rule) == "device"


def test_energy_of_the_device_keeps_it_out() -> None:
    rule, world = play((1.0, 3.7), THRIFTY)
    done = world.run(most=1000.0)
    assert done.by["d"] < 20
    assert chosen(rule) == "server"


def test_a_prediction_counts_until_it_is_measured() -> None:
    predicted = SideFacts(SideRate(1e-4, 0.2, RateBasis.PREDICTED))  # it is 500 times as fast
    _, world = play((1.0, 3.7), replace(STATED, device=predicted))
    done = world.run(most=1000.0)
    assert done.results == 2000
    assert done.makespan < 1.3 * EACH  # never measured, it is believed: a firm prediction of a bad device


def test_facts_are_the_same_after_a_document() -> None:
    facts = job(
        SideFacts(SideRate(2.0, 0.3, RateBasis.PREDICTED), busy_watts=5.0, energy=70.0), 4.0, inputs=0.0
    )
    text = json.dumps(facts_to_json(facts))
    again = facts_of(json.loads(text))
    assert facts_to_json(again) == json.loads(text)
    assert again.device == facts.device
    assert facts_of({}).device == SideFacts()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"input_bytes": -1}, "input_bytes: not a number of 0 or more"),
        ({"device": {"rate": "fast"}}, "rate: not a number of 0 or more"),
        ({"device": [1]}, "device: not an object"),
        ({"link": {"up": True}}, "up: not a number"),
        ({"objective": "fame"}, "fame"),
        ({"storage": "moon"}, "moon"),
    ],
)
def test_a_wrong_document_is_refused(document: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        facts_of(document)

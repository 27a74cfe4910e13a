"""The split in virtual time: makespans against the ideal sum of rates, and nothing twice."""

import pytest

from fairlead.splitting.bound import RateChange, ideal_makespan
from fairlead.splitting.chunks import TimedChunks
from fairlead.splitting.peers import PEERS, rule_named
from fairlead.splitting.queue import SplitQueue
from fairlead.splitting.rules import SplitRules
from tests.splitting.play import Play, Played, PlayedWorker

RATES = ((1, 37), (1, 306), (1, 7.25), (1, 3.7), (1, 1.4), (1, 1, 5), (1, 2, 3, 4))
EVENTS = ("device-slows", "server-halves", "device-lost")


def workers(rates: tuple[float, ...], inputs: int, seconds: float) -> list[PlayedWorker]:
    """Return workers that together do so many inputs in so many seconds."""
    one = inputs / seconds / sum(rates)
    last = len(rates) - 1
    return [
        PlayedWorker(f"w{number}", one * rate, "pod" if number == last else "device")
        for number, rate in enumerate(rates)
    ]


def played(
    rates: tuple[float, ...], inputs: int, seconds: float, event: str = "", share: float = 0.5
) -> tuple[Played, float]:
    """Play a job; return what came of it, and how far it was over the ideal."""
    crew = workers(rates, inputs, seconds)
    play = Play(SplitQueue(), crew, inputs)
    before = [each.rate for each in crew]
    changes: list[RateChange] = []

    def strike() -> None:
        if event == "device-lost":
            crew[0].lost = True
        elif event == "device-slows":
            play.change_rate(crew[0], 0.3 * crew[0].rate)
        else:
            play.change_rate(crew[-1], 0.5 * crew[-1].rate)
        changes.append(RateChange(play.now, [0.0 if each.lost else each.rate for each in crew]))

    if event:
        play.strikes.append((int(inputs * share), strike))
    done = play.run()
    return done, done.makespan / ideal_makespan(inputs, before, changes) - 1


@pytest.mark.parametrize("rates", RATES, ids=str)
@pytest.mark.parametrize(("inputs", "seconds"), [(1000, 5.0), (3000, 100.0)])
def test_the_makespan_is_within_one_percent_of_the_sum_of_rates(
    rates: tuple[float, ...], inputs: int, seconds: float
) -> None:
    done, over = played(rates, inputs, seconds)
    assert done.results == inputs
    assert over < 0.01
    ideal = [rate / sum(rates) * inputs for rate in rates]
    assert list(done.by.values()) == pytest.approx(ideal, abs=0.01 * inputs + 3)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("rates", [(1, 37), (1, 3.7), (1, 1.4), (1, 1, 5)], ids=str)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9, 0.98])
def test_a_change_in_the_middle_costs_less_than_two_percent(
    event: str, rates: tuple[float, ...], share: float
) -> None:
    done, over = played(rates, 2000, 10.0, event, share)
    assert done.results == 2000
    assert over < 0.02


@pytest.mark.parametrize("inputs", [1, 2, 3, 10])
@pytest.mark.parametrize("rates", [(1, 37), (1, 1.4), (1, 1, 5)], ids=str)
def test_few_inputs_are_done_as_soon_as_whole_inputs_can_be(rates: tuple[float, ...], inputs: int) -> None:
    done, _ = played(rates, inputs, 10.0)
    one = inputs / 10.0 / sum(rates)
    times = sorted(count / (one * rate) for rate in rates for count in range(1, inputs + 1))
    assert done.results == inputs
    # The first inputs go to workers of which nothing is known: one of them may be one too many.
    assert done.makespan <= times[inputs - 1] + 1 / (one * max(rates)) + 0.2


@pytest.mark.parametrize("name", PEERS)
def test_the_rules_of_others_end_and_are_slower(name: str) -> None:
    crew = workers((1, 7.25), 1000, 10.0)
    rules = SplitRules()
    shares = {"w0": 1.3, "w1": 7.25}
    rule = rule_named(name, rules, shares, lambda: TimedChunks(rules))
    done = Play(SplitQueue(rules, rule), crew, 1000).run()
    assert done.results == 1000
    assert done.makespan > played((1, 7.25), 1000, 10.0)[0].makespan


def test_the_ideal_follows_the_rates() -> None:
    assert ideal_makespan(100, (4, 6)) == 10.0
    assert ideal_makespan(100, (4, 6), (RateChange(5.0, (0, 5)),)) == 15.0
    assert ideal_makespan(100, (4, 6), (RateChange(11.0, (0, 0)),)) == 10.0

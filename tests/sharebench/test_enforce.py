"""How an offender ended, and what enforcement costs: pure parts, as tables."""

import pytest

from fairlead.sharebench.enforce import _offence, cost_figures
from fairlead.sharebench.events import EngineEvents
from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.turns import BLOCK, block_rates
from fairlead.sharebench.workload import ServingEngine
from tests.sharebench.worlds import SMALL


@pytest.mark.parametrize(
    ("events", "ended", "how", "seconds", "held"),
    [
        (EngineEvents(1, grows=5.0, refused=5.25, error="out of memory"), 6.0, "refused", 0.25, True),
        (EngineEvents(1, grows=5.0, grew=5.5), 6.25, "stopped", 0.75, True),
        (EngineEvents(1, grows=5.0, grew=5.5), 7.0, "stopped", 1.5, False),
        (EngineEvents(1, grows=5.0, grew=5.5, digest="all"), 9.0, "not stopped", None, False),
        (EngineEvents(1), 9.0, "failed before it took more", None, False),
        (EngineEvents(1, grows=5.0, grew=5.5), None, "failed before it took more", None, False),
    ],
)
def test_how_an_offender_ended(
    events: EngineEvents, ended: float | None, how: str, seconds: float | None, held: bool
) -> None:
    result = _offence(EngineOutcome(ServingEngine("o", SMALL), 0.0, 1.0, ended, 1, events=events))
    assert (result["how"], result["seconds"], result["held"]) == (how, seconds, held)


def test_the_cost_is_the_median_of_the_ratios_of_each_round() -> None:
    none = [100.0, 50.0, 100.0, 50.0, 100.0]  # the machine is half as fast every second time
    result = cost_figures({"none": none, "watchdog": [98.0, 49.5, 98.0, 49.0, 120.0], "mps": none[::-1]})
    assert (result["watchdog_ratio"], result["watchdog_in_bar"], result["rounds"]) == (0.98, True, 5)
    assert result["watchdog_ratio_middle_half"] == [0.98, 0.99]
    assert (result["mps_ratio"], result["mps_in_bar"]) == (1.0, True)
    assert cost_figures({"mps": [96.0]}) == {"mps_queries_per_s": 96.0, "rounds": 0}


def test_a_rate_is_that_of_a_whole_block() -> None:
    assert block_rates([0.5] * BLOCK + [0.25] * BLOCK + [9.0]) == [2.0, 4.0]

"""The options of `fairlead bench split`, and the ideal of a plan."""

import pytest

from fairlead.errors import SettingsError
from fairlead.splitbench.plan import SplitEvent, SplitPlan, check, parse_event, parse_rates, whole_makespan


@pytest.mark.parametrize(
    ("text", "rates"),
    [("1:37", (1, 37)), ("1:1:5", (1, 1, 5)), ("0.5:3.7", (0.5, 3.7)), ("1:7.25", (1, 7.25))],
)
def test_rates(text: str, rates: tuple[float, ...]) -> None:
    assert parse_rates(text) == rates


@pytest.mark.parametrize("text", ["", "1", "1:", "1:x", "0:1", "-1:2", "nan:1", "inf:1", "1:37:" * 40 + "1"])
def test_what_is_no_rates(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_rates(text)


def test_events() -> None:
    assert parse_event("device-lost@98%") == SplitEvent("device-lost", 0.98)
    assert parse_event("server-halves@12.5%") == SplitEvent("server-halves", 0.125)
    for text in (
        "",
        "device-lost",
        "device-lost@98",
        "device-wins@3%",
        "device-lost@101%",
        "device-lost@-1%",
    ):
        with pytest.raises(SettingsError):
            parse_event(text)


def test_together_the_workers_do_the_inputs_in_the_seconds() -> None:
    plan = SplitPlan((1, 1, 6), 800, 10.0)
    assert plan.rates == (10, 10, 60)
    assert plan.names == ("device-1", "device-2", "server")
    assert plan.struck(SplitEvent("server-halves", 0.5)) == (10, 10, 30)
    assert plan.struck(SplitEvent("device-slows", 0.5)) == pytest.approx((3, 10, 60))
    assert plan.struck(SplitEvent("device-lost", 0.5)) == (0, 10, 60)


def test_a_link_that_carries_the_inputs_does_not_change_the_ideal() -> None:
    plan = SplitPlan((1, 3), 400, 10.0, link=100_000)
    assert plan.best_rates == plan.rates
    assert 0 < plan.input_size * plan.rates[0] < 100_000
    assert SplitPlan((1, 3), 400, 10.0, link=100_000, size=20_000).best_rates == (5, 30)


@pytest.mark.parametrize(
    "plan",
    [
        SplitPlan((1, 1), 0, 1.0),
        SplitPlan((1, 1), 10, 0.0),
        SplitPlan((1, 1), 10, float("nan")),
        SplitPlan((1, 1), 10, 1.0, link=1.0),
        SplitPlan((1, 1), 10, 1.0, rule="x"),
        SplitPlan((1, 1), 10, 1.0, rule="halves", event=SplitEvent("device-lost", 0.5)),
    ],
    ids=str,
)
def test_what_cannot_be_run(plan: SplitPlan) -> None:
    with pytest.raises(SettingsError):
        check(plan)


def test_whole_inputs_take_longer_than_their_sum() -> None:
    assert whole_makespan(20, (0.8333333, 1.1666667)) == pytest.approx(12 / 1.1666667)
    assert whole_makespan(10, (1, 1)) == pytest.approx(5)
    assert whole_makespan(1, (1, 10)) == pytest.approx(0.1)

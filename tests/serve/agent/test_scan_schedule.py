"""When the agent looks again."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead.serve.agent.scan_schedule import (
    ScanSchedule,
    after_sample,
    after_scan,
    after_uevent,
    scan_cause,
    time_until_due,
)
from fairlead.settings.agent import AgentSettings
from fairlead.units import Seconds

SETTINGS = AgentSettings(sweep=Seconds(300), sample=Seconds(10), debounce=Seconds(1))
START = ScanSchedule(sweep_at=Seconds(0), sample_at=Seconds(0))


def test_a_new_agent_scans_at_once_and_measures_what_it_found() -> None:
    assert scan_cause(START, Seconds(0)) == "sweep"
    plan = after_scan(START, Seconds(2), SETTINGS)
    assert scan_cause(plan, Seconds(2)) is None
    assert (plan.sweep_at, plan.sample_at) == (Seconds(302), Seconds(2))
    assert time_until_due(plan, Seconds(2)) == Seconds(0)


def test_measurements_keep_their_beat_and_skip_what_they_missed() -> None:
    plan = after_sample(ScanSchedule(Seconds(999), Seconds(10)), Seconds(10.4), SETTINGS)
    assert plan.sample_at == Seconds(20)
    assert after_sample(plan, Seconds(95), SETTINGS).sample_at == Seconds(105)


def test_a_burst_of_events_is_one_scan_once_it_settled() -> None:
    plan = after_scan(START, Seconds(0), SETTINGS)
    for now in (5.0, 5.5, 6.0):
        plan = after_uevent(plan, Seconds(now), SETTINGS)
    assert scan_cause(plan, Seconds(6.9)) is None
    assert scan_cause(plan, Seconds(7.0)) == "uevent"
    assert scan_cause(after_scan(plan, Seconds(7.0), SETTINGS), Seconds(8.5)) is None


def test_nothing_is_due_before_the_wait_is_over() -> None:
    plan = after_uevent(ScanSchedule(Seconds(300), Seconds(10)), Seconds(4), SETTINGS)
    assert time_until_due(plan, Seconds(4)) == Seconds(1)
    assert time_until_due(plan, Seconds(50)) == Seconds(0)


@given(st.lists(st.floats(0.01, 0.9), min_size=1, max_size=200))
def test_a_storm_puts_the_scan_off_for_ten_debounce_times_at_most(gaps: list[float]) -> None:
    plan, now = ScanSchedule(Seconds(1e6), Seconds(1e6)), 0.0
    for gap in gaps:
        plan = after_uevent(plan, Seconds(now), SETTINGS)
        assert plan.event_at is not None
        assert plan.event_at <= 10 * SETTINGS.debounce
        now += gap
    assert scan_cause(plan, Seconds(10.0)) == "uevent"

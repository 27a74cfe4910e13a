"""When the agent scans and samples next."""

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


def test_a_new_agent_scans_at_once_and_then_samples() -> None:
    assert scan_cause(START, Seconds(0)) == "sweep"
    schedule = after_scan(START, Seconds(2), SETTINGS)
    assert scan_cause(schedule, Seconds(2)) is None
    assert (schedule.sweep_at, schedule.sample_at) == (Seconds(302), Seconds(2))
    assert time_until_due(schedule, Seconds(2)) == Seconds(0)


def test_samples_keep_their_phase_and_skip_missed_beats() -> None:
    schedule = after_sample(ScanSchedule(Seconds(999), Seconds(10)), Seconds(10.4), SETTINGS)
    assert schedule.sample_at == Seconds(20)
    assert after_sample(schedule, Seconds(95), SETTINGS).sample_at == Seconds(105)


def test_a_burst_of_events_causes_one_scan_after_it_settles() -> None:
    schedule = after_scan(START, Seconds(0), SETTINGS)
    for now in (5.0, 5.5, 6.0):
        schedule = after_uevent(schedule, Seconds(now), SETTINGS)
    assert scan_cause(schedule, Seconds(6.9)) is None
    assert scan_cause(schedule, Seconds(7.0)) == "uevent"
    assert scan_cause(after_scan(schedule, Seconds(7.0), SETTINGS), Seconds(8.5)) is None


def test_nothing_is_due_before_the_wait_is_over() -> None:
    schedule = after_uevent(ScanSchedule(Seconds(300), Seconds(10)), Seconds(4), SETTINGS)
    assert time_until_due(schedule, Seconds(4)) == Seconds(1)
    assert time_until_due(schedule, Seconds(50)) == Seconds(0)


@given(st.lists(st.floats(0.01, 0.9), min_size=1, max_size=200))
def test_an_endless_burst_delays_the_scan_by_at_most_ten_debounce_times(gaps: list[float]) -> None:
    schedule, now = ScanSchedule(Seconds(1e6), Seconds(1e6)), 0.0
    for gap in gaps:
        schedule = after_uevent(schedule, Seconds(now), SETTINGS)
        assert schedule.event_at is not None
        assert schedule.event_at <= 10 * SETTINGS.debounce
        now += gap
    assert scan_cause(schedule, Seconds(10.0)) == "uevent"

"""Series of measured use: bounded, checked, stale by their times, and never a zero for what is missing."""

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.series import Staleness
from fairlead.units import Bytes
from fairlead.usage.history import UseHistory
from fairlead.usage.limits import UseLimits
from fairlead.usage.track import DeviceUse
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport, UseSample

GPU = DeviceKey("node-1", "pci-0000-01-00-0")
POD = PodDeviceKey("uid-1", *GPU)
START = 1_000_000.0
GIB = 2**30


def sample(at: float, memory: Any = GIB, busy: Any = 0.5) -> UseSample:
    return UseSample(at, memory, busy)


def report(at: float, *samples: UseSample, **more: Any) -> UseReport:
    """Return a report of one sample of one device, or of none."""
    return UseReport(at, "prometheus", dict.fromkeys([GPU], samples[0]) if samples else {}, **more)


def points(use: DeviceUse) -> list[tuple[float, float]]:
    return list(zip(use.memory.times, use.memory.values, strict=True))


def test_a_series_grows_by_one_point_for_each_new_sample() -> None:
    history = UseHistory()
    for step in range(4):
        history.on_report(
            UseReport(START + step, "agents", {GPU: sample(START + step, step * GIB)}, {POD: sample(START)})
        )
    use = history.device(GPU)
    assert points(use) == [(START + step, step * GIB) for step in range(4)]
    assert list(use.busy.values) == [0.5] * 4
    assert (use.memory.source, use.memory.staleness(START + 3, 60)) == ("agents", Staleness.FRESH)
    assert len(history.pod(POD).memory) == 1, "a repeated sample is one point"
    assert (list(history.devices()), list(history.pods())) == ([GPU], [POD])
    assert history.device(DeviceKey("node-2", "x")) == DeviceUse()


def test_series_that_were_handed_out_do_not_change() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START)))
    before = history.device(GPU)
    history.on_report(report(START + 15, sample(START + 15)))
    assert len(before.memory) == 1
    assert len(history.device(GPU).memory) == 2


def test_a_value_that_was_not_measured_is_absent() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START, None, 0.25)))
    history.on_report(report(START + 1, sample(START + 1, GIB, None)))
    use = history.device(GPU)
    assert points(use) == [(START + 1, GIB)]
    assert (list(use.busy.times), list(use.busy.values)) == ([START], [0.25])
    assert use.at == START + 1


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (sample(START + 31), UseFault.CLOCK_SKEW),
        (sample(START, nan, None), UseFault.NOT_A_NUMBER),
        (sample(START, inf, None), UseFault.NOT_A_NUMBER),
        (sample(START, -1, None), UseFault.OUT_OF_RANGE),
        (sample(START, 2**44 + 1, None), UseFault.OUT_OF_RANGE),
        (sample(START, None, nan), UseFault.NOT_A_NUMBER),
        (sample(START, None, 1.01), UseFault.OUT_OF_RANGE),
        (sample(START, None, -0.01), UseFault.OUT_OF_RANGE),
    ],
)
def test_a_sample_that_cannot_be_right_is_missing_with_its_fault(bad: UseSample, fault: UseFault) -> None:
    history = UseHistory()
    history.on_report(report(START, bad))
    status = history.status(START)
    assert (history.device(GPU), status.faults, status.staleness) == (
        DeviceUse(),
        {fault: 1},
        Staleness.MISSING,
    )
    assert f"1 x {fault.value}" in status.reason


def test_values_at_the_limits_are_taken() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START + 30, 2**44, 1.0)))
    history.on_report(report(START + 40, sample(START + 40, 0, 0.0)))
    assert points(history.device(GPU)) == [(START + 30, 2**44), (START + 40, 0)]
    assert history.status(START + 40).faults == {}


def test_the_good_value_of_a_sample_stays_beside_the_bad_one() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START, GIB, nan)))
    assert points(history.device(GPU)) == [(START, GIB)]
    assert history.status(START).faults == {UseFault.NOT_A_NUMBER: 1}


def test_a_series_without_new_samples_becomes_stale_and_says_since_when() -> None:
    history = UseHistory()
    assert history.status(START).reason == "no report yet"
    history.on_report(report(START, sample(START)))
    assert history.status(START + 60).staleness is Staleness.FRESH
    for step in range(1, 9):
        history.on_report(
            report(
                START + 15 * step,
                faults={UseFault.UNREACHABLE: 1},
                detail="nothing answers at http://prometheus:9090",
            )
        )
    status = history.status(START + 120)
    assert (status.staleness, status.devices_fresh, status.devices_stale) == (Staleness.STALE, 0, 1)
    assert status.reason.startswith(
        "no new sample for 120 s (limit 60 s); nothing answers at http://prometheus:9090"
    )
    assert status.to_json() == {
        "source": "prometheus",
        "staleness": "stale",
        "reason": status.reason,
        "faults": {"unreachable": 8},
        "devices": {"fresh": 0, "stale": 1},
        "pods": {"fresh": 0, "stale": 0},
        "age_s": 120.0,
    }
    assert points(history.device(GPU)) == [(START, GIB)], "stale, not zero"
    history.on_report(report(START + 135, sample(START + 135)))
    assert history.status(START + 135).reason == ""


def test_devices_without_new_samples_are_counted_beside_fresh_ones() -> None:
    history = UseHistory()
    other = DeviceKey("node-2", GPU.device)
    history.on_report(UseReport(START, "agents", dict.fromkeys((GPU, other), sample(START))))
    history.on_report(report(START + 61, sample(START + 61)))
    status = history.status(START + 61)
    assert (status.staleness, status.devices_fresh, status.devices_stale) == (Staleness.FRESH, 1, 1)
    assert status.reason == "1 of 2 devices have no new sample for 60 s"


def test_samples_that_lag_are_stale_at_once() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START - 300)))
    status = history.status(START)
    assert (status.staleness, status.faults) == (Staleness.STALE, {UseFault.LAGGING: 1})
    assert history.device(GPU).memory.staleness(START, 60) is Staleness.STALE


def test_a_key_that_is_absent_longer_than_the_window_is_dropped() -> None:
    history = UseHistory(window=100)
    history.on_report(UseReport(START, "agents", {GPU: sample(START)}, {POD: sample(START)}))
    history.on_report(report(START + 100))
    assert list(history.pods()) == [POD]
    history.on_report(report(START + 101))
    assert (list(history.pods()), list(history.devices())) == ([], [])
    assert history.status(START + 101).staleness is Staleness.STALE


def test_times_that_go_backwards_are_a_reset() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START)))
    history.on_report(report(START + 15, sample(START - 40)))
    assert points(history.device(GPU)) == [(START, GIB)]
    assert UseFault.RESET in history.status(START + 15).faults
    assert "reset or replaced" in history.status(START + 15).reason


def test_a_clock_of_the_reader_that_goes_back_drops_what_would_look_fresh() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START)))
    history.on_report(report(START - 3600))
    assert history.device(GPU) == DeviceUse()
    status = history.status(START - 3600)
    assert (status.staleness, status.faults) == (Staleness.MISSING, {UseFault.RESET: 1})


def test_what_exceeds_a_limit_is_counted_and_the_newest_points_stay() -> None:
    history = UseHistory(limits=UseLimits(keys=2, points=3))
    for step in range(5):
        history.on_report(report(START + step, sample(START + step)))
    assert list(history.device(GPU).memory.times) == [START + 2, START + 3, START + 4]
    assert history.status(START + 4).faults == {UseFault.LIMIT: 2}
    more = {DeviceKey("node", str(number)): sample(START + 5) for number in range(3)}
    history.on_report(UseReport(START + 5, "agents", more))
    assert len(list(history.devices())) == 2
    assert history.status(START + 5).faults == {UseFault.LIMIT: 4}


def test_the_bytes_of_all_points_are_bounded() -> None:
    history = UseHistory(window=10_000, limits=UseLimits(size=Bytes(24 * 30)))
    keys = [DeviceKey("node", str(number)) for number in range(10)]
    for step in range(20):
        history.on_report(UseReport(START + step, "agents", dict.fromkeys(keys, sample(START + step))))
    assert {len(history.device(key).memory) for key in keys} == {3}


def test_foreign_memory_is_known_while_it_is_fresh() -> None:
    history = UseHistory()
    history.on_report(report(START, sample(START), foreign={GPU: Bytes(5)}))
    history.on_report(report(START + 15, faults={UseFault.UNREACHABLE: 1}))
    assert history.foreign(GPU, START + 60) == 5
    assert history.foreign(GPU, START + 61) is None
    assert history.foreign(DeviceKey("other", "x"), START) is None


TIMES = st.floats(START - 900, START + 900)
VALUES = st.none() | st.floats(allow_nan=True, allow_infinity=True)
REPORTS = st.builds(
    lambda at, samples: UseReport(at, "simulation", dict(enumerate_keys(samples))),
    TIMES,
    st.lists(st.builds(UseSample, TIMES, VALUES, VALUES), max_size=4),
)


def enumerate_keys(samples: list[UseSample]) -> list[tuple[DeviceKey, UseSample]]:
    return [(DeviceKey("node", str(number)), each) for number, each in enumerate(samples)]


@given(st.lists(REPORTS, max_size=12))
def test_no_report_breaks_the_order_of_times_or_brings_an_impossible_value(reports: list[UseReport]) -> None:
    history = UseHistory(window=300, limits=UseLimits(keys=3, points=4))
    for each in reports:
        history.on_report(each)
        for key in history.devices():
            for series, most in ((history.device(key).memory, 2**44), (history.device(key).busy, 1)):
                times = list(series.times)
                assert times == sorted(set(times))
                assert all(each.at - 300 <= time <= each.at + 60 for time in times)
                assert all(0 <= value <= most for value in series.values)
        assert len(list(history.devices())) <= 3
        history.status(each.at).to_json()

"""`batch: auto` chooses sizes and waits that are nearly the best, on devices of several kinds."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.pipeline.work.batch import BatchPlan
from fairlead.pipeline.work.batch_size import BatchSizer
from fairlead.pipeline.work.call_cost import SURE, CallCost
from fairlead.units import Seconds
from tests.pipeline.batch_world import Cost, Feed, auto, fixed

MOST, LATENCY = 32, 0.1
CPU, SMALL_FIXED, GPU, SLOW_GPU, LONG = (
    (0.0, 0.01),
    (0.002, 0.01),
    (0.01, 0.001),
    (0.04, 0.002),
    (0.08, 0.001),
)
"""Seconds of each call, and of each frame in it."""


def linear(device: tuple[float, float]) -> Cost:
    """Return the cost of a device with a fixed time a call and one a frame."""
    call, frame = device
    return lambda frames, now: call + frame * frames


def best_fixed(cost: Cost, feed: Feed) -> float:
    """Return the throughput of the best fixed size and wait within the bounds."""
    sizes = [size for size in (1, 2, 4, 8, 12, 16, 20, 24, 28, MOST) if cost(size, 0.0) <= LATENCY]
    waits = [(size, share * (LATENCY - cost(size, 0.0))) for size in sizes for share in (0.0, 0.5, 1.0)]
    return max(fixed(cost, feed, size, wait).run(3.0).throughput(1.0) for size, wait in waits)


def plan_of(cost: Cost, feed: Feed, until: float = 4.0) -> BatchPlan:
    """Return the plan of a stage after a time."""
    return auto(cost, feed, MOST, LATENCY).run(until).batcher.plan


@pytest.mark.parametrize("device", [CPU, SMALL_FIXED, GPU, SLOW_GPU])
@pytest.mark.parametrize(
    "feed",
    [Feed(5), Feed(40), Feed(300), Feed(1000), Feed(300, 8, drops=True), Feed(150, 1, drops=True)],
    ids=str,
)
def test_throughput_is_within_5_per_cent_of_the_best_fixed_batches(
    device: tuple[float, float], feed: Feed
) -> None:
    cost = linear(device)
    stage = auto(cost, feed, MOST, LATENCY).run(12.0)
    assert stage.throughput(6.0) >= 0.95 * best_fixed(cost, feed)
    assert stage.latency(6.0) <= LATENCY + 1e-9


@pytest.mark.parametrize(
    ("device", "rate", "size", "most"),
    [
        (CPU, 1000.0, 1, 1),  # batches bring nothing
        (CPU, 5.0, 1, 2),  # nothing arrives with which two could be tried
        ((0.02, 0.0001), 2000.0, 31, 31),  # nearly all of a call is fixed: 31 do 97 % of what 32 do
        ((0.0004, 0.01), 1000.0, 2, 2),  # 0.96 of what is possible at 1
        (SLOW_GPU, 1000.0, 28, 28),  # 30 frames take 100 ms
        (LONG, 1000.0, 20, 20),
        ((0.12, 0.001), 1000.0, 1, 1),  # beyond the latency already with one frame
        (SLOW_GPU, 30.0, 2, 4),  # two frames in 44 ms keep up with one in 33 ms
    ],
)
def test_sizes_of_devices(device: tuple[float, float], rate: float, size: int, most: int) -> None:
    plan = plan_of(linear(device), Feed(rate))
    assert (plan.size, plan.most) == (size, most)


def test_nothing_waits_if_the_stage_keeps_up_by_itself() -> None:
    stage = auto(linear(GPU), Feed(50), MOST, LATENCY).run(4.0)
    assert (stage.batcher.plan.size, stage.batcher.plan.wait) == (1, 0.0)
    assert stage.latency(0.0) == pytest.approx(0.011)
    assert {call.frames for call in stage.calls} == {1}


def test_a_batch_waits_no_longer_than_its_frames_need() -> None:
    plan = plan_of(linear(SLOW_GPU), Feed(30))
    assert plan.size == 2
    assert plan.wait == pytest.approx(1 / 30, rel=0.1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CPU, (0.03, 0.001)),
        ((0.03, 0.0005), CPU),
        (GPU, (0.02, 0.002)),  # throttled
        ((0.02, 0.002), GPU),
        (GPU, LONG),
    ],
)
def test_a_device_that_changes_is_followed(before: tuple[float, float], after: tuple[float, float]) -> None:
    stage = auto(
        lambda frames, now: linear(before if now < 10.0 else after)(frames, now), Feed(1000), MOST, LATENCY
    )
    stage.run(30.0)
    possible = [size for size in range(1, MOST + 1) if linear(after)(size, 0.0) <= LATENCY]
    best = max(size / linear(after)(size, 0.0) for size in possible)
    assert stage.throughput(22.0) >= 0.95 * best
    smallest = next(size for size in possible if size / linear(after)(size, 0.0) >= 0.95 * best)
    assert stage.batcher.plan.most <= smallest * 2
    assert stage.latency(22.0) <= LATENCY + 1e-9


def test_a_device_that_is_flat_for_small_batches_gets_no_larger_ones() -> None:
    plan = plan_of(lambda frames, now: 0.01 * max(1.0, frames / 8), Feed(1000))
    assert plan.most == 8


def test_a_size_out_of_use_is_measured_again_though_nothing_has_drifted() -> None:
    def cost(frames: int, now: float) -> float:
        return 0.01 * max(1.0, frames / 8) if now < 5.0 else 0.01  # up to eight frames, the same as before

    stage = auto(cost, Feed(5000), MOST, LATENCY)
    assert stage.run(5.0).batcher.plan.most == 8
    assert stage.run(20.0).batcher.plan.most > 28


def test_one_slow_call_moves_little() -> None:
    cost = CallCost(1)
    for seconds in [0.01] * SURE + [1.0]:
        cost.observe(1, seconds)
    assert cost.curve() == pytest.approx([0.011])
    for _ in range(20):
        cost.observe(1, 0.01)
    assert cost.curve() == pytest.approx([0.01], rel=0.02)
    assert not cost.has_drifted


def test_the_first_slow_call_of_each_size_is_not_its_time() -> None:
    called = set[int]()

    def cost(frames: int, now: float) -> float:
        warm = frames in called
        called.add(frames)
        return linear(GPU)(frames, now) if warm else 1.0

    assert plan_of(cost, Feed(1000), 30.0).most == 29


def test_calls_that_vary_change_little() -> None:
    vary = random.Random(7)
    noise: Cost = lambda frames, now: vary.uniform(0.9, 1.1)  # noqa: E731  # a factor of each call
    cpu = plan_of(lambda frames, now: linear(CPU)(frames, now) * noise(frames, now), Feed(1000))
    assert cpu.most <= 3
    gpu = auto(lambda frames, now: linear(GPU)(frames, now) * noise(frames, now), Feed(1000), MOST, LATENCY)
    assert gpu.run(10.0).throughput(5.0) >= 0.93 * MOST / linear(GPU)(MOST, 0.0)


DEVICES = st.tuples(st.floats(0.0, 0.05), st.floats(1e-4, 0.02))
FEEDS = st.builds(Feed, st.floats(1.0, 500.0), st.integers(1, 16), st.booleans())


@settings(max_examples=30, deadline=None)
@given(DEVICES, FEEDS, st.integers(1, 40), st.floats(0.02, 0.3))
def test_bounds_are_kept_on_every_device(
    device: tuple[float, float], feed: Feed, most: int, latency: float
) -> None:
    cost = linear(device)
    stage = auto(cost, feed, most, latency).run(3.0)
    assert all(1 <= call.frames <= most for call in stage.calls)
    tries = [call for call in stage.calls if call.latency > latency + 1e-9]
    if cost(1, 0.0) > latency:
        assert all(call.frames == 1 for call in stage.calls)
    else:  # the first batches of two are a try: nothing is known of the cost of a frame
        assert all(call.frames == 2 for call in tries)
        assert len(tries) <= 5


@given(
    st.integers(1, 64),
    st.floats(1e-3, 10.0),
    st.lists(
        st.tuples(st.integers(1, 64), st.floats(1e-6, 20.0), st.floats(0.0, 5.0), st.booleans()), max_size=60
    ),
)
def test_plans_are_within_the_bounds_whatever_is_measured(
    most: int, latency: float, calls: list[tuple[int, float, float, bool]]
) -> None:
    sizer = BatchSizer(most, Seconds(latency))
    now, total = 0.0, 0
    for frames, seconds, pause, behind in calls:
        now += pause
        total += frames
        sizer.on_arrivals(total, now)
        sizer.on_call(min(frames, sizer.plan().most), seconds, behind=behind)
        plan = sizer.plan()
        assert 1 <= plan.size <= plan.most <= most
        assert 0.0 <= plan.wait <= latency
        assert plan.wait == 0.0 or plan.size > 1


@given(st.integers(1, 64), DEVICES)
def test_a_measured_line_is_known_for_every_size(most: int, device: tuple[float, float]) -> None:
    cost = CallCost(most)
    assert cost.curve() == []
    for _ in range(SURE * (most.bit_length() + 1)):
        cost.observe(cost.limit, linear(device)(cost.limit, 0.0))
    assert cost.limit == most
    assert cost.curve() == pytest.approx([linear(device)(frames, 0.0) for frames in range(1, most + 1)])
    assert not cost.has_drifted


def test_a_size_is_tried_after_five_calls_of_the_one_before() -> None:
    cost = CallCost(6)
    limits = []
    for _ in range(4 * SURE):
        limits.append(cost.limit)
        cost.observe(cost.limit, 0.01)
    assert limits == [1] * 5 + [2] * 5 + [4] * 5 + [6] * 5
    cost.observe(7, 0.01)  # more than the largest batch says nothing
    assert cost.curve() == pytest.approx([0.01] * 6)


def test_calls_between_two_sizes_move_both() -> None:
    cost = CallCost(4)
    for frames in (1, 2, 4):
        for _ in range(SURE):
            cost.observe(frames, 0.01)
    for _ in range(100):
        cost.observe(3, 0.012)
    one, two, three, four = cost.curve()
    assert one == pytest.approx(0.01)
    assert three == pytest.approx(0.012, rel=1e-3)
    assert two == pytest.approx(four)
    assert not cost.has_drifted
    for _ in range(100):
        cost.observe(3, 0.013)
    assert cost.has_drifted


def test_the_rate_is_that_of_the_last_second() -> None:
    sizer = BatchSizer(8, Seconds(1.0))
    assert sizer.rate == 0.0
    for step in range(1, 101):
        sizer.on_arrivals(step, step * 0.01)
    assert sizer.rate == pytest.approx(100.0)
    sizer.on_arrivals(100, 1.0)
    assert sizer.rate == pytest.approx(100.0), "no time has passed"
    sizer.on_arrivals(130, 4.0)
    assert 10.0 < sizer.rate < 15.0
    assert not math.isnan(sizer.rate)

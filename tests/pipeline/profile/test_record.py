"""Records of frames, and what a profile makes of measured times."""

import io
from collections.abc import Iterator

import numpy as np
import pytest

from fairlead.pipeline.frame import Frame, FrameError, FrameHeader
from fairlead.pipeline.profile.machine import stage_cost
from fairlead.pipeline.profile.record import FrameRecorder, joined, read_frames
from fairlead.pipeline.work.values import decode_value


def record(*numbers: int, most: int = 1 << 20) -> io.BytesIO:
    """Return a record of images of 48 bytes that are filled with the numbers of their frames."""
    file = io.BytesIO()
    writer = FrameRecorder(file, most)
    for number in numbers:
        writer.write(FrameHeader(0, number, 1.0), np.full((4, 4, 3), number, np.uint8))
    file.seek(0)
    return file


def numbers_of(frames: Iterator[Frame]) -> list[int]:
    """Return the numbers of frames."""
    return [frame.header.sequence for frame in frames]


def test_frames_come_back_as_they_were() -> None:
    file = io.BytesIO()
    writer = FrameRecorder(file, 1 << 20)
    writer.write(FrameHeader(2, 7, 1.5), {"n": 1, "box": np.arange(3, dtype=np.float32)})
    writer.write(FrameHeader(2, 8, 1.5), np.zeros((2, 2), np.int8))
    file.seek(0)
    first, second = read_frames(file)
    assert (first.header.stream, first.header.sequence, second.header.sequence) == (2, 7, 8)
    value = decode_value(first)
    assert value["n"] == 1
    assert value["box"].tolist() == [0, 1, 2]
    assert decode_value(second).shape == (2, 2)


def test_a_record_is_bounded_but_has_one_frame() -> None:
    size = len(record(1).getvalue())
    assert numbers_of(read_frames(record(1, 2, 3, most=2 * size))) == [1, 2]
    assert numbers_of(read_frames(record(1, 2, 3, most=2 * size - 1))) == [1]
    assert numbers_of(read_frames(record(1, 2, most=1))) == [1]
    assert numbers_of(read_frames(record(1, 2, 3), 2 * size)) == [1, 2]
    assert numbers_of(read_frames(record(1, 2, 3), 1)) == [1]


@pytest.mark.parametrize("left", [10, 100, 140])
def test_a_record_that_ends_early_is_refused(left: int) -> None:
    with pytest.raises(FrameError):
        list(read_frames(io.BytesIO(record(1).getvalue()[:left])))


def test_a_join_gets_frames_with_the_same_number() -> None:
    pairs = joined([read_frames(record(1, 2, 4, 5)), read_frames(record(2, 3, 5, 6))])
    assert [(header.sequence, numbers_of(iter(frames))) for header, frames in pairs] == [
        (2, [2, 2]),
        (5, [5, 5]),
    ]


@pytest.mark.parametrize(
    ("seconds", "mean", "low", "high", "frames"),
    [
        ([9.0, 8.0, 7.0, *map(float, range(11))], 5.0, 1.0, 9.0, 11),  # three come before
        ([9.0, 1.0], 1.0, 1.0, 1.0, 1),
        ([9.0], 9.0, 9.0, 9.0, 1),
        ([9.0, 9.0, 2.0, 4.0], 3.0, 2.0, 4.0, 2),
    ],
)
def test_the_first_values_do_not_count(
    seconds: list[float], mean: float, low: float, high: float, frames: int
) -> None:
    cost = stage_cost(seconds, 7)
    assert cost is not None
    assert (cost.seconds, cost.p10, cost.p90, cost.frames, cost.memory_bytes) == (
        mean,
        low,
        high,
        frames,
        7,
    )


def test_calls_that_a_quota_delays_count_with_their_share() -> None:
    # A quarter of a CPU, in periods of 10 ms: a call of 1 ms waits 7.5 ms each third time.
    cost = stage_cost([1.0, 1.0, 8.5] * 10, 7)
    assert cost is not None
    assert cost.seconds == pytest.approx(3.5, rel=0.05)


def test_one_call_that_others_delay_does_not_count() -> None:
    cost = stage_cost([1.0] * 32 + [500.0], 7)
    assert cost is not None
    assert cost.seconds == pytest.approx(1.0)


def test_nothing_measured_is_no_cost() -> None:
    assert stage_cost([], 7) is None

"""The replay of recorded memory: a recording by hand, of which packing and overflows are known."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from bench.sizing import cuts_at, cuts_by_clock, new_pods, share_over
from bench.sizing_replay import (
    DEEPEST,
    PERIOD,
    SPAN,
    Draws,
    Ints,
    Recorded,
    moments_of,
    packed,
    packed_safely,
    read,
    sizes_of,
    violated,
)

GB = 10**9
FIRST = 1_662_858_720.0


def recorded(*sizes: float, whole: bool = False) -> Recorded:
    return Recorded([FIRST + PERIOD * at for at in range(len(sizes))], [size * GB for size in sizes], whole)


FLAT = recorded(*[20.0] * 600)
JUMPS = recorded(*[20.0] * 300, *[60.0] * 300)
"""Nothing before the jump tells of it."""


def every(moments: int, depth: int = DEEPEST) -> Ints:
    return np.zeros((moments, depth), np.int64)


def test_pods_are_packed_until_the_next_does_not_fit() -> None:
    sizes = np.array([20.0 * GB, 50.0 * GB], np.float32)
    drawn = np.array([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0]])
    assert packed(sizes, drawn, 80.0 * GB).tolist() == [4, 2, 1]
    assert packed_safely(sizes, drawn, 80 * GB).tolist() == [3, 1, 1], "12 GB stay free"


def test_overflows_are_counted_in_the_hour_after_the_moment() -> None:
    moments = moments_of([JUMPS], [np.array([300 - SPAN, 300 - SPAN + 1, 300])])
    drawn, counts = np.array([[0] * 2, [1] * 2, [2] * 2]), np.array([2, 2, 1])
    assert violated(moments, drawn, counts, 80 * GB).tolist() == [0, 1, 0]
    assert violated(moments, drawn, counts, 80 * GB, moments.future.shape[1]).tolist()[0] == 300


def test_sizes_are_learned_from_the_past_alone() -> None:
    flat, jumps = (moments_of([pod], [np.array([290])]) for pod in (FLAT, JUMPS))
    assert sizes_of(flat, 1e-3, 80 * GB) == sizes_of(jumps, 1e-3, 80 * GB)
    assert float(flat.peaks[0]) == 20 * GB
    assert share_over(jumps, sizes_of(jumps, 1e-3, 80 * GB), every(10), 80 * GB) == 1.0
    assert share_over(flat, sizes_of(flat, 1e-3, 80 * GB), every(10), 80 * GB) == 0.0


def test_moments_are_drawn_from_the_chosen_pods_and_by_the_clock() -> None:
    rng = np.random.default_rng(1)
    moments = moments_of([FLAT, JUMPS], cuts_at([FLAT, JUMPS], 0.5, rng))
    assert set(moments.pods[Draws(moments, np.array([1])).take(50, rng)].ravel()) == {1}
    clock = moments_of([FLAT, JUMPS], cuts_by_clock([FLAT, JUMPS], rng), by_clock=True)
    drawn = Draws(clock, distinct=True).take(50, rng)
    assert drawn.shape == (50, 2)
    assert (clock.groups[drawn[:, 0]] == clock.groups[drawn[:, 1]]).all()
    assert (clock.pods[drawn[:, 0]] != clock.pods[drawn[:, 1]]).all()


def test_new_pods_have_the_peaks_of_others() -> None:
    pods = [recorded(*[20.0] * 40, whole=True) for _ in range(4)]
    moments = new_pods(pods, 3, np.random.default_rng(1))
    assert {need.sizes[0] for need in moments.needs} == {20 * GB}


@pytest.mark.parametrize("idle", [0.0, 5.0])
def test_a_recording_is_read_from_its_archive(tmp_path: Path, idle: float) -> None:
    rows = [f"{FIRST + 57},7,a", f"{FIRST},5,a", f"{FIRST + 57},{idle},b"]
    text = "\n".join(["timestamp_anon,value,container_ip", *rows]).encode()
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("x.csv")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    pods = read(str(tmp_path / "x.tar.gz"))
    assert (pods[0].values, pods[0].whole, pods[0].request) == ([5.0, 7.0], False, 10)
    assert [pod.whole for pod in pods] == [False, True][: 1 + bool(idle)], "a pod without memory is left out"

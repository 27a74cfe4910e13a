"""The thesis's application: its text, its kernels, its published figures, and how they are compared."""

import itertools
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairlead.errors import EmulationError
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.yaml_file import parse_pipeline
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import (
    CUTS,
    FREE,
    StageArrangement,
    ThesisWorkload,
    all_cuts,
    bytes_out,
    crossing_bytes,
    cut,
    letters_of,
    pipeline_text,
    stage_splits,
)
from fairlead.reproduce.thesis.baselines import Monolith
from fairlead.reproduce.thesis.experiment import (
    Emulation,
    Measured,
    expected_rate,
    frames_for,
    process_seconds,
)
from fairlead.reproduce.thesis.in_pods import MeasuredFrames
from fairlead.reproduce.thesis.published import THROUGHPUT
from fairlead.reproduce.thesis.rig import figures, read_figures
from fairlead.reproduce.thesis.stages import CAPTURED, END, fast_then_calm, synthetic_image

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def spec_of(text: str) -> PipelineSpec:
    return parse_pipeline(text.encode(), "thesis.yaml")


@pytest.mark.parametrize("letters", CUTS)
def test_a_cut_puts_stages_where_its_letters_say(letters: str) -> None:
    spec = spec_of(pipeline_text(ThesisWorkload("slow"), cut(letters, "10.90.0.1:7070"), 5))
    places = [spec.stage(name).on for name in FREE]
    assert [{"edge": "E", "local": "S"}[place] for place in places] == [*letters, letters[-1]]
    assert spec.stage("camera").on == "edge"
    assert letters_of(dict(zip(FREE, places, strict=True))) == letters + letters[-1]


def test_all_cuts_are_prefixes() -> None:
    assert all_cuts() == ["SSSSS", "ESSSS", "EESSS", "EEESS", "EEEES", "EEEEE"]


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_stages_share_as_many_processes_as_asked_for(processes: int) -> None:
    spec = spec_of(pipeline_text(ThesisWorkload("slow"), StageArrangement(split=stage_splits(processes)), 5))
    assert len(plan_workers(spec).workers) == processes


def test_a_paced_source_and_replicas_are_in_the_text() -> None:
    text = pipeline_text(
        ThesisWorkload("fast", 100, 200), StageArrangement(replicas={"convolve": 2}), 7, 12.5
    )
    spec = spec_of(text)
    assert spec.stage("camera").options["rate"] == 12.5
    assert spec.stage("camera").options["arguments"] == {"count": 7, "height": 100, "width": 200}
    assert spec.stage("convolve").replicas == 2
    assert not any(spec.stage(name).is_placed for name in FREE)


def test_the_bytes_that_cross_the_link() -> None:
    sizes = [crossing_bytes(letters, ThesisWorkload("slow")) for letters in CUTS]
    assert sizes == [2_764_800, 921_600, 718 * 1278 * 4, 718 * 1278 * 4, 0]


def test_the_published_gains_follow_from_the_rates() -> None:
    assert [round(each.gain, 2) for each in THROUGHPUT] == [1.75, 2.04]
    assert round(100 * (THROUGHPUT[0].gain - 1), 1) == 75.5  # the text states 76.58


@needs_cc
@pytest.mark.parametrize("kernel", [kernels.SLOW, kernels.FAST])
def test_the_kernels_compute_what_numpy_does(kernel: str, tmp_path: Path) -> None:
    library = kernels.build(kernel, tmp_path)
    image = synthetic_image(21, 34)
    grey = (image.astype(int) @ [77, 150, 29]) >> 8
    windows = np.lib.stride_tricks.sliding_window_view(grey, (3, 3))
    conv = np.maximum(9 * grey[1:-1, 1:-1] - windows.sum((2, 3)), 0)
    expected = conv[:18, :32].reshape(9, 2, 16, 2).max((1, 3))
    for threads in (1, 3):
        made = Monolith(library, threads).process(image)
        assert np.array_equal(made, expected)
    assert made.nbytes == bytes_out(ThesisWorkload(kernel, 21, 34))["pool"]


def test_a_missing_compiler_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match="no C compiler"):
        kernels.build(kernels.SLOW, tmp_path, "no-such-compiler")


def test_figures_of_frames() -> None:
    begins = [float(number) for number in range(8)]
    made = figures(begins, [begin + 0.5 for begin in begins])
    assert made.rate == pytest.approx(1.0)
    assert made.latency == pytest.approx(0.5)
    assert len(made.latencies) == 6  # a quarter warms up


@pytest.mark.parametrize("numbers", [[0, 2], [0, 1, 1], [1, 0], [0]])
def test_lost_repeated_and_disordered_frames_are_found(tmp_path: Path, numbers: list[int]) -> None:
    lines = [f'{{"sequence": {number}, "value": {{"at": {number}}}}}\n' for number in numbers]
    (tmp_path / "out.jsonl").write_text("".join(lines))
    (tmp_path / CAPTURED).write_text("0 0.0\n1 0.5\n")
    with pytest.raises(EmulationError, match="lost, repeated or out of order"):
        read_figures(tmp_path)


def test_calm_frames_come_at_half_of_the_rate_of_fast_ones_and_a_file_ends_them(tmp_path: Path) -> None:
    images = fast_then_calm(12, 6, 8, 8, str(tmp_path))
    for _ in range(12):
        next(images)
        threading.Event().wait(0.01)
    assert sum(1 for _ in itertools.islice(images, 6)) == 6
    (tmp_path / END).touch()
    assert next(images, None) is None
    lines = [line.split() for line in (tmp_path / CAPTURED).read_text().splitlines()]
    assert [int(number) for number, _ in lines] == [*range(18)]
    at = [float(time) for _, time in lines]
    fast, calm = (at[11] - at[8]) / 3, (at[17] - at[12]) / 5
    assert calm >= 1.9 * fast, "on a slow machine later, never earlier"
    assert at[12] - at[11] >= 12 * fast, "no frame is on its way any more"


def test_how_many_frames_are_enough() -> None:
    assert frames_for(4.0, 3.25) == MeasuredFrames(13, 12)
    assert frames_for(4.0, 100.0) == MeasuredFrames(400, 30)
    assert frames_for(4.0, 1e6).fast == 3000
    assert frames_for(4.0, 3.25, 30) == MeasuredFrames(30, 12)
    slow = ThesisWorkload("slow")
    rates = {letters: expected_rate(Emulation(1e8), slow, letters, 0.03) for letters in CUTS}
    assert rates["SSSS"] == pytest.approx(1e8 / 8 / 2_764_800)
    assert rates["ESSS"] == pytest.approx(1e8 / 8 / 921_600)
    assert rates["EEEE"] == pytest.approx(0.25 / 0.03)


def test_ratio_and_limit_of_an_arrangement() -> None:
    stages = {"grey": 0.001, "convolve": 0.020, "relu": 0.004, "pool": 0.005}
    seconds = process_seconds(stages, stage_splits(2))
    assert seconds == pytest.approx((0.021, 0.009))
    made = Measured(40.0, 0.045, seconds)
    assert made.ratio == pytest.approx(0.5)
    assert made.most_gain == pytest.approx(30 / 21)
    assert replace(made, processes=()).ratio is None

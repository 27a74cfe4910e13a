"""Sinks that write a file for each frame, or a video."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.pipeline.endpoints.files import NamePattern
from fairlead.pipeline.endpoints.sinks import SINKS
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.frame import FrameHeader
from tests.pipeline.clips import image, pyav
from tests.pipeline.pipelines import run


def open_files(folder: Path, path: str, *, resume: bool = False, **options: Any) -> Any:
    """Open the sink `file`."""
    return SINKS["file"].open({"path": path, **options}, str(folder), resume)


def names(folder: Path) -> list[str]:
    """Return the files of a folder."""
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("suffix", ["npy", "png"])
def test_a_folder_of_frames_can_be_read_as_a_source(tmp_path: Path, suffix: str) -> None:
    pyav()
    sink = open_files(tmp_path, f"out/{{sequence:06d}}.{suffix}")
    for sequence in (0, 1, 12):
        sink.write(FrameHeader(0, sequence, 0.0), image(sequence))
    sink.close()
    assert names(tmp_path / "out") == [f"000000.{suffix}", f"000001.{suffix}", f"000012.{suffix}"]
    source = SOURCES["images"].open({"path": str(tmp_path / "out")}, "")
    source.seek(2)
    assert np.array_equal(source.read(), image(12))


def test_positions_are_read_from_names(tmp_path: Path) -> None:
    sink = open_files(tmp_path, "{stream}-{sequence:04d}-{count}.json")
    for header, count in (
        (FrameHeader(0, 9, 0.0), 1),
        (FrameHeader(0, 10, 0.0), 1),
        (FrameHeader(3, 2, 0.0), 2),
    ):
        sink.write(header, {"n": header.sequence}, count)
    (tmp_path / "notes.json").touch()
    again = open_files(tmp_path, "{stream}-{sequence:04d}-{count}.json", resume=True)
    assert again.positions() == {0: (10, 1), 3: (2, 2)}
    assert json.loads((tmp_path / "0-0010-1.json").read_text())["value"] == {"n": 10}


def test_files_of_an_earlier_run_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    sink = open_files(tmp_path, "{sequence}.npy")
    sink.write(FrameHeader(0, 41, 0.0), image(0))
    (tmp_path / "other.npy").touch()
    with pytest.raises(ValueError, match=r"41\.npy is there already: move the files away"):
        open_files(tmp_path, "{sequence}.npy")
    assert open_files(tmp_path, "{sequence}.npy", overwrite=True).positions() == {}
    assert names(tmp_path) == ["other.npy"]


def test_two_values_for_one_file_are_refused(tmp_path: Path) -> None:
    sink = open_files(tmp_path, "{sequence}.json")
    sink.write(FrameHeader(0, 7, 0.0), {})
    with pytest.raises(ValueError, match=r"two values of frame 7 for one file: add \{count} to the path"):
        sink.write(FrameHeader(0, 7, 0.0), {}, 2)
    with pytest.raises(ValueError, match=r"frames of two sources for one file: add \{stream} to the path"):
        sink.write(FrameHeader(1, 8, 0.0), {})


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("out.png", "its last part needs {sequence}"),
        ("{sequence}/a.png", "its last part needs {sequence}"),
        ("{sequence:x}.png", "{sequence:x} is not a field"),
        ("{time}-{sequence}.png", "{time:} is not a field"),
        ("{sequence.real}.png", "is not a field"),
        ("{sequence.png", "path {sequence.png: "),
        ("{sequence}.bmp", "does not end in one of .npy, .jpg"),
    ],
)
def test_a_path_that_names_no_frame_is_refused(tmp_path: Path, path: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SINKS["file"].check({"path": path}, str(tmp_path))


def test_a_name_of_files_is_not_a_program() -> None:
    with pytest.raises(ValueError, match="is not a field"):
        NamePattern("{sequence.__class__}.png", "")


@pytest.mark.parametrize(
    ("value", "words"),
    [({"a": 1}, "a record cannot be written as png"), (np.zeros((2, 2)), "array of float64 .* as png")],
)
def test_what_is_no_image_is_named(tmp_path: Path, value: Any, words: str) -> None:
    sink = open_files(tmp_path, "{sequence}.png")
    with pytest.raises(ValueError, match=words):
        sink.write(FrameHeader(0, 0, 0.0), value)
    assert names(tmp_path) == []


def test_a_pipeline_writes_a_file_for_each_frame(tmp_path: Path) -> None:
    run(
        """
pipeline: files
stages:
  - {name: camera, source: numbers, options: {count: 5}}
  - {name: save, sink: file, options: {path: "out/{sequence:03d}.npy"}}
""",
        tmp_path,
    )
    assert names(tmp_path / "out") == [f"{number:03d}.npy" for number in range(5)]


def test_a_recording_goes_on_in_a_second_file(tmp_path: Path) -> None:
    pyav()
    for resume in (False, True):
        sink = SINKS["video"].open({"path": "out.mp4", "rate": 10}, str(tmp_path), resume)
        for number in range(4):
            sink.write(FrameHeader(0, number, 0.0), image(number))
        with pytest.raises(ValueError, match="an image of 32x48 in a video of another size"):
            sink.write(FrameHeader(0, 9, 0.0), image(9, 32))
        sink.close()
    assert names(tmp_path) == ["out.2.mp4", "out.mp4"]
    source = SOURCES["video"].open({"path": str(tmp_path / "out.2.mp4")}, "")
    assert [source.read() is not None for _ in range(5)] == [True] * 4 + [False]

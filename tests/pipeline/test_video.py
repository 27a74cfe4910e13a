"""Video files and images as sources: exact by frame number, and one line for whatever cannot be read."""

import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.pipeline.endpoints.codec.encode import encode_image
from fairlead.pipeline.endpoints.reading import Pending
from fairlead.pipeline.endpoints.sources import SOURCES, FrameSource
from fairlead.pipeline.frame import boottime
from tests.pipeline.clips import image, pyav, write_clip
from tests.pipeline.pipelines import lines, run, sequences

CLIPS: Mapping[str, tuple[str, dict[str, str]]] = {
    "h264.mp4": ("libx264", {"bf": "3"}),
    "open-gop.mkv": ("libx264", {"bf": "3", "x264-params": "open-gop=1"}),
    "mpeg4.avi": ("mpeg4", {}),
    "intra.mkv": ("ffv1", {"bf": "0", "g": "1"}),
    "uneven.mkv": ("libx264", {"bf": "2"}),
}


def open_video(path: Path, **options: Any) -> FrameSource:
    """Open a video file as a pipeline does."""
    return SOURCES["video"].open({"path": str(path), **options}, "")


def read_all(source: FrameSource) -> list[Any]:
    """Return every frame up to the end."""
    frames = []
    while (value := source.read()) is not None:
        frames.append(value)
    return frames


@pytest.mark.parametrize("name", CLIPS)
def test_every_frame_is_the_same_after_a_seek(tmp_path: Path, name: str) -> None:
    codec, options = CLIPS[name]
    source = open_video(write_clip(tmp_path / name, codec, codec_options=options, uneven="uneven" in name))
    straight = read_all(source)
    assert len(straight) == 100
    for number in random.Random(1).sample(range(100), 100):
        source.seek(number)
        assert np.array_equal(source.read(), straight[number]), number
    fresh = open_video(tmp_path / name)
    for number in (99, 41, 40, 39, 0, 77):
        fresh.seek(number)
        assert np.array_equal(fresh.read(), straight[number]), number
    source.seek(100)
    assert source.read() is None


def test_a_span_is_scaled_and_repeated(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", frames=50)
    whole = read_all(open_video(path))
    part = read_all(open_video(path, start=10, stop=20))
    assert len(part) == 10
    assert np.array_equal(part[0], whole[10])
    assert len(read_all(open_video(path, start=45, stop=90))) == 5
    endless = open_video(path, start=10, stop=13, loop=True)
    looped = [endless.read() for _ in range(8)]
    assert all(np.array_equal(value, whole[10 + index % 3]) for index, value in enumerate(looped))
    later = open_video(path, start=10, stop=13, loop=True)
    later.seek(3000001)
    assert np.array_equal(later.read(), whole[11])
    assert open_video(path, width=32).read().shape == (24, 32, 3)
    assert open_video(path, width=40, height=40).read().shape == (40, 40, 3)


def test_realtime_waits_for_the_timestamps_of_the_file(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "slow.mkv", frames=2, rate=Fraction(1, 1000))
    source = open_video(path, realtime=True)
    begin = boottime()
    assert source.read().shape == (48, 64, 3)
    waits = source.read()
    assert isinstance(waits, Pending)
    assert 999 < waits.until - begin < 1300
    source.seek(1)
    assert source.read().shape == (48, 64, 3), "a frame after a jump comes at once"


def test_a_truncated_file_ends_early_and_says_so(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", container_options={"movflags": "faststart"})
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    source = open_video(path)
    *frames, notice = read_all(source)
    assert 10 < len(frames) < 100
    assert isinstance(notice, Pending)
    assert notice.notice == f"{path} ends after {len(frames)} of 100 frames"


def unsupported(path: Path) -> None:
    """Write a video whose codec has no decoder."""
    write_clip(path, "mpeg4", frames=3, codec_options={"vtag": "FMP4"})
    path.write_bytes(path.read_bytes().replace(b"FMP4", b"XYZW"))


def only_sound(path: Path) -> None:
    """Write a file without video."""
    av = pyav()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))


@pytest.mark.parametrize(
    ("write", "name", "words"),
    [
        (lambda path: path.write_bytes(b""), "empty.mp4", "cannot be read as a video: "),
        (lambda path: path.write_text("no video at all\n" * 99), "notes.mp4", "cannot be read as a video: "),
        (unsupported, "x.avi", "no decoder for its codec: convert it to H.264"),
        (only_sound, "sound.mkv", "holds no video"),
        (lambda path: None, "none.mp4", "is not a file"),
    ],
)
def test_what_is_no_video_is_refused_in_one_line(tmp_path: Path, write: Any, name: str, words: str) -> None:
    pyav()
    write(tmp_path / name)
    with pytest.raises(ValueError, match=words) as caught:
        open_video(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"start": 5, "stop": 5}, {"realtime": True, "rate": 5}])
def test_options_that_exclude_each_other_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    path = write_clip(tmp_path / "clip.mp4", frames=3)
    with pytest.raises(ValueError, match=r"stop|exclude"):
        open_video(path, **options)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_and_png_files_are_read(tmp_path: Path, channels: int) -> None:
    pyav()
    picture = image(0)[:, :, :channels]
    (tmp_path / "a.png").write_bytes(encode_image(picture, "png"))
    (tmp_path / "b.jpg").write_bytes(encode_image(picture, "jpeg", 95))
    source = SOURCES["images"].open({"path": f"{tmp_path}/*.[jp]*g"}, "")
    exact, near = source.read(), source.read()
    assert np.array_equal(exact, picture)
    assert near.shape == (48, 64, 3)
    assert np.abs(near.astype(int) - picture).mean() < 4
    (tmp_path / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    source = SOURCES["images"].open({"path": str(tmp_path)}, "")
    source.seek(2)
    with pytest.raises(ValueError, match=r"c\.png"):
        source.read()


def test_a_pipeline_reads_a_video_and_writes_one(tmp_path: Path) -> None:
    write_clip(tmp_path / "in.mp4", frames=30)
    run(
        """
pipeline: video
stages:
  - {name: film, source: video, options: {path: in.mp4}}
  - {name: save, sink: video, options: {path: out.mp4, codec: mpeg4}}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
edges:
  - {from: film, to: save}
  - {from: film, to: log}
""",
        tmp_path,
    )
    assert sequences(tmp_path) == list(range(30))
    before, after = read_all(open_video(tmp_path / "in.mp4")), read_all(open_video(tmp_path / "out.mp4"))
    assert len(after) == 30
    assert np.abs(before[7].astype(int) - after[7]).mean() < 20


WITHOUT_PYAV = """
import sys
import zlib
sys.modules["av"] = None
from fairlead.cli.main import run
run()
"""


@pytest.mark.parametrize(
    "stage", ["source: video, options: {path: a.mp4}", 'source: rtsp, options: {url: "rtsp://h/s"}']
)
def test_check_names_the_extra_that_is_missing(tmp_path: Path, stage: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"pipeline: p\nstages:\n  - {{name: camera, {stage}}}\n  - {{name: end, sink: 'null'}}\n")
    (tmp_path / "a.mp4").touch()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYAV, "pipeline", "check", str(file)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert f"{file}:3: stage camera: " in done.stdout
    assert "needs PyAV, which is not installed\n  pip install 'fairlead[pipeline-video]'" in done.stdout


def test_a_killed_video_source_goes_on_with_the_same_frames(tmp_path: Path) -> None:
    straight = [
        zlib.crc32(frame.tobytes()) for frame in read_all(open_video(write_clip(tmp_path / "in.mp4")))
    ]
    killed: list[int] = []

    def kill_the_source(status: dict[str, Any]) -> None:
        if not killed and status["stages"][-1]["out"] >= 20:
            killed.append(status["processes"]["film"])
            os.kill(killed[0], signal.SIGKILL)

    run(
        """
pipeline: killed
fuse: false
stages:
  - {name: film, source: video, options: {path: in.mp4, rate: 60}, on_error: restart}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
        kill_the_source,
    )
    assert killed
    assert sequences(tmp_path) == list(range(100))
    assert [line["array"]["crc32"] for line in lines(tmp_path)] == straight

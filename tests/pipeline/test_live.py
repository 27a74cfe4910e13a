"""Cameras: what a live source holds, how it connects again, and how it gives up."""

import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.pipeline.check import check_pipeline
from fairlead.pipeline.endpoints.backoff import delay
from fairlead.pipeline.endpoints.cameras import v4l2_settings
from fairlead.pipeline.endpoints.codec.decode import DecodeError
from fairlead.pipeline.endpoints.live import LiveSource, Patience
from fairlead.pipeline.endpoints.reading import Captured, Pending
from fairlead.pipeline.endpoints.sources import SOURCES, FrameSource
from fairlead.pipeline.endpoints.urls import without_password
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.clips import pyav

LIMIT = 60


def read(source: FrameSource, notices: list[str] | None = None) -> Captured:
    """Return the next frame of a live source, and keep what it says."""
    while isinstance(value := source.read(), Pending):
        if value.notice and notices is not None:
            notices.append(value.notice)
        if value.descriptor is not None:
            assert select.select([value.descriptor], [], [], LIMIT)[0], "neither a frame nor a notice came"
    assert isinstance(value, Captured)
    return value


def test_a_live_source_holds_the_newest_frames_and_counts_the_others() -> None:
    sent, go_on = threading.Event(), threading.Event()

    def connect() -> Iterator[int]:
        yield from range(5)
        sent.set()
        assert go_on.wait(LIMIT)
        yield 5

    source = LiveSource("camera", connect, str, depth=2)
    first = source.read()
    assert sent.wait(LIMIT)
    taken = [first] if isinstance(first, Captured) else []
    while len(taken) == 0 or taken[-1].value != "4":
        taken.append(read(source))
    assert [each.value for each in taken][-2:] == ["3", "4"]
    assert sum(each.dropped for each in taken) == 5 - len(taken)
    assert taken[-2].captured <= taken[-1].captured
    go_on.set()
    assert read(source).value == "5"


def test_a_camera_that_is_lost_is_connected_again() -> None:
    attempts = iter(["frame", "lost", "lost", "frame"])

    def connect() -> Iterator[str]:
        if next(attempts, "end") != "frame":
            raise DecodeError("Connection refused")
        yield "image"

    notices: list[str] = []
    source = LiveSource("camera", connect, str)
    assert read(source, notices).value == read(source, notices).value == "image"
    assert notices[0] == "camera: the stream ended; connecting again"
    assert notices[1].startswith("camera: frames again after ")


def test_a_camera_that_never_answers_fails_its_stage() -> None:
    def connect() -> Iterator[str]:
        raise DecodeError("no answer within 5 s")
        yield ""

    source = LiveSource("camera", connect, str, patience=Patience(0.0))
    with pytest.raises(ConnectionError, match="camera: no answer within 5 s; no frame for "):
        read(source)


def test_a_source_waits_longer_for_a_camera_that_it_has_seen() -> None:
    assert not Patience().is_over(0.0, 29.0, first=True)
    assert Patience().is_over(0.0, 30.0, first=True)
    assert not Patience().is_over(0.0, 1e9, first=False)
    assert Patience(5.0).is_over(0.0, 5.0, first=False)
    assert [delay(number) for number in (1, 2, 3, 4, 5, 99)] == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


def test_no_message_shows_a_password(tmp_path: Path) -> None:
    assert without_password("rtsp://user:pass@host:554/a?b=c") == "rtsp://user:***@host:554/a?b=c"
    assert without_password("rtsp://user@host/a") == "rtsp://user@host/a"
    text = b"pipeline: p\nstages:\n  - {name: a, source: rtsp, options: {url: 'http://u:secret@h'}}\n"
    _, problems = check_pipeline(parse_pipeline(text, f"{tmp_path}/p.yaml"))
    assert any("option url: the value is not an address" in problem.what for problem in problems)
    assert "secret" not in str(problems)


def test_a_v4l2_camera_is_asked_for_size_rate_and_format() -> None:
    options = {"device": "/dev/video0", "width": 1280, "height": 720, "fps": 29.97, "format": "yuyv"}
    assert v4l2_settings(options) == {
        "video_size": "1280x720",
        "framerate": "29.97",
        "input_format": "yuyv422",
    }
    assert v4l2_settings({"device": "/dev/video0"}) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "/dev/no-camera"}, "/dev/no-camera does not exist; cameras here: "),
        ({"device": "/proc/version"}, "/proc/version is not a camera: name a device such as /dev/video0"),
        ({"device": "/dev/null", "width": 640}, "width and height belong together"),
    ],
)
def test_a_device_that_is_no_camera_is_refused(options: dict[str, Any], words: str) -> None:
    pyav()
    with pytest.raises(ValueError, match=words):
        SOURCES["v4l2"].open(options, "")


@pytest.mark.skipif(os.access("/dev/kmsg", os.W_OK), reason="root may use every device")
@pytest.mark.skipif(not os.path.exists("/dev/kmsg"), reason="no device that users may not write")
def test_a_device_without_permission_is_refused() -> None:
    pyav()
    with pytest.raises(ValueError, match="no permission to use /dev/kmsg: add this user to the group video"):
        SOURCES["v4l2"].open({"device": "/dev/kmsg"}, "")


def test_a_device_that_is_not_v4l2_fails_its_stage() -> None:
    pyav()
    source = SOURCES["v4l2"].open({"device": "/dev/null", "give_up": "1ms"}, "")
    with pytest.raises(ConnectionError, match="/dev/null: Inappropriate ioctl for device; no frame for "):
        read(source)

"""Cameras: RTSP streams and V4L2 devices."""

import os
import stat
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fairlead.pipeline.endpoints import options as rules
from fairlead.pipeline.endpoints.codec.decode import FrameSize, LiveInput, ToArray, live_frames
from fairlead.pipeline.endpoints.codec.library import pyav
from fairlead.pipeline.endpoints.live import DEPTH, LiveSource, Patience
from fairlead.pipeline.endpoints.urls import without_password
from fairlead.units import parse_duration

Options = Mapping[str, Any]
TIMEOUT: Final = "5s"
PIXELS: Final = {
    "mjpeg": "mjpeg",
    "h264": "h264",
    "yuyv": "yuyv422",
    "uyvy": "uyvy422",
    "nv12": "nv12",
    "rgb": "rgb24",
    "bgr": "bgr24",
    "gray": "gray",
}
"""Formats in which a camera delivers its frames, and their names in FFmpeg."""
_LIVE: Final = {
    "depth": rules.COUNT,
    "timeout": rules.DURATION,
    "give_up": rules.DURATION,
    "deadline": rules.DURATION,
}
RTSP_RULES: Final = {
    "url": rules.RTSP_URL,
    "transport": rules.one_of("tcp", "udp"),
    "width": rules.COUNT,
    "height": rules.COUNT,
    **_LIVE,
}
V4L2_RULES: Final = {
    "device": rules.PATH,
    "width": rules.COUNT,
    "height": rules.COUNT,
    "fps": rules.RATE,
    "format": rules.one_of(*PIXELS),
    **_LIVE,
}


def open_rtsp(options: Options, folder: str) -> LiveSource:
    """Return an RTSP stream; the first read connects."""
    pyav("source rtsp")
    url = options["url"]
    timeout = parse_duration(options.get("timeout", TIMEOUT))
    settings = {"rtsp_transport": options.get("transport", "tcp"), "fflags": "nobuffer"}
    stream = LiveInput(url, without_password(url), None, settings, timeout)
    return _live(stream, FrameSize(options.get("width"), options.get("height")), options)


def open_v4l2(options: Options, folder: str) -> LiveSource:
    """Return a V4L2 camera; OSError or ValueError where there is none, or it may not be used."""
    pyav("source v4l2")
    if ("width" in options) != ("height" in options):
        raise ValueError("width and height belong together: state both of them")
    device = options["device"]
    _check_device(device)
    timeout = parse_duration(options.get("timeout", TIMEOUT))
    return _live(LiveInput(device, device, "v4l2", v4l2_settings(options), timeout), FrameSize(), options)


def v4l2_settings(options: Options) -> dict[str, str]:
    """Return what the driver is asked for: the camera itself makes this size, rate and format."""
    settings = {}
    if "width" in options:
        settings["video_size"] = f"{options['width']}x{options['height']}"
    if "fps" in options:
        settings["framerate"] = f"{options['fps']:g}"
    if "format" in options:
        settings["input_format"] = PIXELS[options["format"]]
    return settings


def _check_device(device: str) -> None:
    if not os.path.exists(device):
        names = sorted(name for name in os.listdir("/dev") if name.startswith("video"))
        known = ", ".join(f"/dev/{name}" for name in names) or "none"
        raise ValueError(f"{device} does not exist; cameras here: {known}")
    if not stat.S_ISCHR(os.stat(device).st_mode):
        raise ValueError(f"{device} is not a camera: name a device such as /dev/video0")
    if not os.access(device, os.R_OK | os.W_OK):
        raise ValueError(f"no permission to use {device}: add this user to the group video")


def _live(source: LiveInput, size: FrameSize, options: Options) -> LiveSource:
    limit = parse_duration(options["give_up"]) if "give_up" in options else None
    return LiveSource(
        source.shown,
        partial(live_frames, source),
        ToArray(size),
        depth=options.get("depth", DEPTH),
        patience=Patience(limit),
    )

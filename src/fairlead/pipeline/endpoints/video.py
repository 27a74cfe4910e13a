"""Video files as a source that can be read again, exactly, from any frame."""

import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairlead.pipeline.endpoints import options as rules
from fairlead.pipeline.endpoints.codec.decode import DecodeError, FrameSize, ToArray, VideoFile
from fairlead.pipeline.endpoints.reading import Pending
from fairlead.pipeline.frame import boottime

_APART: Final = 32
"""Frames between two places that are kept to go back to."""
RULES: Final = {
    "path": rules.PATH,
    "rate": rules.RATE,
    "realtime": rules.FLAG,
    "loop": rules.FLAG,
    "start": rules.INDEX,
    "stop": rules.COUNT,
    "width": rules.COUNT,
    "height": rules.COUNT,
    "deadline": rules.DURATION,
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A key frame that decoding can begin with."""

    number: int
    timestamp: int
    checksum: int


class VideoSource:
    """The frames of a video file, by number.

    Numbers count decoded frames. A place to go back to is a key frame that was decoded before, checked by its
    content; where no such place is right, the file is decoded from its first frame on.
    """

    replayable = True

    def __init__(
        self,
        path: str,
        size: FrameSize,
        span: tuple[int, int | None] = (0, None),
        *,
        loop: bool = False,
        realtime: bool = False,
    ) -> None:
        """Take the numbers of the first frame, and of the one behind the last."""
        self._path = path
        self._file = VideoFile(path)
        self._frames: Iterator[Any] = self._file.frames()
        self._to_array = ToArray(size)
        self._start, self._stop = span
        self._loop = loop
        self._realtime = realtime
        self._places: list[_Place] = []
        self._number = 0
        """Of the next frame in the file."""
        self._target = self._start
        """Of the next frame to return."""
        self._length: int | None = None
        self._pace: tuple[float, float] | None = None
        """The moment and the time in the file of the first frame since the start or the last jump."""
        self._held: Any = None

    def seek(self, sequence: int) -> None:
        """Go on with the frame of this number."""
        if self._loop and self._length:
            sequence %= self._length
        self._held = self._pace = None
        self._target = self._start + sequence
        if self._target != self._number:
            self._go_to(self._target)

    def read(self) -> Any:
        """Return the next image, or Pending while its time has not come."""
        frame = self._held if self._held is not None else self._advance()
        if isinstance(frame, Pending) or frame is None:
            return frame
        self._held = frame
        due = self._due(frame)
        if due > boottime():
            return Pending(until=due)
        self._held = None
        return self._to_array(frame)

    def _advance(self) -> Any:
        """Return the next frame of the span; None at the end."""
        while self._stop is None or self._number < self._stop:
            frame = self._decode()
            if frame is None:
                break
            if self._number > self._target:
                self._target += 1
                return frame
        return self._end()

    def _end(self) -> Any:
        """Begin again where the file is repeated; else say whether the file is shorter than it states."""
        if self._loop and self._number > self._start:
            self._length = self._number - self._start
            self.seek(self._target - self._start)
            return self._advance()
        stated, self._file.stated = self._file.stated, 0
        if self._stop is None and self._number < stated:
            return Pending(until=0.0, notice=f"{self._path} ends after {self._number} of {stated} frames")
        return None

    def _decode(self) -> Any:
        frame = next(self._frames, None)
        if frame is None:
            return None
        apart = not self._places or self._number >= self._places[-1].number + _APART
        if frame.key_frame and frame.pts is not None and apart:
            self._places.append(_Place(self._number, frame.pts, _checksum(frame)))
        self._number += 1
        return frame

    def _go_to(self, number: int) -> None:
        """Let decoding go on at or before a frame; a place whose content differs is not used again."""
        while True:
            index = bisect_right([place.number for place in self._places], number) - 1
            nearest = self._places[index].number if index >= 0 else 0
            if nearest <= self._number <= number:
                return
            if index <= 0:
                self._reopen()
                return
            if self._find(self._places[index]):
                return
            del self._places[index]
            self._number = number + 1

    def _find(self, place: _Place) -> bool:
        """Decode up to a place, and let its frame be the next one; False: it is not there."""
        self._file.go_to(place.timestamp)
        frames = self._file.frames()
        for frame in frames:
            if frame.pts is None or frame.pts > place.timestamp:
                return False
            if frame.pts == place.timestamp:
                self._frames = _after(frame, frames)
                self._number = place.number
                return _checksum(frame) == place.checksum
        return False

    def _reopen(self) -> None:
        self._file.close()
        self._file = VideoFile(self._path)
        self._frames = self._file.frames()
        self._number = 0

    def _due(self, frame: Any) -> float:
        """Return the moment of a frame by the timestamps of the file; 0: at once."""
        if not self._realtime or frame.time is None:
            return 0.0
        if self._pace is None:
            self._pace = (boottime(), float(frame.time))
        moment, time = self._pace
        return moment + float(frame.time) - time


def open_video(options: Mapping[str, Any], folder: str) -> VideoSource:
    """Open a video file; ValueError where it is none."""
    path = os.path.join(folder, options["path"])
    if not os.path.isfile(path):
        raise DecodeError(f"{path} is not a file")
    start, stop = options.get("start", 0), options.get("stop")
    if stop is not None and stop <= start:
        raise ValueError(f"stop {stop} is not behind start {start}")
    if options.get("realtime") and options.get("rate"):
        raise ValueError("realtime and rate exclude each other")
    return VideoSource(
        path,
        FrameSize(options.get("width"), options.get("height")),
        (start, stop),
        loop=options.get("loop", False),
        realtime=options.get("realtime", False),
    )


def _after(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _checksum(frame: Any) -> int:
    """Return a checksum of the first plane, without what pads its lines."""
    plane = frame.planes[0]
    lines = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
    return zlib.crc32(lines[:, : plane.width].tobytes())

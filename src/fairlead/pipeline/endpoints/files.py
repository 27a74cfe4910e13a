"""A sink that writes one file for each frame, and one that writes a video."""

import os
import re
import string
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from fairlead.pipeline.endpoints import options as rules
from fairlead.pipeline.endpoints.codec.encode import QUALITY, VideoWriter
from fairlead.pipeline.endpoints.codec.library import pyav
from fairlead.pipeline.endpoints.encoded import check_format, encode
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.ports import Image

Options = Mapping[str, Any]
Position = tuple[int, int]
SUFFIXES: Final = {".npy": "npy", ".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".json": "json"}
_FIELDS: Final = ("stream", "sequence", "count")
FILE_RULES: Final = {"path": rules.PATH, "quality": rules.QUALITY, "overwrite": rules.FLAG}
VIDEO_RULES: Final = {
    "path": rules.PATH,
    "rate": rules.RATE,
    "codec": rules.one_of("h264", "hevc", "mpeg4"),
}
_RATE: Final = 30.0
_ENCODERS: Final = {"h264": "libx264", "hevc": "libx265", "mpeg4": "mpeg4"}


class NamePattern:
    """A path with `{sequence}`, `{stream}` and `{count}` in its last part; names can be read back."""

    def __init__(self, pattern: str, folder: str) -> None:
        self.folder, self._name = os.path.split(os.path.join(folder, pattern))
        self._pattern = pattern
        self.fields: set[str] = set()
        expression = ""
        try:
            for text, field, form, _ in string.Formatter().parse(self._name):
                expression += re.escape(text)
                if field is not None:
                    expression += self._field(field, form or "")
        except ValueError as error:
            raise ValueError(f"path {pattern}: {error}") from None
        if "sequence" not in self.fields or "{" in os.path.dirname(pattern):
            raise ValueError(f"path {pattern}: its last part needs {{sequence}}, as in {{sequence:06d}}.png")
        self._expression = re.compile(expression)

    def _field(self, field: str, form: str) -> str:
        if field not in _FIELDS or not re.fullmatch(r"(0?[1-9][0-9]?)?d?", form) or field in self.fields:
            raise ValueError(
                f"{{{field}:{form}}} is not a field; write {{sequence:06d}}, {{stream}} or {{count}}"
            )
        self.fields.add(field)
        return f"(?P<{field}> *[0-9]+)"

    def path(self, stream: int, position: Position) -> str:
        """Return the file of a value."""
        sequence, count = position
        return os.path.join(self.folder, self._name.format(stream=stream, sequence=sequence, count=count))

    def positions(self) -> dict[int, Position]:
        """Return the last value of each stream that has a file."""
        found: dict[int, Position] = {}
        for _, match in self._files():
            numbers = {"stream": 0, "count": 1} | {key: int(text) for key, text in match.groupdict().items()}
            position = (numbers["sequence"], numbers["count"])
            found[numbers["stream"]] = max(position, found.get(numbers["stream"], (-1, 0)))
        return found

    def remove_files(self) -> None:
        """Remove every file that has such a name."""
        for name, _ in self._files():
            os.unlink(os.path.join(self.folder, name))

    @property
    def unfinished(self) -> str:
        """The name of a file while it is written."""
        return os.path.join(self.folder, f".{zlib.crc32(self._name.encode()):08x}.part")

    def _files(self) -> Iterator[tuple[str, re.Match[str]]]:
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else ():
            if match := self._expression.fullmatch(name):
                yield name, match


class FileSink:
    """One file for each value, named by its frame; a file is whole or not there."""

    def __init__(self, pattern: NamePattern, form: str, quality: int, positions: dict[int, Position]) -> None:
        self._pattern = pattern
        self._form = form
        self._quality = quality
        self._positions = positions
        self._stream: int | None = None

    def positions(self) -> dict[int, Position]:
        """Return the last values that have files."""
        return self._positions

    def write(self, header: FrameHeader, value: Any, count: int = 1) -> None:
        """Write one file; ValueError where two values would have the same name."""
        if count > 1 and "count" not in self._pattern.fields:
            raise ValueError(f"two values of frame {header.sequence} for one file: add {{count}} to the path")
        if self._stream not in (None, header.stream) and "stream" not in self._pattern.fields:
            raise ValueError("frames of two sources for one file: add {stream} to the path")
        self._stream = header.stream
        data = encode(header, value, self._form, self._quality)
        with open(self._pattern.unfinished, "wb") as file:
            file.write(data)
        os.replace(self._pattern.unfinished, self._pattern.path(header.stream, (header.sequence, count)))

    def close(self) -> None:
        """Remove a file that could not be written to its end."""
        with suppress(FileNotFoundError):
            os.unlink(self._pattern.unfinished)


class VideoSink:
    """A video file; after a crash the recording goes on in a second file."""

    def __init__(self, writer: VideoWriter) -> None:
        self._writer = writer

    def positions(self) -> dict[int, Position]:
        """Return nothing: a video keeps no numbers of frames."""
        return {}

    def write(self, header: FrameHeader, value: Any, count: int = 1) -> None:
        """Append one image."""
        if fault := Image.objection(value):
            raise ValueError(f"{fault} cannot be a frame of a video")
        self._writer.write(value)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def check_files(options: Options, folder: str) -> None:
    """Raise where the files cannot be written."""
    pattern = NamePattern(options["path"], folder)
    check_format(_format_of(options["path"]), "sink file")
    parent = pattern.folder
    while parent and not os.path.exists(parent):
        parent = os.path.dirname(parent)
    _check_folder(parent or ".")


def open_files(options: Options, folder: str, resume: bool) -> FileSink:
    """Make the folder, and refuse files of an earlier run, which would count as frames of this one."""
    pattern = NamePattern(options["path"], folder)
    os.makedirs(pattern.folder or ".", exist_ok=True)
    positions = pattern.positions()
    if positions and not resume:
        if not options.get("overwrite"):
            stream, position = next(iter(positions.items()))
            path = pattern.path(stream, position)
            raise ValueError(f"{path} is there already: move the files away, or set overwrite: true")
        pattern.remove_files()
        positions = {}
    return FileSink(pattern, _format_of(options["path"]), options.get("quality", QUALITY), positions)


def held_files(options: Options, folder: str, streams: frozenset[int]) -> dict[int, Position]:
    """Return the last values that have files; a name without a stream is of the only stream."""
    pattern = NamePattern(options["path"], folder)
    found = pattern.positions()
    return found if "stream" in pattern.fields else {stream: found[0] for stream in streams if found}


def check_video(options: Options, folder: str) -> None:
    """Raise where the video cannot be written."""
    pyav("sink video")
    path = os.path.join(folder, options["path"])
    if not path.lower().endswith(".mp4"):
        raise ValueError(f"{options['path']} does not end in .mp4")
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder")
    _check_folder(os.path.dirname(path) or ".")


def open_video(options: Options, folder: str, resume: bool) -> VideoSink:
    """Open a video to write; after a crash under the next free name, `out.2.mp4`."""
    path = os.path.join(folder, options["path"])
    stem, number = path[: -len(".mp4")], 2
    while resume and os.path.exists(path):
        path, number = f"{stem}.{number}.mp4", number + 1
    codec = _ENCODERS[options.get("codec", "h264")]
    return VideoSink(VideoWriter(path, float(options.get("rate", _RATE)), codec))


def _format_of(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path {path} does not end in one of {', '.join(SUFFIXES)}")
    return SUFFIXES[suffix]


def _check_folder(folder: str) -> None:
    if not os.path.isdir(folder):
        raise ValueError(f"the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the folder {folder} cannot be written")

"""Where frames end: a table of sinks by name."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

from fairlead.pipeline.endpoints import files, http_sink
from fairlead.pipeline.endpoints import options as rules
from fairlead.pipeline.endpoints.json_line import to_line
from fairlead.pipeline.endpoints.options import OptionRule
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.work.values import plain
from fairlead.targets import load_target

Options = Mapping[str, Any]
Position = tuple[int, int]
"""The number of the last frame of a stream that a sink has taken, and how many values with this number."""
_TAIL: Final = 1 << 20
"""Bytes at the end of a file that are read to find its last frames."""


class FrameSink(Protocol):
    """A sink that is open."""

    def positions(self) -> dict[int, Position]:
        """Return what the sink itself knows of earlier frames, by stream."""
        ...

    def write(self, header: FrameHeader, value: Any, count: int = 1) -> None:
        """Take one value, the `count`-th of its frame."""
        ...

    def close(self) -> None:
        """Finish."""
        ...


class LineSink:
    """One JSON object a line, in a file or on the standard output."""

    def __init__(self, file: BinaryIO, positions: dict[int, Position] | None = None) -> None:
        self._file = file
        self._positions = positions or {}

    def positions(self) -> dict[int, Position]:
        """Return the last frames that the file already holds."""
        return self._positions

    def write(self, header: FrameHeader, value: Any, count: int = 1) -> None:
        """Write one line, by one call: a process that is killed leaves no half of it."""
        self._file.write(json.dumps(to_line(header, value), default=plain).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; the standard output stays open."""
        if self._file is not sys.stdout.buffer:
            self._file.close()


class CallSink:
    """Calls a Python function with each value, or does nothing."""

    def __init__(self, function: Callable[[Any], Any] | None = None) -> None:
        self._function = function

    def positions(self) -> dict[int, Position]:
        """Return nothing: a function keeps no record of frames."""
        return {}

    def write(self, header: FrameHeader, value: Any, count: int = 1) -> None:
        """Call the function."""
        if self._function is not None:
            self._function(value)

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class SinkKind:
    """One row of the table: what a sink takes, how it is checked, and how it is opened."""

    rules: Mapping[str, OptionRule]
    check: Callable[[Options, str], None]
    """Raises ValueError or OSError where the options name what cannot be used; changes nothing."""
    open: Callable[[Options, str, bool], FrameSink]
    """The last argument: the run goes on after a crash, and what was written stays."""
    held: Callable[[Options, str, frozenset[int]], dict[int, Position]] | None = None
    """Returns the last frames of streams that what was written holds; None: nothing says which they are."""


def last_positions(file: BinaryIO) -> dict[int, Position]:
    """Return the last frame of each stream in a file of lines; an unfinished last line is cut off."""
    end = file.seek(0, os.SEEK_END)
    positions, whole = _read_tail(file, max(0, end - _TAIL))
    if whole < end:
        file.truncate(whole)
    file.seek(0, os.SEEK_END)
    return positions


def _read_tail(file: BinaryIO, begin: int) -> tuple[dict[int, Position], int]:
    """Return the last frame of each stream behind a byte, and the end of the last whole line."""
    file.seek(begin)
    text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    positions: dict[int, Position] = {}
    for line in whole.splitlines()[1 if begin else 0 :]:
        frame = json.loads(line)
        stream, sequence = frame["stream"], frame["sequence"]
        last, count = positions.get(stream, (-1, 0))
        positions[stream] = (sequence, count + 1 if sequence == last else 1)
    return positions, begin + len(whole)


def _held_lines(options: Options, folder: str, streams: frozenset[int]) -> dict[int, Position]:
    """Return the last frames of a file; more of it is read until every stream is found."""
    try:
        with open(os.path.join(folder, options["path"]), "rb") as file:
            length, size = file.seek(0, os.SEEK_END), _TAIL
            positions = _read_tail(file, max(0, length - size))[0]
            while not streams <= positions.keys() and size < length:
                size *= 4
                positions = _read_tail(file, max(0, length - size))[0]
            return positions
    except FileNotFoundError:
        return {}


def _open_lines(options: Options, folder: str, resume: bool) -> FrameSink:
    path = os.path.join(folder, options["path"])
    if not resume or not os.path.exists(path):
        return LineSink(open(path, "wb"))
    file = open(path, "r+b")  # noqa: SIM115 - the sink closes it
    return LineSink(file, last_positions(file))


def _check_lines(options: Options, folder: str) -> None:
    path = os.path.join(folder, options["path"])
    parent = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(parent):
        raise ValueError(
            f"{path} is a folder" if os.path.isdir(path) else f"the folder {parent} does not exist"
        )
    if not os.access(path if os.path.exists(path) else parent, os.W_OK):
        raise ValueError(f"{path} cannot be written")


def _check_call(options: Options, folder: str) -> None:
    load_target(options["function"], folder)


def _nothing_to_check(options: Options, folder: str) -> None:
    """Accept every option."""


SINKS: Final[dict[str, SinkKind]] = {
    "jsonl": SinkKind({"path": rules.PATH}, _check_lines, _open_lines, _held_lines),
    "stdout": SinkKind({}, _nothing_to_check, lambda options, folder, resume: LineSink(sys.stdout.buffer)),
    "null": SinkKind({}, _nothing_to_check, lambda options, folder, resume: CallSink()),
    "call": SinkKind(
        {"function": rules.FUNCTION},
        _check_call,
        lambda options, folder, resume: CallSink(load_target(options["function"], folder)),
    ),
    "file": SinkKind(files.FILE_RULES, files.check_files, files.open_files, files.held_files),
    "video": SinkKind(files.VIDEO_RULES, files.check_video, files.open_video),
    "http": SinkKind(
        http_sink.RULES,
        http_sink.check_http,
        lambda options, folder, resume: http_sink.HttpSink(options, folder),
    ),
}
"""Every sink, by its name in files."""

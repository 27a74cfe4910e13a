"""Where frames come from: a table of sources by name."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from fairlead.pipeline.endpoints import options as rules
from fairlead.pipeline.endpoints.cameras import RTSP_RULES, V4L2_RULES, open_rtsp, open_v4l2
from fairlead.pipeline.endpoints.codec.library import pyav
from fairlead.pipeline.endpoints.images import SUFFIXES, find_images, needs_decoder, read_image
from fairlead.pipeline.endpoints.options import OptionRule
from fairlead.pipeline.endpoints.video import RULES as VIDEO_RULES
from fairlead.pipeline.endpoints.video import open_video
from fairlead.pipeline.load import declared_ports
from fairlead.pipeline.ports import Image, PortType, tensor
from fairlead.targets import LoadError, load_target

Options = Mapping[str, Any]
_NUMBERS_SHAPE: Final = (4, 4, 3)
_PACE: Final = {"rate": rules.RATE, "deadline": rules.DURATION}


class FrameSource(Protocol):
    """A source that is open."""

    replayable: bool
    """It can be read again from any frame: `seek` works."""

    def seek(self, sequence: int) -> None:
        """Let `read` go on with the frame of this number."""
        ...

    def read(self) -> Any:
        """Return the next value, `Captured` or `Pending`; None: the source has ended."""
        ...


class NumberSource:
    """Arrays that are filled with the number of the frame, modulo 251."""

    replayable = True

    def __init__(self, count: int | None, shape: tuple[int, ...]) -> None:
        self._count = count
        self._shape = shape
        self._next = 0

    def seek(self, sequence: int) -> None:
        """Go on with the frame of this number."""
        self._next = sequence

    def read(self) -> Any:
        """Return the next array."""
        if self._count is not None and self._next >= self._count:
            return None
        value = np.full(self._shape, self._next % 251, np.uint8)
        self._next += 1
        return value


class ImageSource:
    """The image files of a folder or of a pattern, in the order of their names."""

    replayable = True

    def __init__(self, place: str) -> None:
        self.paths = find_images(place)
        self._next = 0

    def seek(self, sequence: int) -> None:
        """Go on with the file of this number."""
        self._next = sequence

    def read(self) -> Any:
        """Return the next image."""
        if self._next >= len(self.paths):
            return None
        self._next += 1
        return read_image(self.paths[self._next - 1])


class GeneratorSource:
    """What a Python generator yields; a generator with the parameter `start` can be read again."""

    def __init__(self, function: Callable[..., Iterator[Any]], arguments: Mapping[str, Any]) -> None:
        self._function = function
        self._arguments = dict(arguments)
        self.replayable = takes_start(function)
        self._values: Iterator[Any] | None = None

    def seek(self, sequence: int) -> None:
        """Begin again with the frame of this number."""
        self._values = iter(self._function(**self._arguments, start=sequence))

    def read(self) -> Any:
        """Return the next value."""
        if self._values is None:
            self._values = iter(self._function(**self._arguments))
        return next(self._values, None)


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One row of the table: what a source takes, what it makes, and how it is opened."""

    rules: Mapping[str, OptionRule]
    outputs: Callable[[Options, str], PortType]
    open: Callable[[Options, str], FrameSource]
    """Raises ValueError or OSError where the options name what cannot be used; opening reads no frame."""


def takes_start(function: Callable[..., Any]) -> bool:
    """Return whether a generator says that it can begin with any frame."""
    return "start" in inspect.signature(function).parameters


def _open_numbers(options: Options, folder: str) -> FrameSource:
    return NumberSource(options.get("count"), tuple(options.get("shape", _NUMBERS_SHAPE)))


def _open_images(options: Options, folder: str) -> FrameSource:
    source = ImageSource(os.path.join(folder, options["path"]))
    if not source.paths:
        raise ValueError(f"{options['path']} holds no file that ends in {', '.join(SUFFIXES)}")
    if any(map(needs_decoder, source.paths)):
        pyav("source images with JPEG or PNG files")
    return source


def _open_generator(options: Options, folder: str) -> FrameSource:
    function = load_target(options["function"], folder)
    try:
        inspect.signature(function).bind_partial(**options.get("arguments", {}))
    except TypeError as error:
        raise LoadError(f"{options['function']}: {error}") from None
    return GeneratorSource(function, options.get("arguments", {}))


SOURCES: Final[dict[str, SourceKind]] = {
    "numbers": SourceKind(
        {"count": rules.COUNT, "shape": rules.SHAPE, **_PACE},
        lambda options, folder: tensor("uint8", tuple(options.get("shape", _NUMBERS_SHAPE))),
        _open_numbers,
    ),
    "images": SourceKind({"path": rules.PATH, **_PACE}, lambda options, folder: Image, _open_images),
    "video": SourceKind(VIDEO_RULES, lambda options, folder: Image, open_video),
    "rtsp": SourceKind(RTSP_RULES, lambda options, folder: Image, open_rtsp),
    "v4l2": SourceKind(V4L2_RULES, lambda options, folder: Image, open_v4l2),
    "generator": SourceKind(
        {"function": rules.FUNCTION, "arguments": rules.ARGUMENTS, **_PACE},
        lambda options, folder: declared_ports(load_target(options["function"], folder)).outputs,
        _open_generator,
    ),
}
"""Every source, by its name in files."""

"""The stages of the thesis's application: Python that calls the compiled kernels beside it.

A pipeline has this file under the name of a kernel (`slow.py`), with the library of that name (`slow.so`).
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from fairlead.pipeline import Image, Record, stage, tensor

CAPTURED: Final = "captured.log"
"""Beside this file: a line with the time of each frame of the source."""
END: Final = "end"
"""A file that ends the source, once its frames have been measured."""
PACE: Final = 0.5
"""Latency is measured at this part of the largest rate: no frame waits for another."""
_UNDERWAY: Final = 12
"""Frames that queues hold at most, while the source waits for the calm ones."""
_POLL_S: Final = 0.05
_GREY = tensor("uint8", (None, None))
_VALUES = tensor("float32", (None, None))
_SIZES: Final = (ctypes.c_size_t,) * 3


def load(path: Path) -> ctypes.CDLL:
    """Return the compiled kernels; calls of them leave other Python threads running."""
    library = ctypes.CDLL(str(path))
    for name in ("grey", "convolve", "relu", "pool"):
        function = getattr(library, name)
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *_SIZES)
        function.restype = None
    return library


def made_shape(step: str, height: int, width: int) -> tuple[int, int]:
    """Return the height and width of what a step makes."""
    return {
        "grey": (height, width),
        "convolve": (height - 2, width - 2),
        "relu": (height, width),
        "pool": (height // 2, width // 2),
    }[step]


class KernelStep:
    """One step, which computes on this thread."""

    name = ""
    dtype: Any = np.float32

    def open(self) -> None:
        """Load the kernels."""
        self._call: Callable[..., None] = getattr(load(Path(__file__).with_suffix(".so")), self.name)

    def process(self, value: Any) -> Any:
        """Return what the step makes of an array."""
        source = np.ascontiguousarray(value)
        height, width = source.shape[:2]
        made = np.empty(made_shape(self.name, height, width), self.dtype)
        self._call(source.ctypes.data, made.ctypes.data, width, 0, made.shape[0])
        return made


@stage(inputs=Image, outputs=_GREY)
class Grey(KernelStep):
    """The thesis's first microservice: it prepares an image."""

    name = "grey"
    dtype = np.uint8


@stage(inputs=_GREY, outputs=_VALUES)
class Convolve(KernelStep):
    """A convolution with 3 x 3 weights."""

    name = "convolve"


@stage(inputs=_VALUES, outputs=_VALUES)
class Relu(KernelStep):
    """Negative values become 0."""

    name = "relu"


@stage(inputs=_VALUES, outputs=_VALUES)
class Pool(KernelStep):
    """The largest of each 2 x 2 values."""

    name = "pool"


@stage(inputs=_VALUES, outputs=Record)
def mark(values: Any) -> dict[str, float]:
    """Return when a frame was done, and one of its values."""
    return {"at": _now(), "value": float(values[values.shape[0] // 2, values.shape[1] // 2])}


def synthetic_image(height: int, width: int) -> Any:
    """Return an image whose edges move with its columns."""
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([rows ^ columns, rows + columns, 3 * columns], axis=2).astype(np.uint8)


@stage(outputs=Image)
def frames(count: int, height: int, width: int, start: int = 0) -> Iterator[Any]:
    """Yield one image again and again, and write when each was read."""
    image = synthetic_image(height, width)
    with open(Path(__file__).with_name(CAPTURED), "a" if start else "w", encoding="ascii") as log:
        for number in range(start, count):
            _note(log, number)
            yield image


@stage(outputs=Image)
def fast_then_calm(fast: int, calm: int, height: int, width: int, folder: str) -> Iterator[Any]:
    """Yield images as fast as they are taken, then at half of that rate, until a file of the folder says so.

    The times of all are written to the folder: what is beside this file cannot be written in a pod.
    """
    image = synthetic_image(height, width)
    begins = []
    with open(Path(folder, CAPTURED), "w", encoding="ascii") as log:
        for number in range(fast):
            begins.append(_note(log, number))
            yield image
        first = max(fast // 2, min(_UNDERWAY, fast - 4))  # those before may only have filled the queues
        period = (begins[-1] - begins[first]) / (fast - 1 - first)
        begin = _now() + _UNDERWAY * period
        for number in range(calm):
            time.sleep(max(0.0, begin + number * period / PACE - _now()))
            _note(log, fast + number)
            yield image
        while not Path(folder, END).exists():
            time.sleep(_POLL_S)


def _note(log: IO[str], number: int) -> float:
    """Write that a frame is read, and return when."""
    now = _now()
    os.write(log.fileno(), f"{number} {now:.6f}\n".encode())
    return now


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)

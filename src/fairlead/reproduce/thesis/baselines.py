"""The programs that the thesis left out: copies of the whole application, and one with several threads.

Neither has a pipeline: one process computes all four steps of a frame, and no frame goes anywhere.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.reproduce.thesis.stages import load, made_shape, synthetic_image

_STEPS: Final = (("grey", np.uint8), ("convolve", np.float32), ("relu", np.float32), ("pool", np.float32))
_WARM: Final = 3


class Monolith:
    """All four steps, each of whose rows are shared by the threads."""

    def __init__(self, library: Path, threads: int) -> None:
        self._kernels = load(library)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)

    def process(self, image: Any) -> Any:
        """Return what the application makes of an image."""
        for name, dtype in _STEPS:
            height, width = image.shape[:2]
            made = np.empty(made_shape(name, height, width), dtype)
            self._step(getattr(self._kernels, name), image, made, width)
            image = made
        return image

    def _step(self, call: Callable[..., None], image: Any, made: Any, width: int) -> None:
        rows, parts = made.shape[0], self._threads
        bounds = [rows * part // parts for part in range(parts + 1)]
        if parts == 1:
            call(image.ctypes.data, made.ctypes.data, width, 0, rows)
            return
        waits = [
            self._pool.submit(call, image.ctypes.data, made.ctypes.data, width, first, end)
            for first, end in pairwise(bounds)
        ]
        for wait in waits:
            wait.result()


def measure(library: Path, height: int, width: int, threads: int, seconds: float) -> dict[str, float]:
    """Compute for some seconds, and return frames a second and the mean seconds of a frame."""
    program, image = Monolith(library, threads), synthetic_image(height, width)
    for _ in range(_WARM):
        program.process(image)
    begin, frames = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds or not frames:
        program.process(image)
        frames += 1
    passed = time.perf_counter() - begin
    return {"rate": frames / passed, "seconds": passed / frames}


def main(words: list[str]) -> None:
    """Measure in a process of its own, once a line on the standard input lets all copies begin."""
    library, height, width, threads, seconds = words
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    answer = measure(Path(library), int(height), int(width), int(threads), float(seconds))
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Stages that the pipelines of tests run; workers import them by name."""

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from fairlead.pipeline import Image, Record, stage
from fairlead.pipeline.frame import boottime


@stage(inputs=Image, outputs=Record)
def number(image: Any) -> dict[str, Any]:
    """Return the number that an image of the source `numbers` is filled with."""
    return {"n": int(image.flat[0])}


@stage(inputs=Image, outputs=Image)
def slow(image: Any) -> Any:
    """Take ten milliseconds."""
    time.sleep(0.01)
    return image


@stage(inputs=Image, outputs=Image)
def uneven(image: Any) -> Any:
    """Take longer for even numbers, so that replicas overtake one another."""
    time.sleep(0.004 if image.flat[0] % 2 == 0 else 0.0)
    return image


def odd(image: Any) -> Any:
    """Let odd numbers pass."""
    return image if image.flat[0] % 2 else None


def twice(image: Any) -> Iterator[Any]:
    """Make two records of an image."""
    yield {"first": int(image.flat[0])}
    yield {"second": int(image.flat[0])}


def both(left: Any, right: Any) -> dict[str, Any]:
    """Join two numbers."""
    return {"left": int(left.flat[0]), "right": int(right.flat[0])}


def sizes(images: list[Any]) -> list[dict[str, Any]]:
    """Return for each image of a batch how large the batch was."""
    return [{"n": int(image.flat[0]), "batch": len(images)} for image in images]


def costs_a_call(images: list[Any]) -> list[dict[str, Any]]:
    """Take twenty milliseconds for any number of images, as a device with a fixed cost."""
    time.sleep(0.02)
    return sizes(images)


def raises_at_seven(image: Any) -> Any:
    """Raise for the eighth frame."""
    if image.flat[0] == 7:
        raise ValueError("seven is not allowed")
    return {"n": int(image.flat[0])}


def dies_at_seven(image: Any) -> Any:
    """End the process at the eighth frame."""
    if image.flat[0] == 7:
        os._exit(9)
    return {"n": int(image.flat[0])}


def blocks_at_seven(image: Any) -> Any:
    """Never return for the eighth frame."""
    while image.flat[0] == 7:
        time.sleep(0.05)
    return {"n": int(image.flat[0])}


@stage(outputs=Image)
def wrong_dtype(image: Any) -> Any:
    """Return floats where images are declared."""
    return image.astype(np.float32)


def first(array: Any) -> dict[str, Any]:
    """Return the first value of an array, and its shape."""
    return {"first": float(array.flat[0]), "shape": list(array.shape)}


def gated(folder: str, start: int = 0) -> Iterator[Any]:
    """Yield 300 images that are filled with their numbers; every hundredth waits for a file of its number."""
    for number in range(start, 300):
        while number and number % 100 == 0 and not os.path.exists(f"{folder}/{number}"):
            time.sleep(0.005)
        yield np.full((4, 4, 3), number % 251, np.uint8)


def halves(count: int, start: int = 0) -> Iterator[Any]:
    """Yield arrays of which one half is negative."""
    for number in range(start, count):
        yield np.linspace(-number, number, 64, dtype=np.float32)


def stamped(count: int) -> Iterator[dict[str, Any]]:
    """Yield records with the time at which each was made."""
    for _ in range(count):
        yield {"made": boottime()}


class OpensSlowly:
    """Returns whether a record was made after this stage was open."""

    def open(self) -> None:
        time.sleep(0.5)
        self._opened = boottime()

    def process(self, record: dict[str, Any]) -> dict[str, bool]:
        return {"after": record["made"] >= self._opened}


class LoadsSlowly:
    """Returns the number of an image; takes two seconds to open, as a stage that loads a large model."""

    def open(self) -> None:
        time.sleep(2.0)

    def process(self, image: Any) -> dict[str, Any]:
        return {"n": int(image.flat[0])}


class RunningCount:
    """Counts the frames of its stream; each record has the count, and the sum of all frames so far."""

    count: int
    sum: int

    def open(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.count, self.sum = state or (0, 0)

    def process(self, image: Any) -> dict[str, Any]:
        """Count one frame."""
        self.count += 1
        self.sum += int(image.flat[0])
        return {"count": self.count, "sum": self.sum}

    def checkpoint(self) -> Any:
        """Return what `open` gets."""
        return [self.count, self.sum]


class RunningTwice:
    """Makes two records of each frame with the sum of all frames so far."""

    sum: int

    def open(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.sum = state or 0

    def process(self, image: Any) -> Iterator[dict[str, int]]:
        """Add one frame."""
        self.sum += int(image.flat[0])
        yield {"first": self.sum}
        yield {"second": self.sum}

    def checkpoint(self) -> Any:
        """Return what `open` gets."""
        return self.sum


KEPT: list[Any] = []


def leaks(image: Any) -> Any:
    """Keep 8 MiB of every frame."""
    KEPT.append(np.ones(1 << 20))
    return {"n": int(image.flat[0])}


def where(image: Any) -> dict[str, Any]:
    """Return the cores and the thread variables of this process."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {"cores": sorted(os.sched_getaffinity(0)), "threads": sorted({os.environ[name] for name in names})}


def ebbs(folder: str, start: int = 0) -> Iterator[Any]:
    """Yield images that are filled with their numbers: many, few once `calm` is there, none after `end`."""
    number = start
    while not os.path.exists(f"{folder}/end"):
        time.sleep(0.05 if os.path.exists(f"{folder}/calm") else 0.001)
        yield np.full((4, 4, 3), number % 251, np.uint8)
        number += 1

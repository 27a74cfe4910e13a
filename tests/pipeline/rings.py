"""Rings for tests: both ends in this process, or one of them in another."""

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from fairlead.pipeline.frame import Array, Frame, FrameHeader, PartHeader
from fairlead.pipeline.ring.pair import RingReceiver, RingSender, ring_pair

SOON = 30.0
"""Seconds; longer than anything takes on a busy machine."""


@contextmanager
def ring(depth: int = 4) -> Iterator[tuple[RingSender, RingReceiver]]:
    """Yield both ends of a ring, and close them."""
    ours, theirs = ring_pair(depth)
    sender, receiver = RingSender(ours, depth), RingReceiver(theirs)
    try:
        yield sender, receiver
    finally:
        sender.close()
        receiver.close()


def header(sequence: int, *arrays: Array, epoch: int = 0) -> FrameHeader:
    """Return the header of a frame with arrays."""
    parts = tuple(PartHeader.of(each) for each in arrays)
    return FrameHeader(0, sequence, 1.0, parts=parts, epoch=epoch)


def send(sender: RingSender, sequence: int, *arrays: Array, epoch: int = 0) -> None:
    """Send arrays as a frame."""
    described = header(sequence, *arrays, epoch=epoch)
    slot = sender.reserve(described.sizes, SOON)
    assert slot is not None
    for buffer, each in zip(slot.buffers, arrays, strict=True):
        buffer[:] = np.ascontiguousarray(each).reshape(-1).view(np.uint8).data
    sender.send(described, slot)


def receive(receiver: RingReceiver) -> Frame:
    """Return the next frame."""
    frame = receiver.receive(SOON)
    assert frame is not None
    return frame


def filled(value: int, size: int = 1000) -> Array:
    """Return bytes of one value."""
    return np.full(size, value % 251, np.uint8)


def new_descriptors(before: list[str]) -> list[str]:
    """Return what is open now and was not; threads of other tests may close theirs meanwhile."""
    return sorted((Counter(open_descriptors()) - Counter(before)).elements())


def open_descriptors() -> list[str]:
    """Return what the descriptors of this process refer to."""
    gc.collect()
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the folder's own
            continue
    return sorted(links)


def mapped_slots() -> int:
    """Return the number of mappings of slots in this process."""
    gc.collect()
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("memfd:fairlead-slot" in line for line in file)


def start(program: str, descriptor: int, *words: str) -> "subprocess.Popen[str]":
    """Start a Python program in a process of its own with a descriptor, whose number is its first word."""
    command: Sequence[str] = [sys.executable, "-c", program, str(descriptor), *words]
    return subprocess.Popen(
        command, pass_fds=[descriptor], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

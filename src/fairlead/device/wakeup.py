"""A pipe with which `put` wakes the program that sends, so that it need not look often."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fairlead.device.place import DevicePlace


@contextmanager
def listening(place: DevicePlace) -> Iterator[int]:
    """Yield a handle that is readable once another process has queued an upload."""
    with suppress(FileExistsError):
        os.mkfifo(place.wakeup, 0o600)
    handle = os.open(place.wakeup, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


def drain(handle: int) -> None:
    """Forget the wake-ups so far."""
    with suppress(BlockingIOError):
        while os.read(handle, 4096):
            pass


def wake(place: DevicePlace) -> bool:
    """Wake the agent; False: none runs."""
    return _write(place, b"\n")


def is_heard(place: DevicePlace) -> bool:
    """Return whether an agent runs."""
    return _write(place, b"")


def _write(place: DevicePlace, data: bytes) -> bool:
    try:
        handle = os.open(place.wakeup, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # no such pipe, or nothing reads from it
        return False
    try:
        with suppress(BlockingIOError):
            os.write(handle, data)
    finally:
        os.close(handle)
    return True

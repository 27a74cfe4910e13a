"""The memory of a ring's slots: memfds, allocated as a whole and sealed before another process sees them."""

import errno
import fcntl
import mmap
import os
import stat
from functools import lru_cache
from typing import Final

from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.transport import SlotMemoryError

_ALIGNMENT: Final = 64
"""Parts start at whole cache lines."""
_STEP: Final = 64 * 1024
"""Segments are powers of two up to this size, and multiples of it above."""
_ADD_SEALS: Final = 1033
"""As in the kernel's headers, like all of these: a Python built with older ones does not name them."""
_GET_SEALS: Final = 1034
_SEAL_SEAL: Final = 0x1
_SEAL_SHRINK: Final = 0x2
_SEAL_GROW: Final = 0x4
_SEAL_FUTURE_WRITE: Final = 0x10
"""Of Linux 5.1."""
_SEALS: Final = _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS)
_BLOCK: Final = 512
"""The unit of st_blocks."""


@lru_cache(maxsize=256)
def layout(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return where each part starts in its slot, and where the last one ends."""
    offsets, end = [], 0
    for size in sizes:
        if size < 0:
            raise ValueError(f"a part of {size} bytes")
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        offsets.append(start)
        end = start + size
    return tuple(offsets), end


def segment_size(total: int) -> int:
    """Return the size of a segment for `total` bytes, with room for slightly larger frames."""
    if total >= _STEP:
        return -(-total // _STEP) * _STEP
    return int(max(mmap.PAGESIZE, 1 << (total - 1).bit_length()))


def allocate(size: int, *, shared: bool = False) -> tuple[int, memoryview]:
    """Return the descriptor of new memory and its writable bytes; SlotMemoryError where there is no room.

    Only this process can write to it, unless it is `shared`. The pages are allocated here: memory that is
    promised only would end the process by SIGBUS at a write.
    """
    if size > os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE:
        raise no_room(size, OSError(errno.ENOMEM, "more than the memory of this machine"))
    descriptor = -1
    try:
        descriptor = os.memfd_create("fairlead-slot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(descriptor, 0, size)
        memory = memoryview(mmap.mmap(descriptor, size))
        _seal(descriptor, 0 if shared else _SEAL_FUTURE_WRITE)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise no_room(size, error) from error
    return descriptor, memory


def no_room(size: int, error: OSError) -> SlotMemoryError:
    """Return the error for memory, or a descriptor of it, that the kernel refuses."""
    if error.errno in _NO_DESCRIPTOR:
        hint = "raise the limit of open files (ulimit -n), or lower the depth of the edges"
    else:
        hint = "lower the depth of the edge, send smaller frames, or raise the memory limit"
    return SlotMemoryError(f"no shared memory for a slot of {size} bytes: {error.strerror}", hint)


def map_received(descriptor: int, access: int = mmap.ACCESS_READ) -> mmap.mmap:
    """Map memory that a sender sent, read-only or not; FrameError if using it could end this process."""
    facts = os.fstat(descriptor)
    try:
        seals = fcntl.fcntl(descriptor, _GET_SEALS)
    except OSError:
        raise FrameError("a descriptor that is not a memfd") from None
    if not stat.S_ISREG(facts.st_mode) or not seals & _SEAL_SHRINK:
        raise FrameError("memory that is not sealed against shrinking")
    if facts.st_blocks * _BLOCK < facts.st_size or not facts.st_size:
        raise FrameError(f"memory of {facts.st_size} bytes that is not allocated")
    try:
        return mmap.mmap(descriptor, facts.st_size, access=access)
    except (OSError, OverflowError, ValueError) as error:
        raise FrameError(f"memory of {facts.st_size} bytes that cannot be mapped: {error}") from error


def _seal(descriptor: int, more: int) -> None:
    """Fix the size, and with `_SEAL_FUTURE_WRITE` leave the writing to mappings that exist."""
    try:
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS | more)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)

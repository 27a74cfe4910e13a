"""What a worker is doing, in memory that the coordinator shares: it can be read after any end of the worker.

0   stage u32, stream u32, sequence u64, since f64 (CLOCK_BOOTTIME; 0: idle)
64  for each stream: last acknowledged sequence + 1 u64 (0: none), values with this sequence u64
"""

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.check import MOST_STREAMS

_NOW: Final = struct.Struct("<IIQd")
_SINCE: Final = struct.Struct("<d")
_ACK: Final = struct.Struct("<QQ")
_ACKS: Final = 64
_SIZE: Final = _ACKS + MOST_STREAMS * _ACK.size
Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WorkedOn:
    """The call that a worker is in, or was in when it ended."""

    stage: int
    """The index in its worker."""
    stream: int
    sequence: int
    since: float
    """CLOCK_BOOTTIME; 0: the worker is idle, and this was its last call."""


class ProgressPage:
    """The shared memory of one worker; it outlives the process, and the next process goes on with it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)

    @classmethod
    def create(cls) -> "ProgressPage":
        """Return an empty page in memory without a name: nothing is left of it."""
        descriptor = os.memfd_create("fairlead-progress", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def begin(self, stage: int, stream: int, sequence: int, now: float) -> None:
        """Note the call that begins."""
        _NOW.pack_into(self._memory, 0, stage, stream, sequence, now)

    def end(self) -> None:
        """Note that the call has returned."""
        _SINCE.pack_into(self._memory, _NOW.size - _SINCE.size, 0.0)

    def read(self) -> WorkedOn:
        """Return the current or the last call."""
        return WorkedOn(*_NOW.unpack_from(self._memory, 0))

    def acknowledge(self, stream: int, position: Position) -> None:
        """Note the last frame that a sink has taken."""
        _ACK.pack_into(self._memory, _ACKS + stream * _ACK.size, position[0] + 1, position[1])

    def positions(self) -> Mapping[int, Position]:
        """Return the last frame of each stream that the sink has taken."""
        entries = (_ACK.unpack_from(self._memory, _ACKS + n * _ACK.size) for n in range(MOST_STREAMS))
        return {stream: (after - 1, count) for stream, (after, count) in enumerate(entries) if after}

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
        os.close(self.descriptor)

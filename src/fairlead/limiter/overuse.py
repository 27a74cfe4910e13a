"""The watchdog's rule: when a job holds more of an accelerator than its limit. Pure.

A reading is what drivers list: by accelerator, the memory of each process. What a driver does not list, or
could not list this time, is absent, and never ends a job. The context that a process has on a GPU counts: the
driver lists it as memory of the process, and no other job can have it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from fairlead.units import Bytes

PAUSE: Final = 0.25
"""Seconds between two readings."""
GRACE: Final = 0.3
"""Seconds between SIGTERM and SIGKILL for a job that holds more than its limit: its neighbours' memory is at
stake. With the pause before, the job has ended within a second of the allocation."""
TOLERANCE: Final = Bytes(32 << 20)
"""What a job may hold beyond its limit: drivers count whole pages, of 2 MiB each on a GPU of NVIDIA, also for
what they allocate themselves. On an H200, a client that MPS stops at its limit is listed with just that."""

Reading = Mapping[str, Mapping[int, Bytes]]
"""By accelerator id, the memory of each process by pid."""


@dataclass(frozen=True, slots=True)
class Overuse:
    """A job holds more of an accelerator than its limit."""

    device: str
    held: Bytes
    limit: Bytes

    @property
    def reason(self) -> str:
        """One line, for people: what is wrong, and what to do next."""
        return (
            f"held {_readable(self.held)} of {self.device}: its limit is {_readable(self.limit)}; "
            "state a larger --gpu-mem, or --limiter none"
        )


def find_overuse(limit: Bytes, reading: Reading, members: Collection[int]) -> Overuse | None:
    """Return the accelerator of which the members of a job hold the most beyond the limit; None: of none."""
    held = {
        device: sum(memory for pid, memory in processes.items() if pid in members)
        for device, processes in reading.items()
    }
    device = max(held, key=held.__getitem__, default="")
    if not held or held[device] <= limit + TOLERANCE:
        return None
    return Overuse(device, Bytes(held[device]), limit)


def unknown_processes(limit: Bytes, reading: Reading, others: Collection[int]) -> frozenset[int]:
    """Return the processes of which it must be known whether they are members; empty: it does not matter.

    `others` are known not to be. What processes belong to a job takes longer to read than what they hold.
    """
    pids: set[int] = set()
    for processes in reading.values():
        open_ones = {pid: memory for pid, memory in processes.items() if pid not in others}
        if sum(open_ones.values()) > limit + TOLERANCE:
            pids |= open_ones.keys()
    return frozenset(pids)


def _readable(amount: int) -> str:
    """Format an amount with up to two decimals, rounded up: 4.03 GiB must not read as the limit of 4 GiB."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if amount >= 1 << shift:
            return f"{ceil(amount * 100 / (1 << shift)) / 100:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{amount} B"

"""Read from the kernel the memory of this process, and how long its threads waited for a CPU."""

import os
import re
from typing import Final

from fairlead.units import Bytes

_SELF: Final = "/proc/self"
_PRESSURE: Final = "/proc/pressure/cpu"
_MEMORY: Final = {"current": "VmRSS", "peak": "VmHWM"}


def memory(which: str, folder: str = _SELF) -> Bytes:
    """Return the process's memory: `current`, or its `peak`; 0 where the kernel does not report it."""
    try:
        with open(f"{folder}/status", encoding="ascii", errors="replace") as status:
            match = re.search(rf"^{_MEMORY[which]}:\s+([0-9]+) kB", status.read(), re.MULTILINE)
    except OSError:
        return Bytes(0)
    return Bytes(int(match[1]) * 1024) if match else Bytes(0)


def waits(folder: str = _SELF) -> dict[str, float]:
    """Return the seconds that each thread has waited for a CPU so far; empty where they are not counted."""
    seconds = {}
    try:
        for thread in os.listdir(f"{folder}/task"):
            with open(f"{folder}/task/{thread}/schedstat", encoding="ascii") as stat:
                seconds[thread] = int(stat.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return {}
    return seconds


def pressure(path: str = _PRESSURE) -> float | None:
    """Return the seconds in which any program here waited for a CPU; None: the kernel does not count them."""
    try:
        with open(path, encoding="ascii") as file:
            match = re.search(r"^some .*\btotal=([0-9]+)", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) / 1e6 if match else None

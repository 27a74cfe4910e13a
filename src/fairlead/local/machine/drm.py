"""Processes on GPUs of Intel and AMD, from what the kernel's graphics drivers report of each open file.

Documentation/gpu/drm-usage-stats.rst: /proc/PID/fdinfo/FD has the address of the GPU, a number of the client,
and the memory of each region. Only root sees the files of every user.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from typing import Final

from fairlead.attribution.sources import DeviceProcesses, ProcessUse

DRIVERS: Final = ("i915", "xe", "amdgpu")
_NODES: Final = "/dev/dri/"
_FIELD: Final = re.compile(
    r"(?m)^drm-(pdev|client-id|resident-\w+|total-\w+|memory-\w+):\s*(\S+)(?: (KiB|MiB))?\s*$"
)
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
_LOCAL: Final = re.compile(r"(resident|total|memory)-(?:vram|local)[0-9]*$")
"""The GPU's own memory: amdgpu and xe call it vram, i915 local."""
_BEST: Final = ("resident", "memory", "total")
"""Older kernels report less; what is allocated and was never touched is in the total only."""
_SECONDS: Final = 5.0
"""How long one pass counts: it looks at every open file of every process."""
_LIMIT: Final = 16384


class DrmSource:
    """The clients of graphics drivers, in the form that attribution uses."""

    def __init__(self, root: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock = f"{root}/proc", clock
        self._read_at = -_SECONDS
        self._devices: list[DeviceProcesses] = []

    def read(self) -> list[DeviceProcesses]:
        """Return the GPUs with clients, as they were at most a few seconds ago."""
        now = self._clock()
        if now - self._read_at >= _SECONDS:
            self._read_at, self._devices = now, _grouped(_clients(self._proc, _pids(self._proc)))
        return self._devices

    def of(self, pids: Collection[int]) -> list[DeviceProcesses]:
        """Return the GPUs on which some of these processes are clients, as they are now."""
        return _grouped(_clients(self._proc, pids))

    def close(self) -> None:
        """Do nothing: nothing stays open."""


def sees_all_users() -> bool:
    """Say whether this process can read the open files of every user."""
    return os.geteuid() == 0


def _grouped(clients: "Iterator[tuple[int, str, str, int]]") -> list[DeviceProcesses]:
    """Add up the clients of each process; a file that was duplicated or inherited is the same client."""
    used: dict[str, dict[int, int]] = {}
    seen: set[tuple[str, str]] = set()
    for pid, address, client, size in clients:
        processes = used.setdefault(address, {})
        if (address, client) not in seen:
            seen.add((address, client))
            processes[pid] = processes.get(pid, 0) + size
    return [
        DeviceProcesses(
            "", f"pci:{address}", {pid: ProcessUse(size, None) for pid, size in processes.items()}
        )
        for address, processes in used.items()
    ]


def _pids(proc: str) -> list[int]:
    return [int(name) for name in _names(proc) if name.isdecimal()]


def _clients(proc: str, pids: Collection[int]) -> Iterator[tuple[int, str, str, int]]:
    """Yield every open file of a GPU: the process, the GPU's address, the client and its memory."""
    for pid in sorted(pids):
        for name in _names(f"{proc}/{pid}/fd"):
            try:
                if not os.readlink(f"{proc}/{pid}/fd/{name}").startswith(_NODES):
                    continue
                with open(f"{proc}/{pid}/fdinfo/{name}", "rb") as file:
                    text = file.read(_LIMIT).decode("ascii", "replace")
            except OSError:
                continue
            fields = {match[1]: (match[2], match[3] or "") for match in _FIELD.finditer(text)}
            if "pdev" in fields and "client-id" in fields:
                yield pid, fields["pdev"][0], fields["client-id"][0], _memory(fields)


def _memory(fields: dict[str, tuple[str, str]]) -> int:
    sizes: dict[str, int] = {}
    for name, (value, unit) in fields.items():
        match = _LOCAL.match(name)
        if match and value.isdecimal():
            sizes[match[1]] = sizes.get(match[1], 0) + int(value) * _UNITS[unit]
    return next((sizes[kind] for kind in _BEST if kind in sizes), 0)


def _names(folder: str) -> Collection[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()

"""The CPU cores that this process may use: runtimes and planners would count those of the whole machine."""

import os
from typing import Final

_QUOTA: Final = "/sys/fs/cgroup/cpu.max"


def usable_cores(quota: str = _QUOTA) -> int:
    """Return the cores of this process's affinity, or fewer by the quota of its cgroup; at least one."""
    allowed = len(os.sched_getaffinity(0))
    try:
        with open(quota, encoding="ascii") as limit:
            most, period = limit.read().split()
        return max(1, min(allowed, -(-int(most) // int(period))))
    except (OSError, ValueError):  # no such limit, or `max`
        return allowed

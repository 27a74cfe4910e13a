"""The RAM and the cores that this process may use: the machine's, or what its cgroups leave of them."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fairlead.host import Host
from fairlead.units import Bytes

_CGROUPS: Final = "/sys/fs/cgroup"
_MOST_LEVELS: Final = 32
_MEMINFO: Final = re.compile(rb"(?m)^(MemTotal|MemAvailable|MemFree|Buffers|Cached):\s+([0-9]{1,15}) kB")
_OLDER: Final = (b"MemFree", b"Buffers", b"Cached")
"""What kernels before 3.14 show instead of MemAvailable."""
_CORE: Final = re.compile(rb"(?m)^cpu([0-9]{1,5})((?: +[0-9]{1,20}){4,})")
_IDLE: Final = (3, 4)
"""The fields idle and iowait of a line of /proc/stat."""
_ALL: Final = 8
"""The fields up to steal; guest time, which follows, is already part of user time."""


@dataclass(frozen=True, slots=True)
class RamReading:
    """The RAM of this process at one moment."""

    total: Bytes
    available: Bytes


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The cores of this process, and the time that was spent on them."""

    cpu: int
    """Thousandths of cores."""
    spent: float | None
    """Seconds of all cores since some moment in the past; None: not readable."""
    source: str
    """What counts the seconds; two readings of one source can be compared."""


def read_ram(host: Host) -> RamReading:
    """Return the RAM, at most what the memory cgroups above this process leave."""
    fields = dict(_MEMINFO.findall(host.read("/proc/meminfo", 4096) or b""))
    total = int(fields.get(b"MemTotal", 0)) << 10
    free = fields.get(b"MemAvailable") or sum(int(fields.get(name, 0)) for name in _OLDER)
    available = int(free) << 10
    for limit, left in _memory_levels(host):
        total, available = min(total, limit), min(available, left)
    return RamReading(Bytes(total), Bytes(max(0, available)))


def read_cpu(host: Host, cpus: int) -> CpuReading:
    """Return the cores; `cpus` is their number where this is not the machine that the program runs on."""
    allowed = os.sched_getaffinity(0) if host.here else frozenset(range(cpus))
    quota = min(_quotas(host), default=None)
    if quota is not None and quota[0] < len(allowed) * 1000:
        cpu, folder = quota
        return CpuReading(max(1, cpu), _cgroup_seconds(host, folder), folder)
    return CpuReading(len(allowed) * 1000, _core_seconds(host, allowed), "cores")


def used_between(before: CpuReading | None, after: CpuReading, seconds: float) -> int | None:
    """Return the thousandths of cores that were busy between two readings; None where they differ in kind."""
    if before is None or before.source != after.source or before.spent is None or after.spent is None:
        return None
    if seconds <= 0 or after.spent < before.spent:
        return None
    return round((after.spent - before.spent) / seconds * 1000)


def _memory_levels(host: Host) -> Iterator[tuple[int, int]]:
    """Yield the limit of every cgroup above this process, and what is left of it.

    Pages of files that were not used lately are given back before a limit is reached.
    """
    for folder in _levels(host, ""):
        limit = _amount(host, f"{folder}/memory.max")
        used = _amount(host, f"{folder}/memory.current")
        if limit is not None and used is not None:
            yield limit, limit - used + _statistic(host, folder, "inactive_file")
    for folder in _levels(host, "memory"):
        limit = _amount(host, f"{folder}/memory.limit_in_bytes")
        used = _amount(host, f"{folder}/memory.usage_in_bytes")
        if limit is not None and used is not None:
            yield limit, limit - used + _statistic(host, folder, "total_inactive_file")


def _quotas(host: Host) -> Iterator[tuple[int, str]]:
    """Yield the quota of every cgroup above this process, in thousandths of cores, and its folder."""
    for folder in _levels(host, ""):
        quota, _, period = (host.text(f"{folder}/cpu.max") or "").partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) * 1000 // int(period), folder
    for folder in _levels(host, "cpu"):
        spend = _amount(host, f"{folder}/cpu.cfs_quota_us")
        every = _amount(host, f"{folder}/cpu.cfs_period_us")
        if spend and every:
            yield spend * 1000 // every, folder


def _levels(host: Host, controller: str) -> Iterator[str]:
    """Yield the folders of this process' cgroup and of all above it; `controller` is empty for version 2.

    Inside a container the root of the mounted tree is the container's own cgroup.
    """
    base = f"{_CGROUPS}/{controller}" if controller else _CGROUPS
    for line in (host.read("/proc/self/cgroup", 16384) or b"").decode("utf-8", "replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part not in ("", ".", "..")][:_MOST_LEVELS]
        for depth in range(len(parts), -1, -1):
            yield "/".join([base, *parts[:depth]])


def _amount(host: Host, path: str) -> int | None:
    """Return the number in a file; None for `max` and -1, which mean no limit."""
    text = host.text(path) or ""
    return int(text) if text.isdecimal() else None


def _statistic(host: Host, folder: str, name: str) -> int:
    match = re.search(rf"(?m)^{name} ([0-9]{{1,19}})$", (host.read(f"{folder}/memory.stat") or b"").decode())
    return int(match[1]) if match else 0


def _cgroup_seconds(host: Host, folder: str) -> float | None:
    match = re.match(rb"usage_usec ([0-9]{1,19})", host.read(f"{folder}/cpu.stat", 4096) or b"")
    if match:
        return int(match[1]) / 1e6
    spent = _amount(host, folder.replace(f"{_CGROUPS}/cpu", f"{_CGROUPS}/cpuacct", 1) + "/cpuacct.usage")
    return None if spent is None else spent / 1e9


def _core_seconds(host: Host, cores: "frozenset[int] | set[int]") -> float | None:
    """Return the seconds that these cores were busy since the boot."""
    rows = _CORE.findall(host.read("/proc/stat", 1 << 18) or b"")
    if not rows:
        return None
    ticks = 0
    for number, text in rows:
        if int(number) in cores:
            fields = [int(field) for field in text.split()[:_ALL]]
            ticks += sum(fields) - sum(fields[index] for index in _IDLE)
    return ticks / os.sysconf("SC_CLK_TCK")

"""JobSampler: measures one running job from its start to its end."""

import os
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from fairlead.history.outcome import JobOutcome
from fairlead.job import JobUse, ProcessRef
from fairlead.local.sample.devices import JobDevices
from fairlead.local.sample.energy import ProcessorEnergy
from fairlead.local.sample.processes import JobProcesses, ProcessStat
from fairlead.local.sample.trace import PeakTrace, TimeAtLevels
from fairlead.local.view import DeviceView
from fairlead.share import DeviceShare
from fairlead.sizing.footprint import GROWTH, MOST_RAMP
from fairlead.units import Bytes, Seconds

SHORTEST: Final = 0.1
LONGEST: Final = 2.0
"""Seconds between two samples: few for a command that has just started, for it may end soon."""
PARTS: Final = 4
"""A command that has run for some time is measured again after this part of it."""
WINDOW: Final = 5.0
"""Seconds over which the use of cores is averaged."""
QUIET: Final = 10.0
"""Seconds without a new peak after which a job has settled, if they are also half of its time."""
HIGH: Final = 0.95
"""The part of the time for which a job stays below its high use of cores."""
SHORT: Final = 1.0
"""Seconds of a run in which samples may miss most of what it holds."""
_KIB: Final = 1024


class ResourceUsage(Protocol):
    """What `os.wait4` returns of a process that ended: itself, and its descendants that were waited for."""

    @property
    def ru_maxrss(self) -> int:
        """The most RAM of one of the processes, in KiB."""

    @property
    def ru_utime(self) -> float:
        """CPU seconds of their own code."""

    @property
    def ru_stime(self) -> float:
        """CPU seconds in the kernel."""


class JobSampler:
    """Measures one running job: its process tree, and what that holds of accelerators."""

    def __init__(
        self,
        command: ProcessRef,
        shares: Sequence[DeviceShare],
        gpus: Callable[[], Sequence[DeviceView]] | None,
        clock: Callable[[], float],
        root: str = "/",
        earlier: Collection[int] = (),
    ) -> None:
        """`gpus` reads the accelerators, as `lambda: machine.view().devices` does; None: there are none.

        `clock` returns the seconds since the boot; `earlier` are pids from before the command's process.
        """
        self._processes = JobProcesses(command, root, earlier)
        self._devices = JobDevices(shares)
        self._has_shares = bool(shares)
        self._gpus = gpus
        self._clock = clock
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._started = command.start / self._ticks
        self._at = self._started
        self._stats: dict[int, ProcessStat] = {}
        self._cpu_seconds = 0.0
        self._recent: deque[tuple[float, float]] = deque([(self._started, 0.0)])
        """Times, and the CPU seconds until then."""
        self._cpu = TimeAtLevels()
        self._memory, self._gpu_memory = PeakTrace(), PeakTrace()
        self._record, self._grew = 0.0, self._started
        """The last peak that was no slow creep, and its time."""
        self._gpu_record = 0.0
        self._busy_seconds = self._busy_time = 0.0
        self._joules: float | None = None
        self._energy = None if shares else ProcessorEnergy(root)

    @property
    def interval(self) -> float:
        """Seconds until the next sample should be taken."""
        return max(SHORTEST, min(LONGEST, (self._at - self._started) / PARTS))

    def sample(self) -> JobUse:
        """Measure the job now."""
        now = self._clock()
        passed = max(0.0, now - self._at)
        self._at = now
        stats = self._processes.scan()
        before = self._cpu_seconds
        cpu = self._count_cpu(stats, now, passed)
        memory = self._processes.memory(stats)
        use = self._devices.measure(self._gpus() if self._gpus else (), stats)
        gpu = max(use.memory.values(), default=Bytes(0))
        self._memory.add(now - self._started, memory)
        if use.memory or self._gpu_memory.peak:
            self._gpu_memory.add(now - self._started, gpu)
        self._note_growth(memory, gpu, now)
        if use.busy:
            self._busy_seconds += passed * sum(use.busy.values()) / len(use.busy)
        self._busy_time += passed
        self._count_energy(use.watts, passed, self._cpu_seconds - before)
        return JobUse(
            now, cpu, memory, use.memory, use.busy,
            Bytes(round(self._memory.peak)), Bytes(round(self._gpu_memory.peak)), self.settled,
        )  # fmt: skip

    def note_gpu_memory(self, amount: Bytes) -> None:
        """Count the memory of an accelerator that was seen between two samples."""
        self._gpu_memory.add(max(0.0, self._clock() - self._started), amount)

    @property
    def settled(self) -> bool:
        """Whether the job has stopped growing: no peak is new, and its accelerators are in use."""
        run, quiet = self._at - self._started, self._at - self._grew
        in_use = self._gpu_memory.peak > 0 or not self._has_shares
        return in_use and (run >= MOST_RAMP or (quiet >= QUIET and quiet >= run / 2))

    def finish(self, usage: ResourceUsage | None = None, inherited: int = 0) -> JobOutcome:
        """Return what the job used; `usage` is the kernel's own account of the command, from `os.wait4`.

        `inherited` is the peak of the process that forked the command, in KiB: the kernel counts that memory
        for the command too. A smaller peak of the account says little about a command with many samples.
        """
        seconds = max(1e-3, self._clock() - self._started)
        cpu_seconds = self._cpu_seconds
        if usage is not None:
            if usage.ru_maxrss > inherited or seconds < SHORT:
                self._memory.add(seconds, max(usage.ru_maxrss * _KIB, self._memory.peak))
            cpu_seconds = max(cpu_seconds, usage.ru_utime + usage.ru_stime)
        mean = round(1000 * cpu_seconds / seconds)
        reported = self._devices.used is not None and self._has_shares
        return JobOutcome(
            seconds=Seconds(seconds),
            memory=self._memory.series(),
            gpu_memory=self._gpu_memory.series(),
            cpu_mean=mean,
            cpu_high=max(mean, round(self._cpu.quantile(HIGH))),
            busy=self._busy_seconds / self._busy_time if reported and self._busy_time else None,
            joules=self._joules,
            used_accelerator=self._devices.used,
            settled=self.settled,
            device_memory=self._devices.total,
        )

    def _count_cpu(self, stats: dict[int, ProcessStat], now: float, passed: float) -> int:
        """Return the thousandths of a core of the last seconds.

        A parent that waits for its child takes over the child's time; a child that no member waits for takes
        its time away. Only in the second case the sum falls, and what the others used counts.
        """
        before = self._stats
        grown = sum(stat.ticks for stat in stats.values()) - sum(stat.ticks for stat in before.values())
        if grown < 0:
            pairs = ((stat, before.get(pid)) for pid, stat in stats.items())
            grown = sum(stat.ticks - old.ticks for stat, old in pairs if old is not None)
        self._stats = stats
        self._cpu_seconds += max(0, grown) / self._ticks
        self._recent.append((now, self._cpu_seconds))
        while len(self._recent) > 2 and now - self._recent[1][0] >= WINDOW:
            self._recent.popleft()
        since, earlier = self._recent[0]
        cpu = round(1000 * (self._cpu_seconds - earlier) / (now - since)) if now > since else 0
        self._cpu.add(cpu, passed)
        return cpu

    def _count_energy(self, watts: float | None, passed: float, cpu_seconds: float) -> None:
        """Count the energy of the job's accelerators, or without any that of the processor."""
        joules = None if watts is None else watts * passed
        if self._energy is not None:
            joules = self._energy.joules(cpu_seconds)
        if joules is not None:
            self._joules = (self._joules or 0.0) + joules

    def _note_growth(self, memory: float, gpu: float, now: float) -> None:
        if memory > self._record * GROWTH:
            self._record, self._grew = memory, now
        if gpu > self._gpu_record * GROWTH:
            self._gpu_record, self._grew = gpu, now

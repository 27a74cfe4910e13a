"""UseRecorder: samples a running job, and rewrites its record when what it counts for has changed."""

import resource
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from fairlead.errors import LedgerError
from fairlead.job import JobUse, LocalJob
from fairlead.ledger.ledger import JobLedger
from fairlead.limiter.overuse import Reading
from fairlead.local.view import DeviceView, MachineView
from fairlead.units import Bytes

if TYPE_CHECKING:
    from fairlead.history.outcome import JobOutcome
    from fairlead.local.sample import JobSampler

_CHANGE: Final = 0.1
"""The part by which memory must change before the record is rewritten."""
_CPU_CHANGE: Final = 0.5
"""Likewise for cores: it decides whether a job sleeps, and on shared cores its part changes all the time."""
_LEAST_CPU: Final = 250
"""Thousandths of a core: smaller changes decide nothing."""
_LEAST_MEMORY: Final = 16 << 20
_LEAST_PAUSE: Final = 1.0
"""Seconds between two records: each one wakes the processes that wait."""
_FIRST_READ: Final = 0.5
"""Seconds after the start of a job on an accelerator until the first sample: no program holds memory there
sooner, and each runner asks the driver for itself, while the programs start that it was made for."""
_MISSING_READS: Final = 2
"""Readings in a row without an accelerator after which it counts as lost."""


class MeasuredMachine(Protocol):
    """A machine that can be measured again and again, as LocalMachine can."""

    def view(self) -> MachineView:
        """Return the machine as it is now."""

    def held(self, devices: Collection[str], members: Callable[[], Collection[int]]) -> Reading:
        """Return the memory of processes on accelerators; `members` are those of the job."""

    def close(self) -> None:
        """Release the drivers."""


class UseRecorder:
    """Measures one running job. It never ends the job: what cannot be measured is left out."""

    def __init__(
        self,
        ledger: JobLedger,
        job: LocalJob,
        environ: Mapping[str, str],
        machine: MeasuredMachine | None,
        clock: Callable[[], float],
        earlier: Collection[int] = (),
    ) -> None:
        """`earlier` are pids from before the command's process was made."""
        self.job = job
        """The job as recorded last."""
        self.fault = ""
        """Why an accelerator of the job cannot be used any more; empty: all can."""
        self._ledger = ledger
        self._environ = environ
        self._machine = machine
        self._owned = machine is None
        self._clock = clock
        self._earlier = earlier
        self._written = clock()
        self.due = self._written + (_FIRST_READ if job.shares else 0.0)
        self._sampler: JobSampler | None = None
        self._missing: dict[str, int] = {}

    def sample(self) -> None:
        """Measure the job now, and rewrite its record if needed."""
        now = self._clock()
        self.due = now + 1.0
        try:
            sampler = self._opened()
            use = sampler.sample()
            self.due = self._clock() + sampler.interval
        except Exception:  # noqa: BLE001  # a job never ends because it cannot be measured
            return
        if now - self._written >= _LEAST_PAUSE and differs(self.job.measured, use):
            with suppress(LedgerError, OSError):  # on a full disk the record stays as it is
                measured = replace(self.job, measured=use)
                self._ledger.write(measured)
                self.job, self._written = measured, now

    def held(self, devices: Collection[str], members: Callable[[], Collection[int]]) -> Reading:
        """Return the memory of processes on accelerators; nothing before the first sample."""
        return self._machine.held(devices, members) if self._machine is not None else {}

    def note_gpu_memory(self, amount: Bytes) -> None:
        """Count what the job was seen to hold of an accelerator between two samples."""
        with suppress(Exception):
            self._opened().note_gpu_memory(amount)

    def finish(self, usage: resource.struct_rusage) -> "JobOutcome | None":
        """Return what the job used; None: it cannot be measured."""
        try:
            return self._opened().finish(usage, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        except Exception:  # noqa: BLE001  # likewise
            return None

    def close(self) -> None:
        """Release the drivers, which may take a while: call it once the end of the job is recorded."""
        if self._machine is not None and self._owned:
            self._machine.close()

    def _opened(self) -> "JobSampler":
        if self._sampler is None:
            from fairlead.local.sample import JobSampler  # noqa: PLC0415  # not before the command runs

            assert self.job.command is not None
            devices = self._devices if self.job.shares else None
            self._sampler = JobSampler(
                self.job.command, self.job.shares, devices, self._clock, earlier=self._earlier
            )
        return self._sampler

    def _devices(self) -> Sequence[DeviceView]:
        """Read the accelerators, and notice those of the job that are lost."""
        if self._machine is None:
            from fairlead.host import Host  # noqa: PLC0415
            from fairlead.local.machine import LocalMachine  # noqa: PLC0415

            self._machine = LocalMachine(Host("/"), self._ledger.place, self._environ)
        devices = self._machine.view().devices
        by_id = {device.accelerator.id: device for device in devices}
        for share in self.job.shares:
            device = by_id.get(share.device)
            self._missing[share.device] = 0 if device else self._missing.get(share.device, 0) + 1
            if device is not None and device.lost:
                self.fault = f"lost {share.device}: {device.fault}"
            elif self._missing[share.device] >= _MISSING_READS:
                self.fault = f"lost {share.device}: it is no longer there"
        return devices


def differs(old: JobUse | None, new: JobUse) -> bool:
    """Return whether a job counts for noticeably more or less than its record says."""
    if old is None or old.settled != new.settled:
        return True
    if _far(old.cpu, new.cpu, _LEAST_CPU, _CPU_CHANGE) or _far(old.memory, new.memory, _LEAST_MEMORY):
        return True
    ids = old.gpu_memory.keys() | new.gpu_memory.keys()
    return any(_far(old.gpu_memory.get(id_, 0), new.gpu_memory.get(id_, 0), _LEAST_MEMORY) for id_ in ids)


def _far(old: int, new: int, least: int, change: float = _CHANGE) -> bool:
    return abs(new - old) > max(least, change * old)

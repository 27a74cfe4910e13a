"""Jobs of `run` that the tests of the runner queue and start."""

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from fairlead.inventory import Accelerator, Machine
from fairlead.job import Assumed, JobKind, LocalJob, LocalState
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import boot_id, process_ref, seconds_since_boot
from fairlead.ledger.spec import JobSpec
from fairlead.limiter.overuse import Reading
from fairlead.local.view import DeviceView, MachineView
from fairlead.units import Bytes

GIB = 1 << 30
PYTHON = (sys.executable, "-S", "-E", "-c")


def view(*accelerators: Accelerator, fault: str = "", **fields: Any) -> MachineView:
    """Return a machine of 4 cores and 8 GiB."""
    values: dict[str, Any] = {
        "at": seconds_since_boot(),
        "machine": Machine(cpus=4, memory=Bytes(8 * GIB)),
        "devices": tuple(DeviceView(each, fault=fault, lost=bool(fault)) for each in accelerators),
        "cpu": 4000,
        "cpu_used": None,
        "memory": Bytes(8 * GIB),
        "memory_available": Bytes(6 * GIB),
    }
    return MachineView(**{**values, **fields})


def queued(number: int = 1, **fields: Any) -> LocalJob:
    """Return a queued job of this process."""
    values: dict[str, Any] = {
        "id": str(number),
        "number": number,
        "name": "job",
        "uid": os.geteuid(),
        "user": "me",
        "kind": JobKind.RUN,
        "state": LocalState.QUEUED,
        "submitted": 1.7e9,
        "submitted_boot": seconds_since_boot(),
        "boot": boot_id(),
        "runner": process_ref(os.getpid()),
        "assumed": Assumed(memory=Bytes(GIB // 64)),
    }
    return LocalJob(**{**values, **fields})


def add(ledger: JobLedger, *argv: str, output: str = "", **fields: Any) -> tuple[LocalJob, JobSpec]:
    """Record a queued job that runs a command in this environment."""
    spec = JobSpec(argv, os.getcwd(), dict(os.environ), output)
    with ledger.locked():
        return ledger.add(queued(**fields), spec), spec


@dataclass
class FakeMachine:
    """A machine whose views are computed by a function of the number of readings so far."""

    views: Callable[[int], MachineView]
    readings: int = 0
    listed: Callable[[], Reading] = dict
    """What its drivers list of processes."""

    def view(self) -> MachineView:
        """Return the next view."""
        self.readings += 1
        return self.views(self.readings)

    def held(self, devices: Collection[str], members: Callable[[], Collection[int]]) -> Reading:
        """Return what is listed of these accelerators."""
        return {device: processes for device, processes in self.listed().items() if device in devices}

    def close(self) -> None:
        """Release nothing."""

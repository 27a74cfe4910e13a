"""What runs in NVML's own process: it answers with everything that NVML reports, or with processes alone."""

import ctypes
import pickle
import signal
import socket
import time
from collections.abc import Collection
from contextlib import nullcontext
from typing import Final

from fairlead.attribution.sources import DeviceProcesses, NvmlSource, ProcessUse, nvml_places
from fairlead.faults import NvmlFailure
from fairlead.local.machine.nvml_process import LENGTH, LONGEST_QUESTION, PROCESSES, NvmlAnswer
from fairlead.nvml import LIBRARY, Gpu, GpuProcess, Nvml, ProcessBusy
from fairlead.nvml.failure import connect
from fairlead.units import Seconds

_RELIST: Final = Seconds(10.0)
"""How long a list of GPUs counts: MIG instances come and go."""
_PR_SET_PDEATHSIG: Final = 1


def serve(channel: socket.socket, library: str, expected: Collection[str]) -> None:
    """Answer every question until the other side ends; it asks the next one after the answer."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # also if a fork of the parent has the socket
    report = NvmlReport(library, expected)
    while question := channel.recv(LONGEST_QUESTION):
        if question.startswith(PROCESSES):
            answer = report.held(question[len(PROCESSES) :].decode("ascii", "replace").split(" "))
        else:
            answer = report.read()
        data = pickle.dumps(answer)
        channel.sendall(LENGTH.pack(len(data)) + data)


class NvmlReport:
    """Reads everything at once from a session that stays open."""

    def __init__(self, library: str, expected: Collection[str]) -> None:
        self._library, self._expected = library, expected
        self._session: Nvml | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._listed = 0.0

    def gpus(self) -> list[Gpu]:
        """Return the GPUs of the present list, for the source of processes: a list takes milliseconds."""
        return list(self._gpus)

    def processes(self, index: int) -> tuple[GpuProcess, ...] | None:
        """Return the processes on one GPU."""
        return self._session.processes(index) if self._session else None

    def busy(self, index: int, since: int) -> ProcessBusy | None:
        """Return how busy processes kept one GPU."""
        return self._session.busy(index, since) if self._session else None

    def held(self, devices: Collection[str]) -> NvmlAnswer:
        """Return the memory of the processes on these devices alone; before a report none is known."""
        lists = []
        for index, uuid, bus in (place for gpu in self._gpus for place in nvml_places(gpu)):
            listed = self.processes(index) if uuid in devices or bus in devices else None
            if listed is not None:
                uses = {each.pid: ProcessUse(each.memory, None) for each in listed}
                lists.append(DeviceProcesses(uuid, bus, uses))
        return NvmlAnswer(processes=tuple(lists))

    def read(self) -> NvmlAnswer:
        """Return everything that NVML reports now."""
        if self._session is None:
            session = connect(self._library or LIBRARY)
            if isinstance(session, NvmlFailure):
                return NvmlAnswer(failure=session)
            self._session = session
            self._processes = NvmlSource(lambda: nullcontext(self))
        if not self._gpus or time.monotonic() - self._listed > _RELIST:
            self._gpus, self._listed = tuple(self._session.gpus(self._expected)), time.monotonic()
        numbers = [gpu.index for gpu in self._gpus]
        numbers += [instance.index for gpu in self._gpus for instance in gpu.instances]
        readings = {number: self._session.reading(number) for number in numbers}
        return NvmlAnswer(
            self._gpus,
            {number: reading for number, reading in readings.items() if reading is not None},
            tuple(self._processes.read()),
            {number: tuple(xids) for number, xids in self._session.xids().items()},
        )

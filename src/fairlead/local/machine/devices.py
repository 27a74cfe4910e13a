"""The accelerators as they are now: memory in use, load, power, processes and faults.

Apart from the rest, because a machine without accelerators needs none of its imports.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain

from fairlead.attribution import NVMAP
from fairlead.attribution.sources import DeviceProcesses, KfdSource, NvmapSource
from fairlead.faults import XidPolicy
from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.local.machine.drm import DRIVERS, DrmSource, sees_all_users
from fairlead.local.machine.nvml_process import HUNG, NvmlAnswer
from fairlead.local.view import DeviceProcess, DeviceView
from fairlead.measure.observer import Observer, nvml_index
from fairlead.measure.readers import is_tegra
from fairlead.nvml import Gpu, GpuReading
from fairlead.nvml.mig import ANY_COMPUTE_INSTANCE, instance_index
from fairlead.telemetry import Metric, Sample
from fairlead.units import Bytes, Seconds, Watts

_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""What every CUDA program opens beside the node of its GPU; the second appears with the first program."""
_XID_COUNTS = 600.0
"""Seconds for which an XID is a fault: NVML does not report the reset that ends it."""


class DeviceReader:
    """Reads the accelerators at each call; counters and XIDs stay between two calls."""

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._host, self._clock = host, clock
        self._observer = Observer()
        self._xids: dict[str, tuple[int, float]] = {}
        """By accelerator, the last XID that makes it unhealthy, and when it came."""
        root = "" if host.live else host.root
        self._sources = (KfdSource(f"{root}/sys"), NvmapSource(f"{root}/sys/kernel/debug"))
        self._clients = DrmSource(root)

    def views(self, accelerators: Sequence[Accelerator], answer: NvmlAnswer | None) -> tuple[DeviceView, ...]:
        """Return every accelerator with its live values; without the NVIDIA driver there is no answer."""
        answer = answer or NvmlAnswer()
        now, date = Seconds(self._clock()), Seconds(time.time())
        readings = _Readings(answer.readings)
        samples = self._observer.look(self._host, accelerators, now, date, answer.gpus, readings)
        values = {(sample.accelerator, sample.metric): sample.value for sample in _first(samples)}
        listed = [*answer.processes, *chain.from_iterable(source.read() for source in self._sources)]
        if any(acc.driver in DRIVERS for acc in accelerators):
            listed += self._clients.read()
        return tuple(self._view(acc, values, listed, answer) for acc in accelerators)

    def held(
        self,
        accelerators: Sequence[Accelerator],
        nvml: Sequence[DeviceProcesses],
        members: Callable[[], Collection[int]],
    ) -> dict[str, dict[int, Bytes]]:
        """Return the memory of processes by accelerator and pid; an accelerator without a list is absent.

        Graphics drivers list no processes: only the files of `members` are read.
        """
        listed = [*nvml]
        if any(acc.driver != "nvidia" for acc in accelerators):
            listed += chain.from_iterable(source.read() for source in self._sources)
        if any(acc.driver in DRIVERS for acc in accelerators):
            listed += self._clients.of(members())
        lists = ((acc.id, _processes(acc, listed)) for acc in accelerators)
        return {
            device: {each.pid: each.memory for each in processes if each.memory is not None}
            for device, processes in lists
            if processes is not None
        }

    def _view(
        self,
        acc: Accelerator,
        values: Mapping[tuple[str, Metric], float],
        listed: Sequence[DeviceProcesses],
        answer: NvmlAnswer,
    ) -> DeviceView:
        processes = _processes(acc, listed)
        used = values.get((acc.id, Metric.MEMORY_USED), _sum_of_clients(acc, processes))
        power = values.get((acc.id, Metric.POWER))
        return DeviceView(
            acc,
            memory_used=None if used is None else Bytes(round(used)),
            busy=values.get((acc.id, Metric.BUSY)),
            power=None if power is None else Watts(power),
            processes=processes,
            fault=(passing := self._nvidia_fault(acc, answer)) or self._lasting_fault(acc),
            lost=_is_lost(acc, answer),
            recoverable=bool(passing),
            temperature=values.get((acc.id, Metric.TEMPERATURE)),
        )

    def _lasting_fault(self, acc: Accelerator) -> str:
        """Return why no job may start on an accelerator: its state, or the user's rights."""
        return self._closed_node(acc) if acc.state.allocatable else acc.reason

    def _nvidia_fault(self, acc: Accelerator, answer: NvmlAnswer) -> str:
        """Return NVML's fault of a GPU; a MIG instance has those of its GPU too."""
        if acc.vendor != "NVIDIA":
            return ""
        if answer.failure:
            return answer.failure.reason if answer.failure.for_cuda and acc.driver == "nvidia" else ""
        gpu = _gpu_of(acc, answer.gpus)
        places = (nvml_index(acc, answer.gpus), gpu.index if gpu else None)
        numbers = {number for number in places if number is not None}
        if gpu and acc.mig:  # an event of all compute instances of its GPU instance
            numbers.add(instance_index(gpu.index, acc.mig.gpu_instance, ANY_COMPUTE_INSTANCE))
        for xid in (xid for number in numbers for xid in answer.xids.get(number, ())):
            if XidPolicy().is_fatal(xid):
                self._xids[acc.id] = xid, self._clock()
        faults = [answer.readings[number].health.fault for number in numbers if number in answer.readings]
        if gpu and gpu.index not in answer.readings:
            faults.append(gpu.fault)
        if gpu and gpu.prohibited:
            faults.append("its compute mode forbids every CUDA program; allow them: nvidia-smi -c 0")
        xid, came = self._xids.get(acc.id, (0, 0.0))
        if xid and self._clock() < came + _XID_COUNTS:
            faults.append(f"the driver reported XID {xid}; reset the GPU (nvidia-smi -r) or reboot")
        return next(filter(None, faults), "")

    def _closed_node(self, acc: Accelerator) -> str:
        """Return that this user may not open a device node that the programs of an accelerator open."""
        if not self._host.live:
            return ""
        nodes = [acc.node] if acc.node and acc.node.startswith("/dev/") else []
        nodes += _NODES if acc.driver == "nvidia" else []
        closed = [node for node in nodes if os.path.exists(node) and not os.access(node, os.R_OK | os.W_OK)]
        parts = acc.mig.nodes if acc.mig else ()
        closed += [node for node in parts if os.path.exists(node) and not os.access(node, os.R_OK)]
        if not closed:
            return ""
        return f"this user may not open {closed[0]}: join the group of that node, or write a udev rule"


def _gpu_of(acc: Accelerator, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU that an accelerator is, or is a part of."""
    uuid = acc.mig.parent_uuid if acc.mig else acc.uuid
    matching = [gpu for gpu in gpus if gpu.uuid and gpu.uuid == uuid]
    matching += [gpu for gpu in gpus if gpu.address and acc.bus == f"pci:{gpu.address}"]
    return next(iter(matching), None)


def _is_lost(acc: Accelerator, answer: NvmlAnswer) -> bool:
    """Say whether the programs on a GPU cannot go on."""
    if answer.failure:
        return answer.failure == HUNG and acc.driver == "nvidia"
    gpu = _gpu_of(acc, answer.gpus) if acc.vendor == "NVIDIA" else None
    if gpu is None:
        return False
    reading = answer.readings.get(gpu.index)
    return gpu.lost if reading is None else reading.health.lost


class _Readings:
    """NVML's readings, as the observer asks for them."""

    def __init__(self, readings: Mapping[int, GpuReading]) -> None:
        self._readings = readings

    def reading(self, index: int) -> GpuReading | None:
        return self._readings.get(index)


def _first(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Yield one sample of each metric: of several sensors, the first is the whole device's."""
    seen: set[tuple[str, Metric]] = set()
    for sample in samples:
        if (sample.accelerator, sample.metric) not in seen:
            seen.add((sample.accelerator, sample.metric))
            yield sample


def _processes(acc: Accelerator, listed: Sequence[DeviceProcesses]) -> tuple[DeviceProcess, ...] | None:
    """Return the processes on an accelerator; None where no driver lists them.

    Two drivers of AMD may list the same process: for computing and for graphics. The larger amount counts.
    """
    lists = [device.processes for device in listed if _is_of(acc, device)]
    processes: dict[int, DeviceProcess] = {}
    for pid, use in (pair for each in lists for pair in each.items()):
        known = processes.get(pid)
        if known is None or (use.memory or 0) > (known.memory or 0):
            processes[pid] = DeviceProcess(pid, None if use.memory is None else Bytes(use.memory), use.busy)
    known_to_be_empty = acc.driver in DRIVERS and sees_all_users()
    return tuple(processes[pid] for pid in sorted(processes)) if lists or known_to_be_empty else None


def _sum_of_clients(acc: Accelerator, processes: tuple[DeviceProcess, ...] | None) -> float | None:
    """Return the memory in use of a GPU whose driver reports it by process only: what every user holds."""
    if acc.driver not in DRIVERS or acc.unified_memory or not sees_all_users():
        return None
    return float(sum(each.memory or 0 for each in processes or ()))


def _is_of(acc: Accelerator, device: DeviceProcesses) -> bool:
    if device.uuid and acc.uuid:
        return device.uuid == acc.uuid
    return device.bus == acc.bus or (device.bus == NVMAP and is_tegra(acc))

"""One machine as the engine's cluster of one node, with what runs on it and what other processes hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.job import LocalJob, LocalState
from fairlead.local.queue.counts import JobCount, count_job
from fairlead.local.queue.requests import NODE, device_states, estimates_of
from fairlead.local.view import DeviceView, MachineView
from fairlead.placement import NodeState, Placement
from fairlead.request import NO_BYTES, Request
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.share import DeviceShare
from fairlead.units import Bytes

MOST_JOBS: Final = 1 << 20
"""Jobs that may run at once: amounts decide, not numbers."""
OUTSIDE_USE: Final = 0.1
"""The part of an accelerator's memory up to which processes outside fairlead leave it whole: a driver and a
desktop hold some hundred MiB, and whole accelerators must be available beside them."""


@dataclass(frozen=True, slots=True)
class MachineState:
    """The machine with everything that holds a part of it."""

    view: MachineView
    running: tuple[LocalJob, ...]
    counts: Mapping[str, JobCount]
    """By job id."""
    capacities: Mapping[str, Bytes]
    """By accelerator id: all of its memory; 0: unknown."""
    outside: Mapping[str, Bytes]
    """By accelerator id: the memory that processes outside fairlead hold."""
    outside_memory: Bytes
    """RAM that neither running jobs nor free memory explain."""

    def cluster(self) -> EngineCluster:
        """Return the engine's state: one node, and all that runs on it."""
        view = self.view
        memory = Bytes(view.memory - self.outside_memory)
        node = NodeState(NODE, view.cpu, memory, MOST_JOBS, devices=device_states(view, self.outside))
        cluster = EngineCluster([node], self._outside_holders())
        for job in self.running:
            cluster.bind(self.placement(job), strict=False)
        for device in view.devices:
            if device.busy is not None:
                cluster.set_measured_busy(NODE, device.accelerator.id, device.busy)
        return cluster

    def placement(self, job: LocalJob) -> Placement:
        """Return a running job with what it counts for now."""
        count = self.counts[job.id]
        slo = job.requested.slo if job.assumed.devices else None
        request = Request(
            job.name, job.user, job.id, count.firm_cpu, count.memory, slo=slo, estimates=estimates_of(job)
        )
        return Placement(request, NODE, count.shares)

    def _outside_holders(self) -> list[Placement]:
        """Return a holder for each accelerator that other processes use in earnest."""
        return [
            Placement(Request(f"outside {device}"), NODE, (DeviceShare(device),))
            for device in sorted(self.outside)
            if self.outside[device] > OUTSIDE_USE * self.capacities[device]
        ]


def machine_state(view: MachineView, jobs: Iterable[LocalJob]) -> MachineState:
    """Return the state of a machine: records of running jobs, and the rest of what is measured."""
    running = tuple(sorted((job for job in jobs if job.state is LocalState.RUNNING), key=_by_number))
    capacities = {device.accelerator.id: device.accelerator.memory or NO_BYTES for device in view.devices}
    counts = {job.id: count_job(job, view, capacities) for job in running}
    outside = {
        device.accelerator.id: memory
        for device in view.devices
        if (memory := _outside_memory(device, running, counts))
    }
    return MachineState(view, running, counts, capacities, outside, _outside_ram(view, running, counts))


def _by_number(job: LocalJob) -> tuple[int, str]:
    return job.number, job.id


def _outside_memory(device: DeviceView, running: Iterable[LocalJob], counts: Mapping[str, JobCount]) -> Bytes:
    """Return what processes outside fairlead hold: all that is used, less what our jobs are measured to hold.

    A job that is not measured there yet may hold all that it counts for. Unified memory is the machine's RAM:
    what others hold of it is missing from the memory that is available.
    """
    if device.memory_used is None or device.accelerator.unified_memory:
        return NO_BYTES
    name, left = device.accelerator.id, device.memory_used
    for job in running:
        for share in counts[job.id].shares:
            if share.device == name:
                held = job.measured.gpu_memory.get(name) if job.measured is not None else None
                most = left if share.whole else share.memory
                left = Bytes(left - (most if held is None else held))
    return Bytes(max(0, left))


def _outside_ram(view: MachineView, running: Iterable[LocalJob], counts: Mapping[str, JobCount]) -> Bytes:
    """Return the RAM that is neither booked nor available beside what running jobs may still take."""
    unified = {device.accelerator.id for device in view.devices if device.accelerator.unified_memory}
    booked = growth = 0
    for job in running:
        count = counts[job.id]
        lent = [share for share in count.shares if share.device in unified and not share.whole]
        use = job.measured.gpu_memory if job.measured is not None else {}
        booked += count.memory + sum(share.memory for share in lent)
        growth += max(0, count.memory - count.held)
        growth += sum(max(0, share.memory - use.get(share.device, 0)) for share in lent)
    return Bytes(max(0, (view.memory - booked) - (view.memory_available - growth)))

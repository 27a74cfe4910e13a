"""A queued job as the engine's request; on one machine the model of an accelerator is its own id."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fairlead.job import Limiter, LocalJob
from fairlead.local.eligible import can_be_used, fault_of, matching
from fairlead.local.view import DeviceView, MachineView
from fairlead.need import Need, effective_size, headroom
from fairlead.placement import DeviceState
from fairlead.request import NO_BYTES, Demand, Expectation, Request
from fairlead.units import Bytes

NODE: Final = "here"
"""The name of the only node."""
MOST_ASSUMED: Final = 0.8
"""The part of the RAM that a job without a stated size waits for at most: a learned peak may exceed it."""


@dataclass(frozen=True)
class QueuedJob:
    """A job that waits, with what decides where it fits."""

    job: LocalJob
    memory: Bytes
    """RAM."""
    candidates: tuple[str, ...]
    """The accelerators that it may run on, faulty ones included; empty without accelerators."""
    whole: bool
    """It gets its accelerators alone."""
    least: int = 0
    """Memory that it certainly needs of each accelerator: it counts for least on the largest one."""
    soft: bool = False
    """It may hold more of them than it counts for."""

    @cached_property
    def request(self) -> Request:
        """The job as the engine sees it."""
        job, assumed = self.job, self.job.assumed
        return Request(
            job.name,
            job.user,
            job.id,
            assumed.cpu if assumed.firm_cpu else 0,  # other cores are compressible: `admission` counts them
            self.memory,
            demand=self._demand() if assumed.gpus else Demand(),
            slo=job.requested.slo if assumed.devices else None,
            estimates=estimates_of(job),
            need=assumed.need if assumed.gpus and not self.whole else None,
        )

    def _demand(self) -> Demand:
        job, need = self.job, self.job.assumed.need
        if self.whole:
            return Demand(job.assumed.gpus, models=self.candidates)
        size = job.requested.gpu_memory or (need.peak if need is not None else 0)
        percent = job.requested.gpu_compute
        compute = None if percent is None else 10 * percent
        return Demand(job.assumed.gpus, Bytes(max(1, size)), compute, models=self.candidates)


def estimates_of(job: LocalJob) -> dict[str, Expectation]:
    """Return the predicted latency of a job's model on each accelerator."""
    return {name: Expectation(seconds) for name, seconds in job.assumed.devices.items()}


class JobReader:
    """Reads queued jobs for one machine."""

    def __init__(self, view: MachineView) -> None:
        self._view = view
        self._ids = tuple(device.accelerator.id for device in view.devices)
        self._capacities = {
            device.accelerator.id: device.accelerator.memory or NO_BYTES for device in view.devices
        }
        self._largest = max(self._capacities.values(), default=NO_BYTES)
        self._largest_soft = self._largest - headroom(self._largest)
        self._most_assumed = Bytes(int(MOST_ASSUMED * view.memory))

    def read(self, job: LocalJob) -> QueuedJob:
        """Return a queued job with what decides where it fits."""
        assumed = job.assumed
        memory = assumed.memory if assumed.firm_memory else min(assumed.memory, self._most_assumed)
        if not assumed.gpus:
            return QueuedJob(job, memory, (), False)
        names = self._ids
        if job.requested.device or assumed.devices or job.requested.limiter is Limiter.MPS:
            names = matching(job, self._view.devices)
        need = assumed.need
        if assumed.whole or (need is None and job.requested.gpu_memory is None):
            return QueuedJob(job, memory, names, True)
        if need is None:
            return QueuedJob(job, memory, names, False, job.requested.gpu_memory or 0)
        if need.firm:
            return QueuedJob(job, memory, names, False, need.peak)
        least = effective_size(need, self._largest)
        roomy = names is self._ids and least <= self._largest_soft
        if not roomy and not self._leaves_headroom(need, names):
            return QueuedJob(job, memory, self._large_enough(need, names), True)
        return QueuedJob(job, memory, names, False, least, True)

    def _leaves_headroom(self, need: Need, names: Sequence[str]) -> bool:
        """Return whether a soft job leaves headroom on some accelerator; otherwise it must have one alone."""
        sizes = (self._capacities[name] for name in names)
        return any(effective_size(need, size) + headroom(size) <= size for size in sizes if size)

    def _large_enough(self, need: Need, names: Sequence[str]) -> tuple[str, ...]:
        """Return the accelerators that hold a job when it has them alone."""
        sizes = ((name, self._capacities[name]) for name in names)
        return tuple(name for name, size in sizes if not size or effective_size(need, size) <= size)


def device_states(view: MachineView, outside: Mapping[str, Bytes]) -> tuple[DeviceState, ...]:
    """Return the accelerators, without the memory that processes outside fairlead hold."""
    return tuple(
        _state(device, outside.get(device.accelerator.id, NO_BYTES), healthy=not fault_of(device))
        for device in view.devices
    )


def recovered_states(view: MachineView) -> tuple[DeviceState, ...]:
    """Return the accelerators empty, and as they are after every fault that can pass."""
    return tuple(_state(device, NO_BYTES, healthy=can_be_used(device)) for device in view.devices)


def _state(device: DeviceView, outside: Bytes, *, healthy: bool) -> DeviceState:
    accelerator = device.accelerator
    memory = accelerator.memory or NO_BYTES
    return DeviceState(
        accelerator.id,
        accelerator.id,
        accelerator.vendor,
        Bytes(max(memory - outside, min(memory, 1))),
        healthy=healthy,
        unified=accelerator.unified_memory,
        shareable=accelerator.shareable,
        precisions=tuple(sorted(accelerator.peak)),
    )

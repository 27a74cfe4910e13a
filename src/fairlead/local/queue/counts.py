"""What a running job counts for now: what is stated, what is assumed, and what is measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.job import LocalJob
from fairlead.local.view import MachineView
from fairlead.need import effective_size
from fairlead.request import NO_BYTES
from fairlead.share import DeviceShare
from fairlead.units import Bytes

YOUNG: Final = 1.0
"""Seconds of measurements after which measured cores count instead of assumed ones."""
HALF_LIFE: Final = 1.0
"""Seconds in which half of the default RAM of a job of which nothing is known stops to count, beyond what it
holds: most programs take what they need when they start."""


@dataclass(frozen=True, slots=True)
class JobCount:
    """What one running job counts for."""

    cpu: int
    """Thousandths of cores: stated ones, or those that it is measured or assumed to use."""
    firm_cpu: int
    """The stated ones; 0: none."""
    measured: bool
    """Whether `cpu` was measured."""
    memory: Bytes
    """RAM that it holds or may still take."""
    held: Bytes
    """RAM that it holds."""
    shares: tuple[DeviceShare, ...]
    """Of accelerators, as counted now."""


def count_job(job: LocalJob, view: MachineView, capacities: Mapping[str, Bytes]) -> JobCount:
    """Return what a running job counts for on this machine; never more than there is."""
    assumed, use = job.assumed, job.measured
    firm = assumed.cpu if assumed.firm_cpu else 0
    measured = use is not None and (
        use.settled or job.started_boot is None or use.at - job.started_boot >= YOUNG
    )
    cpu = use.cpu if use is not None and measured and not firm else assumed.cpu
    held = use.memory if use is not None else NO_BYTES
    shares = tuple(_share(job, share, capacities.get(share.device, NO_BYTES)) for share in job.shares)
    return JobCount(
        _within(cpu, view.cpu),
        _within(firm, view.cpu),
        measured,
        Bytes(_within(_ram(job, view.at), view.memory)),
        Bytes(_within(held, view.memory)),
        shares,
    )


def _within(amount: int, most: int) -> int:
    # Other users write the records: no amount in them may be more than the arrays of the engine can hold.
    return max(0, min(amount, most))


def _ram(job: LocalJob, now: float) -> Bytes:
    """Return the RAM that a job counts for: never less than it holds."""
    assumed, use = job.assumed, job.measured
    if use is None:
        return assumed.memory
    if assumed.firm_memory:
        return max(assumed.memory, use.memory)
    most = max(use.memory, use.peak_memory)
    if use.settled:
        return most
    if not assumed.default_memory or job.started_boot is None:
        return max(assumed.memory, use.memory)
    age = max(0.0, now - job.started_boot)
    return Bytes(round(most + max(0, assumed.memory - most) * 0.5 ** (age / HALF_LIFE)))


def _share(job: LocalJob, share: DeviceShare, capacity: Bytes) -> DeviceShare:
    """Return what a job counts for on one of its accelerators: never less than it holds."""
    if share.whole:
        return DeviceShare(share.device, whole=True)
    need, use = job.assumed.need, job.measured
    held = use.gpu_memory.get(share.device, NO_BYTES) if use is not None else NO_BYTES
    counted = effective_size(need, capacity) if need is not None and capacity else share.memory
    stated = job.requested.gpu_memory is not None and job.requested.gpu_limit is None
    if use is not None and use.settled and held and not stated:
        counted = use.peak_gpu_memory
    memory = Bytes(_within(max(counted, held), capacity))
    soft = need is not None and not need.firm
    return DeviceShare(share.device, memory, share.compute, soft=soft)

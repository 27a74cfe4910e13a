"""When queued jobs are expected to start: the known ends of jobs, played forward by amounts alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from fairlead.local.queue.requests import QueuedJob
from fairlead.local.queue.reserve import expected_length
from fairlead.need import effective_size
from fairlead.schedule.state.cluster import NodeFree
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

MOST: Final = 32
"""Jobs at the front of the queue that are played forward: the cost of a plan is bounded."""


@dataclass(frozen=True, slots=True)
class HeldRoom:
    """What one job gives back when it ends."""

    id: str
    end: float | None
    """Seconds since the boot; None: unknown, so it gives nothing back."""
    memory: int
    firm_cpu: int
    wanted_cpu: int
    shares: tuple[DeviceShare, ...]


class _Room:
    """The free amounts as time goes on."""

    def __init__(self, free: NodeFree, cpu: int) -> None:
        self.memory, self.firm, self.cpu = int(free.memory), free.cpu, cpu
        self.devices = {device.id: [device.memory, device.holders, device.total] for device in free.devices}

    def change(self, held: HeldRoom, sign: int) -> None:
        """Give back what a job holds, or take it with the sign -1."""
        self.memory += sign * held.memory
        self.firm += sign * held.firm_cpu
        self.cpu += sign * held.wanted_cpu
        for share in held.shares:
            device = self.devices.get(share.device)
            if device is not None:
                device[0] += sign * (device[2] if share.whole else share.memory)
                device[1] -= sign

    def shares_for(self, queued: QueuedJob, sizes: Mapping[str, int]) -> tuple[DeviceShare, ...] | None:
        """Return where a job would go; None: nowhere yet."""
        assumed = queued.job.assumed
        if queued.memory > self.memory or assumed.cpu > (self.firm if assumed.firm_cpu else self.cpu):
            return None
        shares: list[DeviceShare] = []
        for name, size in sizes.items():
            if len(shares) == assumed.gpus:
                break
            free, holders, _ = self.devices[name]
            if holders == 0 if queued.whole else size <= free:
                shares.append(DeviceShare(name, Bytes(size), whole=queued.whole))
        return tuple(shares) if len(shares) == assumed.gpus else None

    def sizes_of(self, queued: QueuedJob) -> dict[str, int]:
        """Return what a job takes of each accelerator that it may run on."""
        need = queued.job.assumed.need
        if queued.whole or need is None:
            return dict.fromkeys(queued.candidates, queued.least)
        return {name: effective_size(need, self.devices[name][2]) for name in queued.candidates}


def forecast(
    now: float,
    free: NodeFree,
    cpu: int,
    held: Iterable[HeldRoom],
    queue: Sequence[QueuedJob],
    done: Iterable[str],
) -> dict[str, Seconds]:
    """Return in how many seconds queued jobs are expected to start; without a job whose start is unknown.

    `free` and `cpu` are what is free now, `held` is what running jobs hold, `queue` the first jobs that wait,
    and `done` the jobs that no other one waits for any more.
    The slowdown among jobs, and headroom, are left out: an expected start is for people.
    """
    room, ended = _Room(free, cpu), set(done)
    ends = [(one.end, one.id, one) for one in held if one.end is not None]
    heapify(ends)
    waiting, starts = [(queued, room.sizes_of(queued)) for queued in queue[:MOST]], dict[str, Seconds]()
    while ends and waiting:
        at, name, one = heappop(ends)
        room.change(one, 1)
        ended.add(name)
        left = []
        for queued, sizes in waiting:
            shares = room.shares_for(queued, sizes) if ended.issuperset(queued.job.after) else None
            if shares is None:
                left.append((queued, sizes))
                continue
            starts[queued.job.id] = Seconds(at - now)
            began = _begun(queued, shares, at)
            room.change(began, -1)
            if began.end is not None:
                heappush(ends, (began.end, began.id, began))
        waiting = left
    return starts


def _begun(queued: QueuedJob, shares: tuple[DeviceShare, ...], at: float) -> HeldRoom:
    job, length = queued.job, expected_length(queued.job)
    firm = job.assumed.cpu if job.assumed.firm_cpu else 0
    end = None if length is None else at + length
    return HeldRoom(job.id, end, queued.memory, firm, 0 if firm else job.assumed.cpu, shares)

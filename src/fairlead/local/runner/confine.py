"""The cgroup of a started job: what the user states of its RAM holds, where cgroups can be made."""

import re
from math import ceil
from typing import Final

from fairlead.job import Limiter, LocalJob, ProcessRef
from fairlead.ledger.liveness import boot_id, is_alive
from fairlead.limiter.cgroup import CgroupLimits, JobCgroup, create_cgroup, remove_abandoned
from fairlead.limiter.overuse import TOLERANCE
from fairlead.units import Bytes, format_bytes

_ADDRESS: Final = re.compile(r"pci-([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])")


def confine(job: LocalJob) -> JobCgroup | None:
    """Move the held process of a job's command into a cgroup with its limits; None: none, or not here."""
    limits = cgroup_limits(job)
    runner, command = job.runner, job.command
    if limits is None or runner is None or command is None:
        return None
    remove_abandoned_cgroups()
    cgroup = create_cgroup(job.id, runner.pid, runner.start, limits)
    if cgroup is not None and not cgroup.add(command.pid):
        cgroup.remove()
        return None
    return cgroup


def remove_abandoned_cgroups() -> None:
    """Remove the empty cgroups of jobs whose runners were killed."""
    remove_abandoned(lambda pid, start: is_alive(ProcessRef(pid, start, boot_id())))


def killed_reason(job: LocalJob) -> str:
    """Return why the kernel killed a job in its cgroup: one line, for people."""
    size = format_bytes(job.requested.memory or 0)
    return f"held more than its {size} of RAM: state a larger --memory, or --limiter none"


def cgroup_limits(job: LocalJob) -> CgroupLimits | None:
    """Return what a cgroup must hold a job to; None: nothing. Pure."""
    if job.requested.limiter is Limiter.NONE:
        return None
    limit = job.memory_limit
    addresses = [_ADDRESS.fullmatch(share.device) for share in job.shares if not share.whole]
    video = {
        f"{match[1]}:{match[2]}:{match[3]}.{match[4]}": Bytes(limit + TOLERANCE)
        for match in addresses
        if match is not None and limit is not None
    }
    if job.requested.memory is None and not video:
        return None
    return CgroupLimits(job.requested.memory, ceil(job.assumed.cpu / 1000), video)

"""The cgroup of a job: what it is held to, and a real job that takes too much RAM."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fairlead.job import Assumed, Limiter, LocalJob, Requested
from fairlead.limiter.cgroup import CgroupLimits
from fairlead.limiter.overuse import TOLERANCE
from fairlead.local.runner.confine import cgroup_limits, confine
from fairlead.local.runner.job_runner import JobRunner
from fairlead.local.runner.signals import CallerState
from fairlead.local.runner.start import start_job
from fairlead.local.view import StartDecision
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.limiter.test_cgroup import needs_cgroup
from tests.local.runner.jobs import GIB, PYTHON, add, queued, view
from tests.local.runner.programs import World, forked

SIZE = Bytes(2 * GIB)
RAM = queued(requested=Requested(memory=SIZE), assumed=Assumed(cpu=2500, memory=SIZE))


def on_gpu(device: str) -> LocalJob:
    need = Need.fixed(SIZE)
    shares = (DeviceShare(device, SIZE),)
    return queued(requested=Requested(gpu_memory=SIZE), assumed=Assumed(gpus=1, need=need), shares=shares)


@pytest.mark.parametrize(
    ("job", "limits"),
    [
        (queued(), None),
        (RAM, CgroupLimits(SIZE, 3)),
        (replace(RAM, requested=replace(RAM.requested, limiter=Limiter.NONE)), None),
        (
            on_gpu("pci-0000-03-00-0"),
            CgroupLimits(None, 1, {"0000:03:00.0": Bytes(SIZE + TOLERANCE)}),
        ),
        (on_gpu("platform-gpu"), None),
        (on_gpu("pci-0000-03-00-0-mig-1g-18gb-9-0"), None),
    ],
)
def test_a_job_is_held_to_what_it_states(job: LocalJob, limits: CgroupLimits | None) -> None:
    assert cgroup_limits(job) == limits
    assert confine(job) is None  # it has no process yet


@needs_cgroup
def test_a_job_that_takes_more_ram_ends_with_the_reason(world: World) -> None:
    caller = CallerState()
    code = "data = bytearray(512 << 20); data[::4096] = data[::4096]"

    def run() -> Mapping[str, Any]:
        requested = Requested(memory=Bytes(96 << 20))
        job, spec = add(world.ledger, *PYTHON, code, requested=requested)
        caller.block()
        with world.ledger.locked():
            running: Any = start_job(world.ledger, job, StartDecision(), view(), caller, spec)
        ended = JobRunner(world.ledger, running, caller, world.environ, print).run_until_end()
        return {"state": ended.state, "code": ended.exit_code, "reason": ended.reason}

    reason = "held more than its 96 MiB of RAM: state a larger --memory, or --limiter none"
    assert forked(run) == {"state": "failed", "code": 137, "reason": reason}

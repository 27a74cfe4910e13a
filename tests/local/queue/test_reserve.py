"""Smaller jobs pass a job that waits for room, and never make it wait longer."""

from typing import Any

import pytest

from fairlead.job import LocalJob
from fairlead.local.queue import plan_queue
from fairlead.local.queue.reserve import PATIENCE
from fairlead.local.view import MachineView
from tests.local.queue.worlds import gib, gpu, gpu_job, job, machine, running, whole_job

ONE = machine(gpu(memory=16))
TWO = machine(gpu("gpu-0"), gpu("gpu-1"))


def holder(seconds: float | None = None, **more: Any) -> LocalJob:
    """Return a job that holds 10 of 16 GiB since 100 seconds."""
    return running(gpu_job(1, 10, seconds=seconds, **more), "gpu-0")


HEAD = gpu_job(2, 12)
TIRED = gpu_job(2, 12, waited=PATIENCE)

PASSES: dict[str, tuple[MachineView, list[LocalJob], bool]] = {
    "unknown ends: any job passes": (ONE, [holder(), HEAD, gpu_job(3, 5)], True),
    "unknown ends: none passes a head out of patience": (ONE, [holder(), TIRED, gpu_job(3, 5)], False),
    "patience is not over": (ONE, [holder(), gpu_job(2, 12, waited=PATIENCE - 1), gpu_job(3, 5)], True),
    "but one that fits beside it": (ONE, [holder(), TIRED, gpu_job(3, 4)], True),
    "or takes another GPU": (TWO, [holder(), running(whole_job(4), "gpu-1"), TIRED, gpu_job(3, 5)], False),
    "or only cores": (ONE, [holder(), TIRED, job(3)], True),
    "ends before the head starts": (ONE, [holder(200.0), HEAD, gpu_job(3, 5, seconds=100.0)], True),
    "ends after the head starts": (ONE, [holder(200.0), HEAD, gpu_job(3, 5, seconds=101.0)], False),
    "a timeout is an end, too": (ONE, [holder(200.0), HEAD, gpu_job(3, 5, timeout=99.0)], True),
    "the head's start is known, the job's end is not": (ONE, [holder(200.0), HEAD, gpu_job(3, 5)], False),
    "and it fits beside the head": (ONE, [holder(200.0), HEAD, gpu_job(3, 4)], True),
    "the holder's timeout says when the head starts": (
        ONE,
        [holder(timeout=200.0), HEAD, gpu_job(3, 5, seconds=101.0)],
        False,
    ),
    "a job past its usual end has an unknown one": (ONE, [holder(50.0), HEAD, gpu_job(3, 5)], True),
    "the head waits for another process": (
        machine(gpu(used=8)),
        [gpu_job(2, 12, waited=PATIENCE), gpu_job(3, 5)],
        True,
    ),
    "RAM is reserved, too": (
        machine(memory=16),
        [
            running(job(1, memory=gib(10), firm_memory=True)),
            job(2, memory=gib(12), firm_memory=True, waited=PATIENCE),
            job(3, memory=gib(5), firm_memory=True),
        ],
        False,
    ),
    "and stated cores": (
        machine(cores=4),
        [
            running(job(1, cpu=2000, firm_cpu=True)),
            job(2, cpu=3000, firm_cpu=True, waited=PATIENCE),
            job(3, cpu=2000, firm_cpu=True),
        ],
        False,
    ),
}


@pytest.mark.parametrize(("view", "jobs", "passes"), PASSES.values(), ids=PASSES)
def test_what_passes_the_head(view: MachineView, jobs: list[LocalJob], passes: bool) -> None:
    plan = plan_queue(view, jobs)
    assert "2" in plan.waits
    assert ("3" in plan.starts) == passes


def test_two_jobs_do_not_take_the_rest_twice() -> None:
    plan = plan_queue(ONE, [holder(), TIRED, gpu_job(3, 2.5), gpu_job(4, 2.5), gpu_job(5, 1)])
    assert set(plan.starts) == {"3", "5"}  # 12 of 16 GiB are kept for the head: 4 GiB are left


def test_the_head_is_the_first_that_lacks_room() -> None:
    plan = plan_queue(ONE, [holder(200.0), gpu_job(2, 7), gpu_job(3, 12), gpu_job(4, 3)])
    # Once the holder has ended, 9 GiB are free beside the head, whatever the third job needs.
    assert set(plan.starts) == {"4"}


def test_a_head_in_the_same_plan_counts_what_starts_before_it() -> None:
    first = gpu_job(1, 10, seconds=50.0)
    plan = plan_queue(ONE, [first, gpu_job(2, 12), gpu_job(3, 5, seconds=50.0), gpu_job(4, 1, seconds=51.0)])
    assert set(plan.starts) == {"1", "3", "4"}
    longer = plan_queue(ONE, [first, gpu_job(2, 16), gpu_job(4, 1, seconds=51.0)])
    assert set(longer.starts) == {"1"}

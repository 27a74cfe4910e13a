"""What running jobs, other processes and faults leave for queued jobs."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.job import JobUse, LocalJob, Requested
from fairlead.local.queue import plan_queue
from fairlead.local.view import MachineView
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds
from tests.local.queue.worlds import gib, gpu, gpu_job, job, machine, running, soft_job, uses, whole_job

TWO = (gpu("gpu-0"), gpu("gpu-1"))
LIMITED: Any = {"requested": Requested(gpu_memory=gib(4), gpu_limit=gib(12))}


def on_gpu(held: float, use: JobUse | None = None, **more: Any) -> LocalJob:
    """Return a running job with a learned size of GPU memory."""
    return running(soft_job(1, held, **more), "gpu-0", use=use)


FITS: dict[str, tuple[MachineView, list[LocalJob], bool]] = {
    # Accelerator memory
    "an empty GPU": (machine(gpu()), [gpu_job(9, 16)], True),
    "beside a stated size": (machine(gpu()), [running(gpu_job(1, 10), "gpu-0"), gpu_job(9, 6)], True),
    "beyond a stated size": (machine(gpu()), [running(gpu_job(1, 10), "gpu-0"), gpu_job(9, 6.1)], False),
    "a stated size is booked though less is used": (
        machine(gpu(used=1)),
        [
            running(gpu_job(1, 10), "gpu-0", use=uses(gpus={"gpu-0": 1}, gpu_peak=1, settled=True)),
            gpu_job(9, 7),
        ],
        False,
    ),
    "a learned size counts until the job has settled": (
        machine(gpu(used=1)),
        [on_gpu(8, uses(gpus={"gpu-0": 1}, gpu_peak=1)), gpu_job(9, 8)],
        False,
    ),
    "the measured peak counts afterwards": (
        machine(gpu(used=1)),
        [on_gpu(8, uses(gpus={"gpu-0": 1}, gpu_peak=2, settled=True)), gpu_job(9, 11)],
        True,
    ),
    "and not what is held below the peak": (
        machine(gpu(used=1)),
        [on_gpu(8, uses(gpus={"gpu-0": 1}, gpu_peak=4, settled=True)), gpu_job(9, 11)],
        False,
    ),
    "more than was assumed": (
        machine(gpu(used=8)),
        [on_gpu(2, uses(gpus={"gpu-0": 8}, gpu_peak=8)), gpu_job(9, 6)],
        False,
    ),
    "a request with a limit counts by measured use": (
        machine(gpu(used=2)),
        [on_gpu(4, uses(gpus={"gpu-0": 2}, gpu_peak=2, settled=True), **LIMITED), gpu_job(9, 11)],
        True,
    ),
    "headroom beside a soft job": (machine(gpu()), [on_gpu(8), gpu_job(9, 6)], False),
    "two soft jobs share one headroom": (machine(gpu()), [on_gpu(6), soft_job(9, 7)], True),
    "a soft job that leaves no headroom gets a GPU alone": (machine(gpu()), [soft_job(9, 15)], True),
    "and not beside another": (machine(gpu()), [on_gpu(0.5), soft_job(9, 15)], False),
    # Processes outside fairlead
    "memory of other processes": (machine(gpu(used=4)), [gpu_job(9, 12.1)], False),
    "what they leave": (machine(gpu(used=4)), [gpu_job(9, 11.9)], True),
    "beside a job that has not grown yet": (
        machine(gpu(used=5)),
        [running(gpu_job(1, 4), "gpu-0", use=uses(gpus={"gpu-0": 1})), gpu_job(9, 8.1)],
        False,
    ),
    "a job that is not measured yet may hold what is used": (
        machine(gpu(used=4)),
        [running(gpu_job(1, 4), "gpu-0"), gpu_job(9, 12)],
        True,
    ),
    "a whole GPU beside a desktop": (machine(gpu(used=0.4)), [whole_job(9)], True),
    "a whole GPU beside another process": (machine(gpu(used=4)), [whole_job(9)], False),
    # Whole accelerators
    "a whole GPU is not shared": (machine(gpu()), [running(whole_job(1), "gpu-0"), gpu_job(9, 1)], False),
    "a shared GPU is not given whole": (
        machine(gpu()),
        [running(gpu_job(1, 1), "gpu-0"), whole_job(9)],
        False,
    ),
    "the other GPU is whole": (machine(*TWO), [running(gpu_job(1, 1), "gpu-0"), whole_job(9)], True),
    "two whole GPUs": (machine(*TWO), [running(gpu_job(1, 1), "gpu-0"), whole_job(9, 2)], False),
    "an unknown size is a whole GPU": (
        machine(gpu()),
        [running(gpu_job(1, 1), "gpu-0"), job(9, gpus=1)],
        False,
    ),
    # RAM
    "RAM that is stated": (machine(memory=8), [job(9, memory=gib(8), firm_memory=True)], True),
    "RAM that is not available": (
        machine(memory=8, available=6),
        [job(9, memory=gib(6.1), firm_memory=True)],
        False,
    ),
    "RAM that a running job may still take": (
        machine(memory=8, available=7),
        [
            running(job(1, memory=gib(4), firm_memory=True), use=uses(memory=1, settled=True)),
            job(9, memory=gib(4.5), firm_memory=True),
        ],
        False,
    ),
    "RAM that was assumed, and is not used": (
        machine(memory=8, available=7),
        [running(job(1, memory=gib(4)), use=uses(memory=1, settled=True)), job(9, memory=gib(5.5))],
        True,
    ),
    "half of a default is left after a second": (
        machine(memory=8, available=7),
        [
            running(job(1, memory=gib(5), default_memory=True), started=1.0, use=uses(memory=1)),
            job(9, memory=gib(5), firm_memory=True),
        ],
        True,
    ),
    "more than half of a default is left before": (
        machine(memory=8, available=7),
        [
            running(job(1, memory=gib(5), default_memory=True), started=0.9, use=uses(memory=1)),
            job(9, memory=gib(5), firm_memory=True),
        ],
        False,
    ),
    "a default counts before anything is measured": (
        machine(memory=8, available=8),
        [running(job(1, memory=gib(5), default_memory=True)), job(9, memory=gib(3.5), firm_memory=True)],
        False,
    ),
    "RAM that was learned counts until the job has settled": (
        machine(memory=8, available=7),
        [running(job(1, memory=gib(5)), use=uses(memory=1)), job(9, memory=gib(5), firm_memory=True)],
        False,
    ),
    "the measured peak of RAM": (
        machine(memory=8, available=7),
        [running(job(1, memory=gib(1)), use=uses(memory=1, peak=3, settled=True)), job(9, memory=gib(5.5))],
        False,
    ),
    "more RAM than was assumed": (
        machine(memory=8, available=3),
        [running(job(1, memory=gib(1)), use=uses(memory=5)), job(9, memory=gib(3.5))],
        False,
    ),
    "unified memory is RAM": (
        machine(gpu(memory=8, unified_memory=True), memory=8),
        [running(gpu_job(1, 2), "gpu-0"), gpu_job(9, 4, memory=gib(2.1), firm_memory=True)],
        False,
    ),
    "unified memory and RAM together": (
        machine(gpu(memory=8, unified_memory=True), memory=8),
        [gpu_job(9, 5, memory=gib(2.9), firm_memory=True)],
        True,
    ),
    "unified memory that others hold": (
        machine(gpu(memory=8, used=5, unified_memory=True), memory=8, available=3),
        [gpu_job(9, 3.1)],
        False,
    ),
    # Stated cores
    "stated cores": (machine(cores=4), [job(9, cpu=4000, firm_cpu=True)], True),
    "cores that are booked though idle": (
        machine(cores=4),
        [
            running(job(1, cpu=2000, firm_cpu=True), use=uses(cpu=0, settled=True)),
            job(9, cpu=3000, firm_cpu=True),
        ],
        False,
    ),
    "stated cores beside compressible ones": (
        machine(cores=4),
        [running(job(1, cpu=4000), use=uses(cpu=4000)), job(9, cpu=4000, firm_cpu=True)],
        True,
    ),
}


@pytest.mark.parametrize(("view", "jobs", "starts"), FITS.values(), ids=FITS)
def test_what_fits(view: MachineView, jobs: list[LocalJob], starts: bool) -> None:
    plan = plan_queue(view, jobs)
    assert (set(plan.starts), set(plan.waits)) == (({"9"}, set()) if starts else (set(), {"9"}))
    assert not any(wait.impossible for wait in plan.waits.values())


def test_a_job_gets_the_device_that_it_names() -> None:
    for wish in ("gpu-1", "tpu", "Google"):
        view = machine(gpu("gpu-0"), gpu("gpu-1", model="tpu", vendor="google"))
        stated = Requested(gpu_memory=gib(1), device=wish)
        assert plan_queue(view, [gpu_job(1, 1, requested=stated)]).starts["1"].shares[0].device == "gpu-1"


def test_shares_say_what_is_counted() -> None:
    start = plan_queue(machine(gpu()), [gpu_job(1, 3)]).starts["1"]
    assert start.shares == (DeviceShare("gpu-0", gib(3)),)
    assert start.cpu == 1000
    assert plan_queue(machine(gpu()), [whole_job(1)]).starts["1"].shares[0].whole


MODEL: Any = {"gpus": 1, "need": Need.fixed(gib(1)), "devices": {"gpu-0": 0.020, "gpu-1": 0.010}}


def test_a_model_goes_where_it_is_fastest() -> None:
    fast = plan_queue(machine(*TWO), [job(1, **MODEL)]).starts["1"]
    assert [share.device for share in fast.shares] == ["gpu-1"]
    only = plan_queue(machine(*TWO), [job(1, **MODEL | {"devices": {"gpu-0": 0.020}})]).starts["1"]
    assert [share.device for share in only.shares] == ["gpu-0"]
    full = plan_queue(machine(TWO[0], gpu("gpu-1", used=15.5)), [job(1, **MODEL)]).starts["1"]
    assert [share.device for share in full.shares] == ["gpu-0"]


def test_a_model_waits_where_it_would_break_an_slo() -> None:
    stated = Requested(slo=Seconds(0.016))
    first = job(1, requested=stated, **MODEL)
    begun = running(first, "gpu-1")
    alone, beside = job(2, requested=stated, **MODEL), job(3, **MODEL)
    assert plan_queue(machine(*TWO), [alone]).starts["2"].shares[0].device == "gpu-1"
    # A second job on gpu-1 makes the p99 of both 1.1 * 1.4 times as long: it keeps 16 ms, and not 15 ms.
    strict = replace(begun, requested=Requested(slo=Seconds(0.015)))
    assert plan_queue(machine(*TWO), [begun, alone]).starts["2"].shares[0].device == "gpu-1"
    assert plan_queue(machine(*TWO), [strict, beside]).starts["3"].shares[0].device == "gpu-0"
    plan = plan_queue(machine(*TWO), [strict, replace(alone, requested=Requested(slo=Seconds(0.015)))])
    assert (
        plan.waits["2"].reason
        == "another job beside those that run would break the latency that one of them must keep"
    )


def test_a_record_of_another_user_cannot_break_the_plan() -> None:
    huge = JobUse(
        1e9, 10**30, Bytes(10**30), {"gpu-0": Bytes(10**30)}, {}, Bytes(10**30), Bytes(10**30), True
    )
    hostile = running(soft_job(1, 4, cpu=10**30, memory=Bytes(10**30)), "gpu-0", "gone", use=huge)
    plan = plan_queue(machine(gpu()), [hostile, gpu_job(2, 1), job(3)])
    assert set(plan.waits) == {"2"}
    assert set(plan.starts) == {"3"}

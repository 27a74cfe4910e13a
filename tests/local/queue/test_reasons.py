"""What people read of a job that waits, and of one that can never start."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.job import Limiter, LocalJob, LocalState, Requested
from fairlead.local.queue import plan_queue
from fairlead.local.queue.limits import MOST_CHECKS
from fairlead.local.queue.reasons import about
from fairlead.local.queue.reserve import PATIENCE
from fairlead.local.view import MachineView
from fairlead.need import Need
from fairlead.units import Seconds
from tests.local.queue.worlds import (
    ended,
    gib,
    gpu,
    gpu_job,
    job,
    machine,
    running,
    soft_job,
    uses,
    whole_job,
)

TWO = (gpu("gpu-0"), gpu("gpu-1"))
SLOW: Any = {"gpus": 1, "need": Need.fixed(gib(1)), "devices": {"gpu-0": 0.030, "gpu-1": 0.040}}

WAITS: dict[str, tuple[MachineView, list[LocalJob], str]] = {
    "memory": (
        machine(gpu()),
        [running(gpu_job(1, 13), "gpu-0"), gpu_job(9, 8)],
        "needs 8.0 GiB; gpu-0 has 3.0 GiB of 16 GiB free",
    ),
    "memory that others use": (
        machine(gpu(used=12)),
        [running(gpu_job(1, 10), "gpu-0", use=uses(gpus={"gpu-0": 10})), gpu_job(9, 8)],
        "needs 8.0 GiB; gpu-0 has 4.0 GiB of 16 GiB free, 2.0 GiB is used by processes outside fairlead",
    ),
    "the most of several": (
        machine(*TWO),
        [running(gpu_job(1, 13), "gpu-0"), running(gpu_job(2, 12), "gpu-1"), gpu_job(9, 8)],
        "needs 8.0 GiB; gpu-1 has 4.0 GiB of 16 GiB free, the most",
    ),
    "not the most of a faulty one": (
        machine(gpu("gpu-0"), gpu("gpu-1", memory=80, fault="XID 79")),
        [running(gpu_job(1, 13), "gpu-0"), gpu_job(9, 8)],
        "needs 8.0 GiB; gpu-0 has 3.0 GiB of 16 GiB free",
    ),
    "the second best of two": (
        machine(*TWO),
        [running(gpu_job(1, 13), "gpu-0"), gpu_job(9, 8, gpus=2)],
        "needs 8.0 GiB of each of 2 accelerators; gpu-0 has 3.0 GiB of 16 GiB free",
    ),
    "taken whole": (
        machine(gpu()),
        [running(whole_job(1, seconds=130.0), "gpu-0"), gpu_job(9, 8)],
        "needs 8.0 GiB; gpu-0 is taken whole by job 1 (job-1.py), expected to end in 30 s",
    ),
    "unified memory": (
        machine(gpu(memory=8, unified_memory=True), memory=8, available=5),
        [gpu_job(9, 6)],
        "needs 6.0 GiB; gpu-0 has 8.0 GiB of 8.0 GiB free; "
        "5.0 GiB of 8.0 GiB RAM is free, 3.0 GiB is used by processes outside fairlead",
    ),
    "headroom": (
        machine(gpu()),
        [running(soft_job(1, 8), "gpu-0"), gpu_job(9, 6)],
        "needs 6.0 GiB; gpu-0 has 5.6 GiB of 16 GiB free beside what its jobs may still take",
    ),
    "whole": (
        machine(gpu()),
        [running(gpu_job(1, 1, seconds=340.0), "gpu-0"), whole_job(9)],
        "needs 1 whole accelerator; gpu-0 runs job 1 (job-1.py), expected to end in 4 min",
    ),
    "whole, but others use it": (
        machine(gpu(used=4)),
        [whole_job(9)],
        "needs 1 whole accelerator; 4.0 GiB of gpu-0 is used by processes outside fairlead",
    ),
    "RAM": (
        machine(memory=8, available=5),
        [job(9, memory=gib(6), firm_memory=True)],
        "needs 6.0 GiB of RAM; 5.0 GiB of 8.0 GiB RAM is free, 3.0 GiB is used by processes outside fairlead",
    ),
    "stated cores": (
        machine(cores=4),
        [running(job(1, cpu=3000, firm_cpu=True)), job(9, cpu=2000, firm_cpu=True)],
        "needs 2 cores; 1 of 4 is free",
    ),
    "a job": (machine(), [running(job(1)), job(9, after=("1",))], "waits for job 1 (job-1.py)"),
    "a job with an end": (
        machine(),
        [running(job(1, seconds=140.0)), job(9, after=("1",))],
        "waits for job 1 (job-1.py), expected to end in 40 s",
    ),
    "a part of a core": (
        machine(cores=1),
        [running(job(1, cpu=800, firm_cpu=True)), job(9, cpu=280, firm_cpu=True)],
        "needs 0.28 cores; 0.2 of 1 are free",
    ),
    "the head": (
        machine(gpu()),
        [running(gpu_job(1, 10), "gpu-0"), gpu_job(2, 12, waited=PATIENCE), gpu_job(9, 5)],
        "job 2 (job-2.py) goes first: it has waited for 5 min",
    ),
    "the head with a start": (
        machine(gpu()),
        [running(gpu_job(1, 10, seconds=160.0), "gpu-0"), gpu_job(2, 12), gpu_job(9, 5)],
        "job 2 (job-2.py) goes first, expected to start in 60 s",
    ),
    "cores": (
        machine(cores=1),
        [*(running(job(number), use=uses(cpu=125)) for number in range(1, 9)), job(9)],
        "1 core is busy with 8 jobs",
    ),
}


@pytest.mark.parametrize(("view", "jobs", "reason"), WAITS.values(), ids=WAITS)
def test_why_a_job_waits(view: MachineView, jobs: list[LocalJob], reason: str) -> None:
    wait = plan_queue(view, jobs).waits["9"]
    assert wait.reason == reason
    assert not wait.impossible


NEVER: dict[str, tuple[MachineView, LocalJob, str]] = {
    "size": (machine(gpu()), gpu_job(9, 40), "it needs 40 GiB of one accelerator, and gpu-0 has 16 GiB"),
    "learned size": (
        machine(gpu()),
        soft_job(9, 20),
        "it needs 20 GiB of one accelerator, and gpu-0 has 16 GiB",
    ),
    "no accelerator": (
        machine(problems=("NVML is missing: libnvidia-ml.so.1",)),
        gpu_job(9, 1),
        "it needs an accelerator, and this machine has none (NVML is missing: libnvidia-ml.so.1)",
    ),
    "no such accelerator": (
        machine(gpu()),
        gpu_job(9, 1, requested=Requested(gpu_memory=gib(1), device="tpu")),
        "no accelerator here is 'tpu': there is gpu-0 (NVIDIA T4)",
    ),
    "no MPS": (
        machine(gpu()),
        gpu_job(9, 1, requested=Requested(gpu_memory=gib(1), limiter=Limiter.MPS)),
        "MPS serves none of the accelerators here: gpu-0 (NVIDIA T4); write --limiter watchdog",
    ),
    "accelerators that no user may open": (
        machine(
            *(gpu(f"gpu-{n}", fault="this user may not open /dev/x", recoverable=False) for n in range(3))
        ),
        gpu_job(9, 1),
        "no healthy accelerator is left for it (gpu-0, gpu-1, gpu-2: this user may not open /dev/x)",
    ),
    "the large one is split": (
        machine(
            gpu("gpu-0", memory=80, fault="split into 2 MIG instances", recoverable=False),
            gpu("gpu-1"),
            gpu("gpu-2", memory=8, fault="it fell off the bus"),
        ),
        gpu_job(9, 40),
        "it needs 40 GiB of one accelerator, and gpu-1 has 16 GiB (gpu-0: split into 2 MIG instances)",
    ),
    "too many": (
        machine(*TWO),
        whole_job(9, 3),
        "it needs 3 accelerators at once, and this machine has 2 for it",
    ),
    "cores": (
        machine(cores=4),
        job(9, cpu=5000, firm_cpu=True),
        "it needs 5 cores, and this machine has 4 cores",
    ),
    "RAM": (
        machine(memory=8),
        job(9, memory=gib(9), firm_memory=True),
        "it needs 9.0 GiB of RAM, and this machine has 8.0 GiB",
    ),
    "SLO": (
        machine(*TWO),
        job(9, requested=Requested(slo=Seconds(0.02)), **SLOW),
        "no accelerator here keeps the SLO of 20 ms: the fastest takes 30 ms",
    ),
    "unified memory": (
        machine(gpu(memory=8, unified_memory=True), memory=8),
        gpu_job(9, 5, memory=gib(4), firm_memory=True),
        "it needs 5.0 GiB of one accelerator, and gpu-0 has 8.0 GiB",
    ),
}


@pytest.mark.parametrize(("view", "queued", "reason"), NEVER.values(), ids=NEVER)
def test_why_a_job_can_never_start(view: MachineView, queued: LocalJob, reason: str) -> None:
    wait = plan_queue(view, [queued]).waits["9"]
    assert wait.reason == reason
    assert wait.impossible


HEALED: dict[str, tuple[MachineView, LocalJob, str]] = {
    "all have one fault": (
        machine(*(gpu(f"gpu-{number}", fault="driver mismatch") for number in range(2))),
        gpu_job(9, 1),
        "gpu-0, gpu-1: driver mismatch",
    ),
    "the large one": (
        machine(gpu(), gpu("gpu-1", memory=80, fault="XID 79")),
        gpu_job(9, 40),
        "gpu-1: XID 79",
    ),
    "one of two": (machine(gpu(), gpu("gpu-1", fault="XID 79")), whole_job(9, 2), "gpu-1: XID 79"),
    "the fast one": (
        machine(gpu(), gpu("gpu-1", fault="XID 79")),
        job(9, requested=Requested(slo=Seconds(0.035)), **SLOW | {"devices": {"gpu-0": 0.04, "gpu-1": 0.03}}),
        "gpu-1: XID 79",
    ),
    "the one that it names": (
        machine(gpu(), gpu("gpu-1", fault="XID 79")),
        gpu_job(9, 1, requested=Requested(gpu_memory=gib(1), device="gpu-1")),
        "gpu-1: XID 79",
    ),
}


@pytest.mark.parametrize(("view", "queued", "faults"), HEALED.values(), ids=HEALED)
def test_a_job_waits_for_an_accelerator_whose_fault_can_pass(
    view: MachineView, queued: LocalJob, faults: str
) -> None:
    wait = plan_queue(view, [queued]).waits["9"]
    assert wait.reason == f"no healthy accelerator is left for it ({faults})"
    assert (wait.faulty, wait.impossible, wait.starts_in) == (True, False, None)
    healthy = tuple(replace(device, fault="", recoverable=False) for device in view.devices)
    assert set(plan_queue(replace(view, devices=healthy), [queued]).starts) == {"9"}


def test_no_job_waits_for_one_that_waits_for_a_faulty_accelerator() -> None:
    view = machine(gpu(), gpu("gpu-1", memory=80, fault="XID 79"))
    patient = gpu_job(2, 40, waited=2 * PATIENCE)
    plan = plan_queue(view, [patient, gpu_job(3, 15), job(4)])
    assert set(plan.starts) == {"3", "4"}
    assert set(plan.waits) == {"2"}


@pytest.mark.parametrize(
    ("other", "state", "reason"),
    [
        (job(3), LocalState.FAILED, "job 3, which it waits for, failed"),
        (job(3), LocalState.CANCELLED, "job 3, which it waits for, was cancelled"),
        (job(5), LocalState.DONE, "job 3, which it waits for, is not known here"),
    ],
)
def test_a_job_fails_with_the_one_that_it_waits_for(other: LocalJob, state: LocalState, reason: str) -> None:
    wait = plan_queue(machine(), [ended(other, state), job(9, after=("3",))]).waits["9"]
    assert (wait.reason, wait.impossible) == (reason, True)


def test_a_job_starts_once_all_that_it_waits_for_are_done() -> None:
    jobs = [ended(job(1)), ended(job(2)), job(9, after=("1", "2"))]
    assert "9" in plan_queue(machine(), jobs).starts
    jobs[1] = running(job(2))
    assert "9" in plan_queue(machine(), jobs).waits


def test_size_without_a_statement_is_never_too_large() -> None:
    learned = job(9, memory=gib(40))
    assert "9" in plan_queue(machine(memory=8), [learned]).starts
    busy = running(job(1, memory=gib(4), firm_memory=True))
    assert not plan_queue(machine(memory=8), [busy, learned]).waits["9"].impossible


def test_positions_and_jobs_ahead() -> None:
    held = running(whole_job(1), "gpu-0")
    queue = [gpu_job(number, 1 + number / 100) for number in range(10, 40)]
    plan = plan_queue(machine(gpu()), [held, gpu_job(2, 99), *queue], reasons_for=["12"])
    assert [plan.waits[str(number)].position for number in range(10, 40)] == list(range(1, 31))
    assert plan.waits["12"].reason == "needs 1.1 GiB; gpu-0 is taken whole by job 1 (job-1.py)"
    assert plan.waits["11"].reason == "1 job is ahead of it"
    assert plan.waits["39"].reason == "29 jobs are ahead of it"
    assert plan.waits["2"].impossible


def test_more_impossible_jobs_than_one_plan_checks() -> None:
    view = machine(gpu(fault="no driver", recoverable=False))
    plan = plan_queue(view, [gpu_job(number, 1) for number in range(100)])
    assert sum(wait.impossible for wait in plan.waits.values()) == MOST_CHECKS
    assert len(plan.waits) == 100


def test_expected_starts() -> None:
    held = running(gpu_job(1, 10, seconds=160.0), "gpu-0")  # since 100 seconds
    queue = [
        gpu_job(2, 12, seconds=30.0),
        gpu_job(3, 12),
        gpu_job(4, 12),
        job(5, after=("1",)),
        job(6, after=("3",)),
    ]
    waits = plan_queue(machine(gpu()), [held, *queue]).waits
    expected = {"2": 60.0, "3": 90.0, "4": None, "5": 60.0, "6": None}
    assert {name: wait.starts_in for name, wait in waits.items()} == expected
    unknown = running(gpu_job(1, 10), "gpu-0")
    assert plan_queue(machine(gpu()), [unknown, *queue]).waits["2"].starts_in is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (59.6, "60 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (7100, "118 min"),
        (7200, "2 h"),
        (1e6, "278 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_a_job_under_mps_starts_on_a_gpu_that_mps_serves() -> None:
    served = gpu("gpu-1", memory=8)
    served = replace(
        served, accelerator=replace(served.accelerator, vendor="NVIDIA", driver="nvidia", uuid="GPU-1")
    )
    stated = Requested(gpu_memory=gib(1), limiter=Limiter.MPS)
    plan = plan_queue(machine(gpu("gpu-0"), served), [gpu_job(9, 1, requested=stated)])
    assert [share.device for share in plan.starts["9"].shares] == ["gpu-1"]

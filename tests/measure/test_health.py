"""The health of GPUs between two scans: a sampled fault can end, an XID's fault stays."""

from dataclasses import replace

import pytest

from fairlead.faults import APPLICATION_XIDS, XidPolicy
from fairlead.inventory import Accelerator, State
from fairlead.measure import GpuHealth
from fairlead.nvml import Health
from fairlead.telemetry import Metric, Sample
from tests.accelerators import accelerator

GPU = accelerator("pci:0000:01:00.0", vendor="NVIDIA", kind="gpu", driver="nvidia", state=State.HEALTHY)
WELL = Health(uncorrected_volatile=0, remap_failed=False)


def state_of(health: GpuHealth) -> tuple[State, str]:
    acc = health.with_faults(GPU)
    return acc.state, acc.reason.partition(";")[0]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Health(uncorrected_volatile=1), "uncorrected memory errors since the driver was loaded"),
        (Health(remap_failed=True), "a row of its memory could not be remapped"),
        (Health(lost=True), "NVML calls the GPU lost (fallen off the bus) or in need of a reset"),
    ],
)
def test_a_sampled_fault_ends_with_the_first_sample_without_it(bad: Health, reason: str) -> None:
    health = GpuHealth(XidPolicy())
    health.record(GPU.id, bad, [])
    assert state_of(health) == (State.DRIVER_BOUND, reason)
    health.record(GPU.id, None, [])
    assert state_of(health) == (State.DRIVER_BOUND, reason)  # without an answer the fault stays
    health.record(GPU.id, WELL, [])
    assert state_of(health) == (State.HEALTHY, "")


def test_an_unsupported_value_is_no_fault() -> None:
    health = GpuHealth(XidPolicy())
    health.record(GPU.id, Health(), None)
    assert state_of(health) == (State.HEALTHY, "")
    assert list(health.samples()) == []


def test_a_fatal_xid_stays_until_the_driver_is_unbound() -> None:
    health = GpuHealth(XidPolicy())
    health.record(GPU.id, WELL, [13, 79, 45])
    for _ in range(3):
        health.forget_unbound([GPU])
        health.record(GPU.id, WELL, [])
        assert state_of(health) == (State.DRIVER_BOUND, "the driver reported XID 79")
    assert list(health.samples()) == [Sample(GPU.id, Metric.XID, 45.0)]
    health.forget_unbound([replace(GPU, state=State.PRESENT)])
    health.record(GPU.id, WELL, [])
    assert state_of(health) == (State.HEALTHY, "")
    assert list(health.samples()) == [Sample(GPU.id, Metric.XID, 0.0)]


@pytest.mark.parametrize("xid", sorted(APPLICATION_XIDS))
def test_an_xid_of_an_application_leaves_the_gpu_healthy(xid: int) -> None:
    health = GpuHealth(XidPolicy())
    health.record(GPU.id, WELL, [xid])
    assert state_of(health) == (State.HEALTHY, "")


def test_more_xids_or_all_can_be_ignored() -> None:
    for policy in (XidPolicy(frozenset({79})), XidPolicy(every=True)):
        health = GpuHealth(policy)
        health.record(GPU.id, WELL, [79])
        assert state_of(health) == (State.HEALTHY, "")


def test_a_worse_state_keeps_its_own_reason() -> None:
    health = GpuHealth(XidPolicy())
    health.record(GPU.id, Health(lost=True), [])
    absent: Accelerator = replace(GPU, state=State.PRESENT, reason="no driver")
    assert health.with_faults(absent) == absent

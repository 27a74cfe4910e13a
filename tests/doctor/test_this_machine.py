"""One machine: its accelerators, NVML, and access to its device nodes."""

from dataclasses import replace

from fairlead.doctor.finding import Severity
from fairlead.doctor.this_machine import ExaminedMachine, examine_machine
from fairlead.inventory import Inventory, State, Unknown
from tests.accelerators import accelerator, node

GPU = accelerator(kind="gpu", model="t4", mebibytes=16384)


def findings(machine: ExaminedMachine) -> dict[str, tuple[Severity, str]]:
    return {each.check: (each.verdict, each.text) for each in examine_machine(machine)}


def with_unknown(inventory: Inventory) -> Inventory:
    return replace(inventory, unknown=(Unknown("pci:0000:01:00.0", "1234:5678", None, "no row"),))


def test_a_healthy_machine() -> None:
    machine = ExaminedMachine(node(GPU), nvidia_driver=True, nvml=True, opens={"/dev/nvidia0": True})
    assert {verdict for verdict, _ in findings(machine).values()} == {Severity.OK}


def test_a_gpu_that_is_split_into_mig_instances_is_no_fault() -> None:
    parent = replace(GPU, state=State.DRIVER_BOUND, reason="split into 1 MIG instance", mig_instances=1)
    found = findings(ExaminedMachine(node(parent, replace(GPU, id="pci-mig-1g-2gb-9-0"))))
    assert found["accelerators"] == (Severity.OK, "1 accelerator: t4")


def test_faults_are_reported() -> None:
    broken = replace(GPU, state=State.PRESENT, reason="no driver is bound to it")
    machine = ExaminedMachine(with_unknown(node(broken)), nvidia_driver=True, opens={"/dev/nvidia0": False})
    results = findings(machine)
    assert {name: verdict for name, (verdict, _) in results.items()} == {
        "accelerators": Severity.FAIL,
        "unknown": Severity.WARN,
        "nvml": Severity.WARN,
        "device-nodes": Severity.WARN,
    }
    assert "no driver is bound to it" in results["accelerators"][1]
    assert "/dev/nvidia0" in results["device-nodes"][1]


def test_a_machine_without_accelerators_is_no_failure() -> None:
    assert findings(ExaminedMachine(node()))["accelerators"] == (Severity.WARN, "no accelerator was found")
    cpu = accelerator(kind="cpu", model="cpu-x86-64-avx2", mebibytes=8192)
    assert findings(ExaminedMachine(node(cpu)))["accelerators"] == (
        Severity.WARN,
        "no accelerator beside the CPU (cpu-x86-64-avx2) was found",
    )

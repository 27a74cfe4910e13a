"""What a command receives: on every captured host, and beside what the user has set."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.host import Host
from fairlead.inventory import Accelerator, State
from fairlead.job import Assumed, Limiter, Requested
from fairlead.limiter.hook import FOLDER
from fairlead.local.machine import LocalMachine, command_environment, environment_notes
from fairlead.local.machine.device_variables import FAMILIES
from fairlead.local.machine.environment import CPUS, GROW, JOB_ID, PYTHON_PATH, THREADS
from fairlead.local.view import DeviceView, MachineView
from fairlead.need import Need
from fairlead.publish.access import VISIBLE
from fairlead.publish.memory_limit import ALLOCATOR_BYTES, MEMORY_BYTES, MEMORY_FRACTION, VARIABLES
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.local.machine.jobs import running

HOSTS = os.path.join(os.path.dirname(__file__), "..", "..", "hosts")
NAMES = sorted(name for name in os.listdir(HOSTS) if os.path.isdir(os.path.join(HOSTS, name, "root")))
GIB = Bytes(1 << 30)
CUDA = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
EXPECTED: Mapping[str, Mapping[str, str]] = {
    "jetson-nano": {**CUDA, "CUDA_VISIBLE_DEVICES": "0"},
    "jetson-agx-thor": {**CUDA, "CUDA_VISIBLE_DEVICES": "GPU-00000000-0000-0000-0000-000000000000"},
    "jetson-nano-coral-usb": {**CUDA, "CUDA_VISIBLE_DEVICES": "0", "FAIRLEAD_EDGETPU_DEVICE": "usb:0"},
    "coral-dual": {"FAIRLEAD_EDGETPU_DEVICE": "pci:0,pci:1"},
    "coral-usb-two": {"FAIRLEAD_EDGETPU_DEVICE": "usb:0,usb:1"},
    "raspberry-pi-5-hailo": {"FAIRLEAD_HAILO_DEVICE": "0001:01:00.0", "HAILO_MONITOR": "1"},
    "server-h200": {**CUDA, "CUDA_VISIBLE_DEVICES": "GPU-00000000-0000-0000-0000-000000000001"},
    "server-h200-mig": {
        **CUDA,
        "CUDA_VISIBLE_DEVICES": ",".join(f"MIG-00000000-0000-5000-8000-{n:012}" for n in (2, 3, 9, 10)),
    },
    "server-two-t4-without-proc": {**CUDA, "CUDA_VISIBLE_DEVICES": "0,1"},
    "mi300x": {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"},
    "amd-phoenix-laptop": {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"},
    "arc-b580": {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_AFFINITY_MASK": "0"},
    "meteor-lake-laptop": {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_AFFINITY_MASK": "0"},
    "rock-5b-vendor": {},
    "x86-server": {},
}
"""The variables of vendors, for a job that holds every usable accelerator of a host."""
HIDDEN: Mapping[str, Mapping[str, str]] = {
    "jetson-nano": {"CUDA_VISIBLE_DEVICES": ""},
    "server-h200": {"CUDA_VISIBLE_DEVICES": ""},
    "mi300x": {"ROCR_VISIBLE_DEVICES": ""},
    "arc-b580": {"ONEAPI_DEVICE_SELECTOR": "!level_zero:gpu;!opencl:gpu"},
    "coral-dual": {},
    "x86-server": {},
}
"""The variables of vendors, for a job without an accelerator."""


def view_of(*accelerators: Accelerator) -> MachineView:
    whole = LocalMachine(Host(os.path.join(HOSTS, "x86-server", "root")), None, {}).view()
    return replace(whole, devices=tuple(DeviceView(acc) for acc in accelerators))


def gpu(vendor: str, address: str, uuid: str | None = None) -> Accelerator:
    base = Accelerator(
        id=address,
        model="t4",
        name="GPU",
        vendor=vendor,
        kind="gpu",
        state=State.HEALTHY,
        reason="",
        confidence=1.0,
        candidates=(),
        bus=f"pci:{address}",
        memory=Bytes(16 << 30),
        uuid=uuid,
        driver={"NVIDIA": "nvidia", "AMD": "amdgpu", "Intel": "xe"}[vendor],
    )
    return replace(base, shareable=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_host_has_a_view_and_an_environment(name: str) -> None:
    machine = LocalMachine(Host(os.path.join(HOSTS, name, "root")), None, {})
    view = machine.view()
    usable = [device.accelerator for device in view.devices if not device.fault]
    assert all(acc.state.allocatable for acc in usable)
    assert all(device.fault for device in view.devices if not device.accelerator.state.allocatable)
    job = running(*(DeviceShare(acc.id, whole=True) for acc in usable))
    variables = command_environment(view, job, {"PATH": "/bin"})
    assert (variables.pop("PATH"), variables.pop("FAIRLEAD_JOB_ID")) == ("/bin", "job-1")
    assert variables.pop("PYTHONPATH") == FOLDER
    assert variables.pop("FAIRLEAD_DEVICE", "") == ",".join(acc.id for acc in usable)
    assert variables.pop("FAIRLEAD_MODEL", "").count(",") == max(0, len(usable) - 1)
    if name in EXPECTED:
        assert variables == EXPECTED[name]
    without = command_environment(view, running(), {})
    without.pop("FAIRLEAD_JOB_ID")
    without.pop("PYTHONPATH")
    if name in HIDDEN:
        assert without == HIDDEN[name]
    machine.close()


def test_two_vendors_are_shown_and_hidden_apart() -> None:
    nvidia, amd = gpu("NVIDIA", "0000:01:00.0", "GPU-n"), gpu("AMD", "0000:02:00.0", "GPU-00000000000000aa")
    other = gpu("AMD", "0000:03:00.0")
    view = view_of(nvidia, amd, other)
    user = {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1", "GPU_DEVICE_ORDINAL": "1"}

    def variables(*held: Accelerator) -> dict[str, str]:
        environment = command_environment(view, running(*(DeviceShare(a.id, whole=True) for a in held)), user)
        own = ("FAIRLEAD_", "PYTHONPATH")
        return {name: value for name, value in environment.items() if not name.startswith(own)}

    assert variables(amd, other) == {
        "ROCR_VISIBLE_DEVICES": "GPU-00000000000000aa,1",
        "HIP_VISIBLE_DEVICES": "0,1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    assert variables(nvidia, amd) == {
        **CUDA,
        "CUDA_VISIBLE_DEVICES": "GPU-n",
        "ROCR_VISIBLE_DEVICES": "GPU-00000000000000aa",
        "HIP_VISIBLE_DEVICES": "0",
    }


def test_a_job_without_accelerators_keeps_what_its_user_chose_and_says_so() -> None:
    view = view_of(gpu("NVIDIA", "0000:01:00.0", "GPU-n"), gpu("Intel", "0000:02:00.0"))
    chosen = {"CUDA_VISIBLE_DEVICES": "0"}
    environment = command_environment(view, running(), chosen)
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert environment["ONEAPI_DEVICE_SELECTOR"] == "!level_zero:gpu;!opencl:gpu"
    assert [note.partition(" ")[0] for note in environment_notes(view, running(), chosen)] == [
        "CUDA_VISIBLE_DEVICES"
    ]
    holds = running(DeviceShare("0000:01:00.0", whole=True))
    assert command_environment(view, holds, chosen)["CUDA_VISIBLE_DEVICES"] == "GPU-n"
    for base, job in (({}, running()), ({"CUDA_VISIBLE_DEVICES": "-1"}, running()), (chosen, holds)):
        assert environment_notes(view, job, base) == ()


def test_intel_gpus_are_numbered_by_address_and_an_unbound_one_has_no_number() -> None:
    integrated, first, second = (gpu("Intel", f"0000:{bus}:00.0") for bus in ("00", "03", "04"))
    view = view_of(second, first, replace(integrated, state=State.PRESENT))
    job = running(DeviceShare(second.id, whole=True), DeviceShare(first.id, whole=True))
    assert command_environment(view, job, {})["ZE_AFFINITY_MASK"] == "0,1"
    assert command_environment(view, running(job.shares[0]), {})["ZE_AFFINITY_MASK"] == "1"


@pytest.mark.parametrize(
    ("requested", "need", "whole", "expected"),
    [
        (Requested(gpu_memory=GIB, gpu_limit=Bytes(8 << 30)), None, False, "0.4609"),
        (Requested(gpu_memory=GIB), Need.fixed(Bytes(4 << 30)), False, "0.2109"),
        (Requested(gpu_memory=GIB), Need.fixed(GIB, firm=False), False, "grow"),
        (Requested(gpus=1), Need.fixed(GIB), True, None),
    ],
)
def test_frameworks_stay_inside_a_limit_or_grow_slowly(
    requested: Requested, need: Need | None, whole: bool, expected: str | None
) -> None:
    view = view_of(gpu("NVIDIA", "0000:01:00.0", "GPU-n"))
    share = DeviceShare("0000:01:00.0", Bytes(0) if whole else GIB, whole=whole)
    job = running(share, requested=requested, assumed=Assumed(gpus=1, need=need))
    environment = command_environment(view, job, {})
    assert environment.get("FAIRLEAD_MEMORY_MIB") == (None if whole else "1024")
    fraction = expected if expected != "grow" else None
    assert environment.get("XLA_PYTHON_CLIENT_MEM_FRACTION") == fraction
    assert environment.get("XLA_PYTHON_CLIENT_PREALLOCATE") == ("false" if expected == "grow" else None)
    assert environment.get("TF_FORCE_GPU_ALLOW_GROWTH") == ("true" if expected else None)
    kept = command_environment(view, job, {"TF_FORCE_GPU_ALLOW_GROWTH": "false", "PYTHONPATH": "/mine"})
    assert kept["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"


@pytest.mark.parametrize(("limiter", "hooked"), [(Limiter.WATCHDOG, True), (Limiter.NONE, False)])
def test_the_hook_of_frameworks_stands_before_the_users_own_path(limiter: Limiter, hooked: bool) -> None:
    job = running(requested=Requested(limiter=limiter))
    kept = command_environment(view_of(), job, {"PYTHONPATH": "/mine"})
    assert kept["PYTHONPATH"] == (f"{FOLDER}:/mine" if hooked else "/mine")
    assert command_environment(view_of(), job, {}).get("PYTHONPATH") == (FOLDER if hooked else None)


def test_the_page_has_every_variable() -> None:
    page = Path(HOSTS, "..", "..", "docs", "reference", "run-environment.md").read_text(encoding="utf-8")
    shown = {name for row in (*EXPECTED.values(), *HIDDEN.values()) for name in row}
    beside = {name for family in FAMILIES.values() for name in (*family.hide, *family.beside)}
    limits = {MEMORY_BYTES, MEMORY_FRACTION, ALLOCATOR_BYTES, *VARIABLES, *VISIBLE.values()}
    limits |= {*GROW, *THREADS, CPUS, JOB_ID, PYTHON_PATH}
    assert sorted(name for name in shown | beside | limits if f"`{name}" not in page) == []


@pytest.mark.parametrize(("cpus", "threads"), [(None, None), (0.5, "1"), (2.0, "2"), (2.5, "3")])
def test_threads_follow_the_cores_that_are_stated(cpus: float | None, threads: str | None) -> None:
    job = running(requested=Requested(cpus=cpus), assumed=Assumed(cpu=7000))
    environment = command_environment(view_of(), job, {"OMP_NUM_THREADS": "16"})
    assert environment["OMP_NUM_THREADS"] == "16"
    assert {environment.get(name) for name in (*THREADS[1:], "FAIRLEAD_CPUS")} == {threads}

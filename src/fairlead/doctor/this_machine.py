"""Checks of one machine, without a cluster: its accelerators, NVML, and access to the device nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.doctor.finding import CheckResult, Finding, count, fail, ok, some, warn
from fairlead.inventory import Accelerator, Inventory, State

_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class ExaminedMachine:
    """The inventory of a machine, its NVIDIA driver, and its device nodes."""

    inventory: Inventory
    nvidia_driver: bool = False
    """Whether NVIDIA's driver is loaded."""
    nvml: bool = False
    """Whether its management library answers."""
    nvml_failure: str = ""
    """Why it does not, in one line; empty: not known."""
    opens: Mapping[str, bool] = field(default_factory=dict)
    """By device node: whether this user may read and write it."""


def examine_machine(machine: ExaminedMachine) -> list[Finding]:
    """Return the findings of every check on a machine."""
    checks = {"accelerators": _accelerators, "unknown": _unknown, "nvml": _nvml, "device-nodes": _nodes}
    return [
        Finding(name, result.verdict, result.text, result.todo)
        for name, check in checks.items()
        for result in check(machine)
    ]


def _accelerators(machine: ExaminedMachine) -> list[CheckResult]:
    accelerators = [
        accelerator
        for accelerator in machine.inventory.accelerators
        if accelerator.kind != _CPU and not accelerator.mig_instances
    ]
    faults = [
        _unhealthy(accelerator)
        for accelerator in accelerators
        if accelerator.reason or not accelerator.state.allocatable
    ]
    if not accelerators:
        cpus = some(accelerator.model or accelerator.name for accelerator in machine.inventory.accelerators)
        beside = f" beside the CPU ({cpus})" if cpus else ""
        return [warn(f"no accelerator{beside} was found", "list what was read: fairlead detect -v")]
    names = some(accelerator.model or accelerator.name for accelerator in accelerators)
    return faults or [ok(f"{count(accelerators, 'accelerator')}: {names}")]


def _unhealthy(accelerator: Accelerator) -> CheckResult:
    reason = accelerator.reason or "no reason is known"
    text = f"{accelerator.name} ({accelerator.bus}) is {accelerator.state.value}: {reason}"
    if accelerator.state is State.USABLE:
        return ok(text)  # some devices have no health signal, and never get beyond `usable`
    if accelerator.state.allocatable:
        return warn(text, "check memory errors, temperature and power: dmesg, nvidia-smi -q")
    if accelerator.driver == "nvidia" and accelerator.state is State.DRIVER_BOUND:
        return fail(text, "read the driver's messages: dmesg | grep -i xid; nvidia-smi -q")
    return fail(text, "load its driver, or write its udev rule; fairlead detect -v shows what was read")


def _unknown(machine: ExaminedMachine) -> list[CheckResult]:
    unknown = machine.inventory.unknown
    if not unknown:
        return [ok("every device that looks like an accelerator is known")]
    ids = some(device.ids for device in unknown)
    text = f"{count(unknown, 'device')} like an accelerator that the catalog does not know: {ids}"
    return [warn(text, "describe it: fairlead docs own-device")]


def _nvml(machine: ExaminedMachine) -> list[CheckResult]:
    if not machine.nvidia_driver:
        return [ok("no NVIDIA driver is loaded, and none of its libraries is needed")]
    if machine.nvml:
        return [ok("NVIDIA's management library answers")]
    text = "NVIDIA's driver is loaded, but its management library does not answer"
    todo = machine.nvml_failure or "install the driver's libnvidia-ml.so.1"
    return [warn(text, f"{todo}; in a container, use the nvidia runtime class")]


def _nodes(machine: ExaminedMachine) -> list[CheckResult]:
    closed = [path for path, allowed in machine.opens.items() if not allowed]
    if closed:
        todo = "add this user to the node's group (ls -l), or write a udev rule; agents need not open them"
        return [warn(f"this user may not open {some(closed)}", todo)]
    return [ok(f"this user may open {count(machine.opens, 'device node')}")]

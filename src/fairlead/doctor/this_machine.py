"""Checks of one machine, without a cluster: what was found, whether NVML speaks, and who may open what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.doctor.finding import CheckResult, Finding, count, fail, ok, some, warn
from fairlead.inventory import Accelerator, Inventory, State

_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class ExaminedMachine:
    """A machine as it was seen."""

    inventory: Inventory
    nvidia_driver: bool = False
    """Whether NVIDIA's driver is loaded."""
    nvml: bool = False
    """Whether its management library answers."""
    opens: Mapping[str, bool] = field(default_factory=dict)
    """Device nodes, and whether this user may read and write them."""


def examine_machine(machine: ExaminedMachine) -> list[Finding]:
    """Return what every check finds on a machine."""
    checks = {"accelerators": _accelerators, "unknown": _unknown, "nvml": _nvml, "device-nodes": _nodes}
    return [
        Finding(name, said.verdict, said.text, said.todo)
        for name, look in checks.items()
        for said in look(machine)
    ]


def _accelerators(machine: ExaminedMachine) -> list[CheckResult]:
    found = [accelerator for accelerator in machine.inventory.accelerators if accelerator.kind != _CPU]
    bad = [_unhealthy(each) for each in found if each.reason or not each.state.allocatable]
    if not found:
        cpus = some(accelerator.model or accelerator.name for accelerator in machine.inventory.accelerators)
        beside = f" beside the CPU ({cpus})" if cpus else ""
        return [warn(f"no accelerator{beside} was found", "see what was read: fairlead detect -v")]
    return bad or [ok(f"{count(found, 'accelerator')}: {some(each.model or each.name for each in found)}")]


def _unhealthy(each: Accelerator) -> CheckResult:
    text = f"{each.name} ({each.bus}) is {each.state.value}: {each.reason or 'no reason is known'}"
    if each.state is State.USABLE:
        return ok(text)  # some devices show no vital sign, and are never more than usable
    if each.state.allocatable:
        return warn(text, "look at memory errors, heat and power: dmesg, nvidia-smi -q")
    if each.driver == "nvidia" and each.state is State.DRIVER_BOUND:
        return fail(text, "see what the driver says: dmesg | grep -i xid; nvidia-smi -q")
    return fail(text, "load its driver, or write its udev rule; fairlead detect -v shows what was read")


def _unknown(machine: ExaminedMachine) -> list[CheckResult]:
    odd = machine.inventory.unknown
    if not odd:
        return [ok("every device that looks like an accelerator is known")]
    ids = some(each.ids for each in odd)
    text = f"{count(odd, 'device')} like an accelerator that the catalog does not know: {ids}"
    return [warn(text, "describe it: fairlead docs own-device")]


def _nvml(machine: ExaminedMachine) -> list[CheckResult]:
    if not machine.nvidia_driver:
        return [ok("no NVIDIA driver is loaded, and none of its libraries is needed")]
    if machine.nvml:
        return [ok("NVIDIA's management library answers")]
    todo = "install the driver's libnvidia-ml.so.1; in a container, use the nvidia runtime class"
    return [warn("NVIDIA's driver is loaded, but its management library does not answer", todo)]


def _nodes(machine: ExaminedMachine) -> list[CheckResult]:
    closed = [path for path, may in machine.opens.items() if not may]
    if closed:
        todo = "add this user to the node's group (ls -l), or write a udev rule; agents need only to see them"
        return [warn(f"this user may not open {some(closed)}", todo)]
    return [ok(f"this user may open {count(machine.opens, 'device node')}")]

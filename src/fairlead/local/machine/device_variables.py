"""The variables by which a vendor's runtime shows a program some accelerators, and no other. Pure.

A family of accelerators has one runtime. If a job holds some of a family, the runtime shows these; if it
holds none, the runtime shows none, as far as the vendor has a variable for that. libedgetpu and HailoRT read
no variable: a program must name the device that it opens, and finds that name in a variable of ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.inventory import Accelerator, State
from fairlead.publish.access import VISIBLE, node_number

Accelerators = Sequence[Accelerator]
_NONE: Final = ("", "-1")
"""What people write to show a program no GPU."""


@dataclass(frozen=True, slots=True)
class DeviceFamily:
    """Accelerators that one runtime finds."""

    applies: Callable[[Accelerator], bool]
    show: Callable[[Accelerators, Accelerators], dict[str, str]]
    """The variables that show some of a machine's accelerators: those, and all of the family."""
    hide: Mapping[str, str] = field(default_factory=dict)
    """The variables that show none."""
    beside: tuple[str, ...] = ()
    """Other variables that choose among what is shown. A job that holds accelerators loses those of the user:
    they count devices that the program no longer sees."""
    more: Mapping[str, str] = field(default_factory=dict)
    """What a program that holds some receives beside, unless the user has set it."""


_Families = list[tuple[list[Accelerator], DeviceFamily]]
"""What a job holds of each family that the machine has."""


def _cuda(granted: Accelerators, every: Accelerators) -> dict[str, str]:
    """Name GPUs and MIG instances by UUID, or by number where one has none, as the GPU of a Jetson."""
    uuids = [acc.uuid for acc in granted if acc.uuid]
    chosen = uuids if len(uuids) == len(granted) else _ranks(granted, every)
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(chosen)}


def _rocm(granted: Accelerators, every: Accelerators) -> dict[str, str]:
    """Name GPUs by UUID or number for ROCr, the lowest layer: AMD recommends it on Linux.

    HIP chooses among what ROCr shows and counts from 0 there: the same numbers in both would hide GPUs. It
    is set to all of them, because HIP reads CUDA_VISIBLE_DEVICES where its own variable is not set.
    """
    names = zip(granted, _ranks(granted, every), strict=True)
    return {
        "ROCR_VISIBLE_DEVICES": ",".join(acc.uuid or rank for acc, rank in names),
        "HIP_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(granted))),
    }


def _level_zero(granted: Accelerators, every: Accelerators) -> dict[str, str]:
    """Name GPUs by number; Level Zero numbers them by their address on the bus only when it is asked to."""
    ranks = sorted(_ranks(granted, every), key=int)
    return {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_AFFINITY_MASK": ",".join(ranks)}


def _edge_tpu(granted: Accelerators, every: Accelerators) -> dict[str, str]:
    """Name Edge TPUs as libedgetpu and PyCoral take them: `usb:0`, `pci:1`."""
    names = []
    for acc in granted:
        bus = acc.bus.partition(":")[0]
        names.append(f"{bus}:{_ranks([acc], [each for each in every if each.bus.startswith(bus)])[0]}")
    return {"FAIRLEAD_EDGETPU_DEVICE": ",".join(names)}


def _hailo(granted: Accelerators, every: Accelerators) -> dict[str, str]:
    """Name Hailo devices by their PCI address, which HailoRT takes as the id of a device."""
    return {"FAIRLEAD_HAILO_DEVICE": ",".join(acc.bus.partition(":")[2] for acc in granted)}


def _numbered(variables: Sequence[str]) -> Callable[[Accelerators, Accelerators], dict[str, str]]:
    def show(granted: Accelerators, every: Accelerators) -> dict[str, str]:
        numbers = ",".join(sorted(filter(None, map(node_number, granted)), key=int))
        return dict.fromkeys(variables, numbers) if numbers else {}

    return show


def _is_gpu_of(vendor: str) -> Callable[[Accelerator], bool]:
    return lambda acc: acc.kind == "gpu" and acc.vendor == vendor


FAMILIES: Final[Mapping[str, DeviceFamily]] = {
    "cuda": DeviceFamily(_is_gpu_of("NVIDIA"), _cuda, {"CUDA_VISIBLE_DEVICES": ""}),
    "rocm": DeviceFamily(
        _is_gpu_of("AMD"),
        _rocm,
        {"ROCR_VISIBLE_DEVICES": ""},
        ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    ),
    # An empty ZE_AFFINITY_MASK shows every GPU; SYCL's own selector can exclude them.
    "level-zero": DeviceFamily(
        _is_gpu_of("Intel"), _level_zero, {"ONEAPI_DEVICE_SELECTOR": "!level_zero:gpu;!opencl:gpu"}
    ),
    "edge-tpu": DeviceFamily(lambda acc: acc.vendor == "Google" and acc.kind == "tpu", _edge_tpu),
    # HailoRT then writes each second how busy the device is: no driver knows it.
    "hailo": DeviceFamily(lambda acc: acc.vendor == "Hailo", _hailo, more={"HAILO_MONITOR": "1"}),
    "habana": DeviceFamily(lambda acc: acc.driver == "habanalabs", _numbered([VISIBLE["habanalabs"]])),
    # CANN itself reads the second one; the first is for Ascend's container runtime.
    "ascend": DeviceFamily(
        lambda acc: acc.driver == "devdrv_device_driver",
        _numbered([VISIBLE["devdrv_device_driver"], "ASCEND_RT_VISIBLE_DEVICES"]),
    ),
}


def device_variables(granted: Accelerators, every: Accelerators, base: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a program sees the granted accelerators of a machine, and no other.

    Where a job holds none of a family, a variable of the user that chooses among that family stays.
    """
    families = _families(granted, every)
    environment = _kept(families, base)
    for shown, family in families:
        if not shown and not _chosen(family, environment):
            environment |= family.hide
    for shown, family in families:
        if shown:
            environment = {**family.more, **environment}
            environment |= family.show(shown, [acc for acc in every if family.applies(acc)])
    return environment


def unbooked(granted: Accelerators, every: Accelerators, base: Mapping[str, str]) -> list[str]:
    """Return the variables of the user that show a program accelerators which its job does not hold."""
    families = _families(granted, every)
    kept = _kept(families, base)
    names = [name for shown, family in families if not shown for name in _chosen(family, kept)]
    return [name for name in dict.fromkeys(names) if kept[name] not in _NONE]


def _kept(families: _Families, base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user without those that would choose among what is shown."""
    lost = {name for shown, family in families if shown for name in family.beside}
    return {name: value for name, value in base.items() if name not in lost}


def _chosen(family: DeviceFamily, base: Mapping[str, str]) -> list[str]:
    """Return the variables of the user that choose among a family."""
    return [name for name in (*family.hide, *family.beside) if name in base]


def _families(granted: Accelerators, every: Accelerators) -> _Families:
    """Return the families that the machine has, each with what is granted of it."""
    return [
        ([acc for acc in granted if family.applies(acc)], family)
        for family in FAMILIES.values()
        if any(family.applies(acc) for acc in every)
    ]


def _ranks(granted: Accelerators, every: Accelerators) -> list[str]:
    """Return the numbers of accelerators in the order of their addresses; without a driver one has none."""
    order = sorted(
        {acc.bus for acc in [*granted, *every] if acc.state is not State.PRESENT or acc in granted}
    )
    return [str(order.index(acc.bus)) for acc in granted]

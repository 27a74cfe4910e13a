"""A node's labels: always valid for Kubernetes, whatever the inventory contains."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from fairlead.annotations import MIG
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.keys import PREFIX

RESTRICTED: Final = "fairlead.node-restriction.kubernetes.io/"
"""Labels that a kubelet may not write, not even on its own node: trust may depend on them."""
LEGACY_KEYS: Final = frozenset({"gpu.model", "gpu.driver", "gpu.resource", "gpu.vendor.id", "gpu.product.id"})
"""The keys of the original set; they have no prefix, so others may use them as well."""
_MACHINE: Final = frozenset({"arch", "board", "soc", "release", "cpu.model", "cpu.name", "unknown.count"})
_OF_MODEL: Final = frozenset(
    {
        "count",
        "usable",
        "state",
        "kind",
        "vendor",
        "driver",
        "driver-version",
        "memory-mib",
        "unified-memory",
        "int8-gops",
    }
)
"""The labels of a model, after its name and a dot."""
_BAD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 63
_LONGEST_MODEL: Final = 40
_LONGEST_PROFILE: Final = 20
_LADDER: Final = tuple(State)
_USB_IDS: Final = re.compile(r"id ([0-9a-f]{4}):([0-9a-f]{4}) ")
_LEGACY_BOARDS: Final = {
    "jetson-tx1": "Jetson-TX1",
    "jetson-tx2": "Jetson-TX2",
    "jetson-nano": "Jetson-Nano",
    "jetson-agx-xavier": "Jetson-AGX",
    "coral-usb": "Google-Coral-TPU",
}
"""The names that the original label set gave to the devices it knew."""


def label_value(text: str) -> str:
    """Return `text` as a valid label value: at most 63 of [A-Za-z0-9._-], alphanumeric at both ends."""
    return _BAD.sub("-", text)[:_LONGEST].strip("._-")


def labels(inventory: Inventory) -> dict[str, str]:
    """Return the labels of a node; only slowly changing facts, so that they do not flap."""
    machine = inventory.machine
    values = {
        "arch": machine.arch or "",
        "board": machine.board or "",
        "soc": machine.compatible[-1] if machine.compatible else "",
        "release": machine.release or "",
        "unknown.count": str(len(inventory.unknown)) if inventory.unknown else "",
    }
    real = [acc for acc in inventory.accelerators if acc.kind != "cpu" and not acc.mig_instances]
    for acc in inventory.accelerators:
        if acc.kind == "cpu":
            values |= {"cpu.model": acc.model or "", "cpu.name": acc.name}
    for kind, count in Counter(acc.kind for acc in real).items():
        values[f"{kind}.count"] = str(count)
    for model in dict.fromkeys(model_name(acc) for acc in real):
        values |= _model_labels(model, [acc for acc in real if model_name(acc) == model])
    clean = {f"{PREFIX}{key}": label_value(value) for key, value in values.items()}
    return {key: value for key, value in clean.items() if value}


def restricted_labels(inventory: Inventory) -> dict[str, str]:
    """Return the labels on which a decision about a node's trust may rest: few, and only of what works.

    For each model and each vendor, the number of allocatable accelerators. Where there are none, there is
    no label: its existence is the statement.
    """
    allocatable = [acc for acc in inventory.accelerators if acc.kind != "cpu" and acc.state.allocatable]
    count = Counter(model_name(acc) for acc in allocatable)
    count.update(
        f"vendor.{vendor}" for acc in allocatable if (vendor := label_value(acc.vendor)[:50].rstrip("._-"))
    )
    return {f"{RESTRICTED}{name}": str(number) for name, number in count.items()}


def is_own_label(key: str) -> bool:
    """Say whether a label's key is one that `labels` or `restricted_labels` may have written.

    Not every key with the prefix is: people may set labels of their own there.
    """
    if key.startswith(RESTRICTED):
        return True
    name = key.removeprefix(PREFIX)
    model, dot, field = name.rpartition(".")
    return name != key and (name in _MACHINE or bool(model and dot and field in _OF_MODEL))


def model_name(acc: Accelerator) -> str:
    """Return the model, or its candidates in one word: valid in labels and resource names.

    A MIG instance has its profile at the end: `h200-mig-1g.18gb`, so that it counts as a model of its own.
    """
    name = label_value(acc.model or "-or-".join(acc.candidates))
    profile = label_value(acc.mig.profile.replace("+", "."))[:_LONGEST_PROFILE] if acc.mig else ""
    end = f"{MIG}{profile}".rstrip("._-") if acc.mig else ""
    return (name[: _LONGEST_MODEL - len(end)].rstrip("._-") or "unknown") + end


def _model_labels(model: str, group: list[Accelerator]) -> dict[str, str]:
    """Return the labels of all accelerators of one model; the state is that of the weakest."""
    weakest = min(group, key=lambda acc: _LADDER.index(acc.state))
    memories = [acc.memory for acc in group if acc.memory]
    rates = [acc.effective["int8"] for acc in group if "int8" in acc.effective]
    return {
        f"{model}.count": str(len(group)),
        f"{model}.usable": str(sum(acc.state.allocatable for acc in group)),
        f"{model}.state": weakest.state.value,
        f"{model}.kind": group[0].kind,
        f"{model}.vendor": group[0].vendor,
        f"{model}.driver": _same(acc.driver for acc in group),
        f"{model}.driver-version": _same(acc.driver_version for acc in group),
        f"{model}.memory-mib": str(min(memories) >> 20) if memories and min(memories) >> 20 else "",
        f"{model}.unified-memory": "true" if group[0].unified_memory else "",
        f"{model}.int8-gops": str(round(min(rates) / 1e9)) if rates else "",
    }


def _same(values: Iterable[str | None]) -> str:
    distinct = set(values)
    return (distinct.pop() or "") if len(distinct) == 1 else ""


def legacy_labels(inventory: Inventory) -> dict[str, str]:
    """Return the original un-prefixed set, so that existing selectors keep working.

    It describes one device: the first real accelerator, a Jetson before anything plugged into it. Other
    GPUs were named by the first two words of their product name, joined: `TeslaT4`.
    """
    real = [acc for acc in inventory.accelerators if acc.kind != "cpu"]
    if not real:
        return {}
    first = min(real, key=lambda acc: (acc.bus.startswith("usb"), acc.kind != "gpu"))
    tegra = first.bus.startswith("platform") and first.vendor == "NVIDIA"
    resource = "tegrastats" if tegra else "nvidia-smi" if first.driver == "nvidia" else ""
    driver = (inventory.machine.release if tegra else None) or first.driver_version or first.driver or ""
    words = (first.product or first.name).split()
    name = "".join(words[:2]) if resource == "nvidia-smi" else first.name
    values = {
        "gpu.model": _LEGACY_BOARDS.get(first.model or "", name),
        "gpu.driver": driver if first.bus.startswith(("platform", "pci")) else "",
        "gpu.resource": resource,
        **_usb_numbers(real),
    }
    return {key: value for key, text in values.items() if (value := label_value(text))}


def _usb_numbers(real: list[Accelerator]) -> dict[str, str]:
    for acc in real:
        for item in acc.evidence:
            ids = _USB_IDS.match(item.says) if item.source == "usb" else None
            if ids:
                return {"gpu.vendor.id": ids[1], "gpu.product.id": ids[2]}
    return {}

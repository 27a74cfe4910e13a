"""The framework's own cost: the rate of the same image job in a pod, through the store, and both. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.reproduce.augment.cases import SERVER
from fairlead.reproduce.augment.function import IMAGES
from fairlead.reproduce.augment.split_cases import FROM_DEVICE, THROUGH

POD: Final = "server, in a pod"
POD_AND_STORE: Final = "server, in a pod, through the store"
POD_FROM_DEVICE: Final = "device, to a pod's store"
OVERHEADS: Final = {
    POD: "in a pod",
    THROUGH: "through the store",
    POD_AND_STORE: "in a pod and through the store",
    FROM_DEVICE: "on the device, with the store",
    POD_FROM_DEVICE: "on the device, with a pod's store",
}
"""By arrangement: what there is beside the bare command, for people."""


def own_cost(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what the framework costs as a sentence; empty: nothing of it was measured."""
    found = {row["arrangement"]: row for row in rows if row["job"] == IMAGES}
    parts = [f"{found[name]['by_server']:.3g}x {text}" for name, text in OVERHEADS.items() if name in found]
    if SERVER not in found or not parts:
        return ""
    return f"The framework's own cost: 1x bare ({found[SERVER]['rate']:.3g}/s), {', '.join(parts)}."

"""A scan of the machine with the user's catalog; apart from the rest, because its imports are slow."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.catalog import load
from fairlead.catalog.load import user_places
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory
from fairlead.nvml import Gpu


def scan(host: Host, gpus: Sequence[Gpu] | None) -> Inventory:
    """Return what the machine has; `gpus` are NVML's, or those of a capture where NVML was not read."""
    inventory = detect(host, load(user_places()), read_gpus(host) if gpus is None else gpus)
    return replace(inventory, accelerators=tuple(_with_uuid(host, acc) for acc in inventory.accelerators))


def _with_uuid(host: Host, acc: Accelerator) -> Accelerator:
    """Add the UUID by which ROCm knows a GPU: its unique id, which GPUs for desktops may lack."""
    if acc.driver != "amdgpu" or acc.kind != "gpu" or acc.uuid:
        return acc
    unique = (host.text(f"{acc.path}/unique_id") or "").removeprefix("0x").lower()
    known = len(unique) == len("0123456789abcdef") and set(unique) <= set("0123456789abcdef")
    return replace(acc, uuid=f"GPU-{unique}") if known and int(unique, 16) else acc

"""The inventory of the last scan, kept in a file of the user: a scan takes longer than a short command.

The file counts only while the signs of the machine are what they were: its boot, its devices and drivers, the
user's catalog files. Any text that this program did not write is ignored, and the machine is scanned.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from fairlead import __version__
from fairlead.errors import FairleadError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.host import Host
from fairlead.inventory import Accelerator, Engine, Inventory, Link, Machine, MigPartition, State, Unknown

FILE: Final = "inventory.json"
DRIVER_SIGNS: Final = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
"""As in `fairlead.nvml`, whose import is slow; a test holds them equal."""
GPUS: Final = "/proc/driver/nvidia/gpus"
"""The driver's own list: a folder for each GPU, named by its address."""
CATALOG_VARIABLE: Final = "FAIRLEAD_CATALOG"
CATALOG_FOLDER: Final = "/etc/fairlead/catalog.d"
"""As in `fairlead.catalog.load`, whose import is slow; a test holds them equal."""
_LISTS: Final = (
    "/sys/bus/pci/devices",
    "/sys/bus/usb/devices",
    "/sys/bus/platform/devices",
    "/sys/module",
    GPUS,
)
_TEXTS: Final = ("/proc/sys/kernel/random/boot_id", "/proc/driver/nvidia/version")
_MIG: Final = "/proc/driver/nvidia/capabilities"
_SIZE_LIMIT: Final = 1 << 20
_MOST_FILES: Final = 256


@dataclass(frozen=True, slots=True)
class CachedInventory:
    """An inventory, and the signs of the machine when it was scanned."""

    at: float
    """Seconds since the boot."""
    signs: tuple[str, ...]
    inventory: Inventory


def _encode(cached: CachedInventory) -> Mapping[str, Any]:
    inventory = cached.inventory
    return {
        "at": cached.at,
        "signs": list(cached.signs),
        "machine": inventory.machine.to_json(),
        "accelerators": [_encode_accelerator(acc) for acc in inventory.accelerators],
        "unknown": [device.to_json() for device in inventory.unknown],
    }


def _decode(body: Any) -> CachedInventory:
    host = body["machine"]
    machine = Machine(
        host["arch"],
        host["board"],
        tuple(host["compatible"]),
        int(host["cpus"]),
        host["memory_bytes"],
        host["release"],
        tuple(host["problems"]),
    )
    accelerators = tuple(_decode_accelerator(row) for row in body["accelerators"])
    unknown = tuple(Unknown(**row) for row in body["unknown"])
    inventory = Inventory(machine, accelerators, unknown)
    return CachedInventory(float(body["at"]), tuple(map(str, body["signs"])), inventory)


def _encode_accelerator(acc: Accelerator) -> dict[str, Any]:
    """Return every field but the evidence, which no decision reads."""
    row = {field.name: getattr(acc, field.name) for field in fields(acc) if field.name != "evidence"}
    row["state"] = acc.state.value
    row["link"] = [acc.link.rate, acc.link.best] if acc.link else None
    row["engines"] = [engine.to_json() for engine in acc.engines]
    row["mig"] = asdict(acc.mig) if acc.mig else None
    return row


def _decode_accelerator(row: dict[str, Any]) -> Accelerator:
    return Accelerator(
        **{
            **row,
            "state": State(row["state"]),
            "candidates": tuple(row["candidates"]),
            "link": Link(*row["link"]) if row["link"] else None,
            "engines": tuple(Engine(e["name"], e["kind"], State(e["state"])) for e in row["engines"]),
            "mig": MigPartition(**{**row["mig"], "nodes": tuple(row["mig"]["nodes"])})
            if row["mig"]
            else None,
        }
    )


INVENTORY_CACHE: Final = VersionedFormat("inventory-cache", JSON, {1: Codec(_encode, _decode)})


def machine_signs(host: Host, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must be unchanged for a scan to be still true, one line for each fact."""
    return tuple(_signs(host, environ))


def device_signs(host: Host, inventory: Inventory) -> tuple[str, ...]:
    """Return the driver of every accelerator, and whether its device node is there."""
    return tuple(
        f"{acc.id} {host.link(f'{acc.path}/driver') if acc.path else ''} {_node_exists(host, acc)}"
        for acc in inventory.accelerators
        if acc.kind != "cpu"
    )


def plain(inventory: Inventory) -> Inventory:
    """Return an inventory as the cache would return it, so that a scan and the cache agree."""
    return INVENTORY_CACHE.decode(INVENTORY_CACHE.encode(CachedInventory(0.0, (), inventory))).inventory


def load(path: str) -> CachedInventory | None:
    """Return the inventory in a file; None where there is none that this program can read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(handle, _SIZE_LIMIT)
        return INVENTORY_CACHE.decode(data.decode("utf-8"))
    except (OSError, ValueError, FairleadError):
        return None
    finally:
        os.close(handle)


def store(path: str, cached: CachedInventory) -> None:
    """Write the file; without room or permission there is no cache, and the next command scans again."""
    part = f"{path}.{os.getpid()}.part"
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, INVENTORY_CACHE.encode(cached).encode())
        finally:
            os.close(handle)
        os.replace(part, path)  # not synced to the disk: after a crash the boot is another one
    except OSError:
        return


def _signs(host: Host, environ: Mapping[str, str]) -> Iterator[str]:
    yield f"fairlead {__version__}"
    yield f"dev {host.names('/dev', 'nvidia*')} {[sign for sign in DRIVER_SIGNS if host.exists(sign)]}"
    for path in _TEXTS:
        yield f"{path} {host.text(path) or ''}"
    for path in _LISTS:
        yield f"{path} {' '.join(host.names(path))}"
    for name in host.names(_MIG):
        yield f"{name} {' '.join(host.names(f'{_MIG}/{name}/mig'))}"
    named = environ.get(CATALOG_VARIABLE, "")
    for place in [CATALOG_FOLDER, *(place for place in named.split(os.pathsep) if place)]:
        yield f"{place} {_modified(place)}"


def _modified(place: str) -> str:
    """Return when a catalog file, or each file of a folder, was modified."""
    try:
        paths = [place]
        if os.path.isdir(place):
            paths += sorted(entry.path for entry in os.scandir(place))[:_MOST_FILES]
        return " ".join(str(os.stat(path).st_mtime_ns) for path in paths)
    except OSError:
        return "absent"


def _node_exists(host: Host, acc: Accelerator) -> bool:
    return bool(acc.node and acc.node.startswith("/dev/") and host.exists(acc.node))

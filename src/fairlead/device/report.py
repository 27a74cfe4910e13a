"""DeviceReport: what a device measured of itself, as it tells its session."""

import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead import __version__
from fairlead.device.files import write_private
from fairlead.device.place import DevicePlace

_NO_LINK: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A device as it is now."""

    name: str
    machine: Mapping[str, Any]
    """Cores, RAM, architecture, board and accelerators, from discovery."""
    storage: Mapping[str, int]
    """Bytes of the file system that holds the queue: `free_bytes`, `size_bytes`."""
    link: Mapping[str, float] = field(default_factory=lambda: _NO_LINK)
    """`round_trip_s`, `up_bytes_per_s`, `down_bytes_per_s`; empty: not measured yet."""
    digest: str | None = None
    """Of the application on the device: `sha256:...`."""
    queue: Mapping[str, int] | None = None
    measured: float = 0.0
    """Seconds since 1970."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as a document."""
        return {
            "name": self.name,
            "machine": dict(self.machine),
            "storage": dict(self.storage),
            "link": dict(self.link),
            "digest": self.digest,
            "queue": dict(self.queue or {}),
            "measured": self.measured,
            "version": __version__,
        }


def read_machine() -> dict[str, Any]:
    """Return what discovery finds on this machine; its modules are loaded by this call alone."""
    from fairlead.catalog import load  # noqa: PLC0415  # 5 MiB that a running agent does not need
    from fairlead.detect import detect  # noqa: PLC0415
    from fairlead.host import Host  # noqa: PLC0415

    inventory = detect(Host("/"), load())
    machine = inventory.machine
    return {
        "arch": machine.arch,
        "board": machine.board,
        "cores": len(os.sched_getaffinity(0)) or machine.cpus,
        "memory_bytes": machine.memory,
        "accelerators": [
            {
                "id": acc.id,
                "model": acc.model,
                "name": acc.name,
                "kind": acc.kind,
                "state": acc.state.value,
                "memory_bytes": acc.memory,
            }
            for acc in inventory.accelerators
            if acc.kind != "cpu"
        ],
    }


def first_report(
    name: str, place: DevicePlace, machine: Mapping[str, Any], digest: str | None
) -> DeviceReport:
    """Return the report with which a device joins."""
    return DeviceReport(name, machine, _storage(place), digest=digest, measured=time.time())


def refreshed(
    report: DeviceReport, place: DevicePlace, digest: str | None, queue: Mapping[str, int]
) -> DeviceReport:
    """Return a report with what changes as of now."""
    return replace(report, storage=_storage(place), digest=digest, queue=queue, measured=time.time())


def save_report(place: DevicePlace, report: DeviceReport) -> None:
    """Keep a report for the next start of the agent."""
    write_private(place.report, json.dumps(report.to_json()).encode())


def load_report(place: DevicePlace) -> DeviceReport | None:
    """Return the report that was kept; None: there is none to read."""
    try:
        with open(place.report, encoding="utf-8") as file:
            kept = json.load(file)
        return DeviceReport(
            str(kept["name"]),
            dict(kept["machine"]),
            dict(kept["storage"]),
            dict(kept["link"]),
            kept["digest"],
            dict(kept["queue"]),
            float(kept["measured"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _storage(place: DevicePlace) -> dict[str, int]:
    usage = shutil.disk_usage(place.folder)
    return {"free_bytes": usage.free, "size_bytes": usage.total}

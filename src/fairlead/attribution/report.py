"""The use of devices by pod and container, and what of it belongs to no pod."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fairlead.attribution.cgroups import NoPod, PodContainer
from fairlead.attribution.sources import DeviceProcesses, ProcessUse

Owner = PodContainer | NoPod | None
"""The owner of a process; None: it has ended."""
_FULL: Final = 1.0


def report(devices: Iterable[DeviceProcesses], owner_of: Callable[[int], Owner]) -> list[dict[str, Any]]:
    """Return the use of each device: no pid, and of processes outside pods only their sum.

    A device that two sources report is in the answer once, as the first of them reports it.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for device in devices:
        rows.setdefault((device.uuid, device.bus), _device(device, owner_of))
    return list(rows.values())


def _device(device: DeviceProcesses, owner_of: Callable[[int], Owner]) -> dict[str, Any]:
    owners = {pid: owner_of(pid) for pid in device.processes}
    inside: dict[PodContainer, list[ProcessUse]] = {}
    for pid, found in owners.items():
        if isinstance(found, PodContainer):
            inside.setdefault(found, []).append(device.processes[pid])
    outside = [use for pid, use in device.processes.items() if owners[pid] is NoPod.FOREIGN]
    return {
        "uuid": device.uuid,
        "bus": device.bus,
        "foreign": _sum(outside),
        "containers": [_container(found, uses) for found, uses in sorted(inside.items())],
    }


def _container(found: PodContainer, uses: list[ProcessUse]) -> Mapping[str, Any]:
    shares = [use.busy for use in uses if use.busy is not None]
    busy = min(_FULL, sum(shares)) if len(shares) == len(uses) else None
    return {"pod": found.pod, "container": found.container, "memory": _sum(uses), "busy": busy}


def _sum(uses: list[ProcessUse]) -> int | None:
    """Return the memory of all; None if one of them is not measured, for the sum would be too small."""
    sizes = [use.memory for use in uses if use.memory is not None]
    return sum(sizes) if len(sizes) == len(uses) else None

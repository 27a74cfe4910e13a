"""Every accelerator of a cluster: what pods requested of it, and what its agent measured. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState
from fairlead.units import Bytes
from fairlead.usage.dialects import UseQuantity, UseScope
from fairlead.usage.page import PageRow
from fairlead.use import DeviceKey

_NONE: Final = Bytes(0)


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """What an agent measured of an accelerator; None: not measured."""

    memory: Bytes | None = None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class AcceleratorUse:
    """One accelerator, the pods on it, and its measured use."""

    node: str
    device: DeviceState
    requested: Bytes
    """The memory that pods were given; all of it where one of them has it whole."""
    holders: tuple[str, ...] = ()
    """`namespace/name` of the pods."""
    measured: MeasuredDevice = MeasuredDevice()

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            "node": self.node,
            "device": self.device.id,
            "model": self.device.model or None,
            "healthy": self.device.healthy,
            "memory_bytes": self.device.memory or None,
            "requested_bytes": self.requested,
            "used_bytes": self.measured.memory,
            "busy": self.measured.busy,
            "pods": list(self.holders),
        }


def measured_devices(rows: Iterable[PageRow]) -> dict[DeviceKey, MeasuredDevice]:
    """Return what the pages of agents say of whole accelerators."""
    found: dict[DeviceKey, MeasuredDevice] = {}
    for metric, labels, value in rows:
        if metric.scope is not UseScope.DEVICE or not labels.id or math.isnan(value):
            continue
        key = DeviceKey(labels.node, labels.id)
        before = found.get(key, MeasuredDevice())
        if metric.quantity is UseQuantity.MEMORY:
            found[key] = replace(before, memory=Bytes(int(value)))
        else:
            found[key] = replace(before, busy=value)
    return found


def accelerator_uses(
    snapshot: Snapshot, measured: Mapping[DeviceKey, MeasuredDevice], namespace: str = ""
) -> list[AcceleratorUse]:
    """Return every accelerator; with a namespace, those that its pods hold, with these pods alone."""
    uses = [
        _use(snapshot, node.name, device, measured.get(DeviceKey(node.name, device.id)))
        for node in snapshot.nodes
        for device in node.devices
    ]
    if not namespace:
        return uses
    own = [
        replace(each, holders=tuple(pod for pod in each.holders if pod.startswith(f"{namespace}/")))
        for each in uses
    ]
    return [each for each in own if each.holders]


def _use(
    snapshot: Snapshot, node: str, device: DeviceState, measured: MeasuredDevice | None
) -> AcceleratorUse:
    requested, holders, whole = 0, list[str](), False
    for placement in snapshot.placements:
        for share in placement.shares if placement.node == node else ():
            if share.device == device.id:
                requested += share.memory
                whole = whole or share.whole
                holders.append(f"{placement.request.namespace}/{placement.request.name}")
    total = device.memory if whole else Bytes(requested)
    return AcceleratorUse(node, device, total or _NONE, tuple(holders), measured or MeasuredDevice())

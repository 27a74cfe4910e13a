"""Nodes, accelerators and workloads of a cluster as rows of the dashboard's tables. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fairlead.catalog import Catalog
from fairlead.dashboard.row_types import DeviceRow, NodeRow, RequestedAmounts, ShareOfDevice, WorkloadRow
from fairlead.errors import CatalogError
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Request
from fairlead.share import DeviceShare


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """The measured values of an accelerator; None: unknown."""

    at: float
    memory_used: int | None = None
    utilisation: float | None = None
    watts: float | None = None
    celsius: float | None = None
    holders: Mapping[str, int] | None = None
    """By key of a workload: the memory that it holds."""


UNMEASURED: Final = DeviceValues(0.0)


class DeviceNames:
    """TenantNames and kinds of devices, by their models of the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, tuple[str, str]] = {}

    def of(self, model: str, offered: str = "") -> tuple[str, str]:
        """Return the name and the kind of a model; what the node offers says what the catalog does not."""
        if model not in self._known:
            try:
                row = self._catalog.get(model.partition("-mig-")[0])
                self._known[model] = (row.name if "-mig-" not in model else model, row.kind)
            except CatalogError:
                self._known[model] = (model, _offered_kind(offered))
        return self._known[model]


def _offered_kind(offered: str) -> str:
    try:
        return str(json.loads(offered)["device"]["attributes"]["kind"]["string"])
    except (ValueError, KeyError, TypeError):
        return ""


def workload_key(request: Request) -> str:
    """Return the key of a pod."""
    return f"{request.namespace}/{request.name}"


def device_key(node: str, device: str) -> str:
    """Return the key of an accelerator."""
    return f"{node}/{device}"


def node_row(
    node: NodeState,
    *,
    state: Literal["ready", "not-ready", "cordoned"] | None = None,
    reason: str = "",
    arch: str = "",
    agent: Literal["ok", "missing", "old", "unknown"] = "unknown",
) -> NodeRow:
    """Return the row of a node; without a state it is ready, or cordoned."""
    return NodeRow(
        key=node.name,
        name=node.name,
        state=state or ("cordoned" if node.unschedulable else "ready"),
        reason=reason,
        cpu_milli=node.cpu,
        memory_bytes=node.memory,
        devices=len(node.devices),
        arch=arch or node.labels.get("kubernetes.io/arch", ""),
        taints=tuple(str(taint) for taint in node.taints),
        agent=agent,
    )


def device_rows(
    node: NodeState,
    placements: Iterable[Placement],
    names: DeviceNames,
    use: Mapping[str, DeviceValues],
    reasons: Mapping[str, str],
) -> list[DeviceRow]:
    """Return the rows of a node's accelerators, with the shares that placements hold of them.

    `use` and `reasons` (why one is not healthy) are by the accelerator's id.
    """
    held: dict[str, list[tuple[Placement, DeviceShare]]] = {device.id: [] for device in node.devices}
    for placement in placements:
        for share in placement.shares:
            if share.device in held:
                held[share.device].append((placement, share))
    return [
        _device_row(node.name, device, held[device.id], names, use.get(device.id, UNMEASURED), reasons)
        for device in node.devices
    ]


def _device_row(
    node: str,
    device: DeviceState,
    held: Sequence[tuple[Placement, DeviceShare]],
    names: DeviceNames,
    use: DeviceValues,
    reasons: Mapping[str, str],
) -> DeviceRow:
    name, kind = names.of(device.model, device.offered)
    shares = tuple(_share(placement, share, device, use) for placement, share in held)
    predicted = [share.predicted_bytes for share in shares if share.predicted_bytes is not None]
    return DeviceRow(
        key=device_key(node, device.id),
        node=node,
        device=device.id,
        model=device.model,
        name=name or device.vendor or device.id,
        kind=kind,
        state="healthy" if device.healthy else "unhealthy",
        reason=reasons.get(device.id, ""),
        memory_bytes=device.memory or None,
        memory_used_bytes=use.memory_used,
        utilisation=use.utilisation,
        power_watts=use.watts,
        temperature_celsius=use.celsius,
        measured=use.at or None,
        requested_bytes=sum(share.requested_bytes for share in shares),
        predicted_bytes=sum(predicted) if predicted else None,
        shares=tuple(sorted(shares, key=lambda share: (share.holder or "", share.name))),
    )


def _share(placement: Placement, share: DeviceShare, device: DeviceState, use: DeviceValues) -> ShareOfDevice:
    request = placement.request
    key = workload_key(request)
    estimate = request.estimates.get(device.model)
    need = request.need.peak if request.need is not None else None
    requested = request.demand.memory
    if share.whole or requested is None:
        requested = share.memory or (device.memory if share.whole else None)
    return ShareOfDevice(
        holder=key,
        name=request.name,
        requested_bytes=requested or 0,
        predicted_bytes=need if need is not None else (estimate.memory if estimate is not None else None),
        measured_bytes=(use.holders or {}).get(key),
        whole=share.whole,
    )


def requested_amounts(request: Request) -> RequestedAmounts:
    """Return what a request asks for."""
    return RequestedAmounts(
        cpu_milli=request.cpu,
        memory_bytes=request.memory,
        accelerator_bytes=request.demand.memory,
        whole=request.whole,
        count=request.demand.count,
    )


def running_row(placement: Placement, since: float | None = None) -> WorkloadRow:
    """Return the row of a pod that is on a node."""
    request = placement.request
    return WorkloadRow(
        key=workload_key(request),
        kind="pod",
        namespace=request.namespace,
        name=request.name,
        state="running",
        since=since,
        node=placement.node,
        devices=tuple(device_key(placement.node, share.device) for share in placement.shares),
        requested=requested_amounts(request),
        priority=request.priority,
        gang=request.gang.name if request.gang else None,
    )


def waiting_row(request: Request, why: str, place: int | None, since: float | None = None) -> WorkloadRow:
    """Return the row of a pod that waits."""
    return WorkloadRow(
        key=workload_key(request),
        kind="pod",
        namespace=request.namespace,
        name=request.name,
        state="waiting",
        since=since,
        requested=requested_amounts(request),
        priority=request.priority,
        gang=request.gang.name if request.gang else None,
        why=why,
        place=place,
    )

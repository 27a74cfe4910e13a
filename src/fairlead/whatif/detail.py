"""Why each single accelerator cannot take a request: decide for each alone, with its current allocation."""

from dataclasses import replace
from typing import Final

from fairlead.placement import DeviceState, NodeState, Placement, reason_text
from fairlead.request import Demand, Request
from fairlead.schedule import DeviceFree, EngineCluster, NodeFree, decide
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.whatif.document import AcceleratorDetail

MOST: Final = 256
"""The most accelerators, or nodes, that are listed one by one; a person reads no more."""
_NODES: Final = "are on nodes that "
"""The beginning of the engine's reasons about the nodes of accelerators."""


def details(state: EngineCluster, request: Request, policy: str) -> list[AcceleratorDetail]:
    """Return the reason against each accelerator; against each node, if the request asks for none."""
    result: list[AcceleratorDetail] = []
    for node in state.nodes():
        free = state.free(node.name)
        left = {device_free.id: device_free for device_free in free.devices}
        for device in node.devices if request.demand.count else (None,):
            if len(result) == MOST:
                return result
            alone = _alone(node, free, device, left[device.id] if device else None)
            result.append(_detail(alone, node, device, request, policy))
    return result


def _detail(
    alone: EngineCluster, node: NodeState, device: DeviceState | None, request: Request, policy: str
) -> AcceleratorDetail:
    identity = (node.name, device.id if device else "", device.model if device else "")
    decision = decide(alone, _one(request), policy)
    if decision.rejections:
        first = decision.rejections[0]
        text = reason_text(first.text.removeprefix(_NODES), 1)
        of_node = first.text.startswith(_NODES)
        return AcceleratorDetail(*identity, first.reason.value, f"its node {text}" if of_node else text)
    several = request.demand.count > 1
    return AcceleratorDetail(
        *identity,
        "",
        "suffices, but too few others on the node do"
        if several
        else "suffices, but inter-pod rules exclude it",
    )


def _alone(
    node: NodeState, free: NodeFree, device: DeviceState | None, left: DeviceFree | None
) -> EngineCluster:
    """Return a cluster of one node and one accelerator, on which one pod holds everything allocated."""
    memory = node.memory - free.memory
    shares: tuple[DeviceShare, ...] = ()
    if device is not None and left is not None and left.holders:
        taken = DeviceShare(device.id, Bytes(device.memory - left.memory), device.compute - left.compute)
        shares = (taken,)
        memory -= taken.memory if device.unified else 0
    held = Request(
        "others", cpu=node.cpu - free.cpu, memory=Bytes(max(0, memory)), demand=Demand(count=len(shares))
    )
    small = replace(node, pods=free.pods + 1, devices=(device,) if device else ())
    return EngineCluster([small], [Placement(held, node.name, shares)])


def _one(request: Request) -> Request:
    """Return the request for one accelerator."""
    return replace(request, gang=None, demand=replace(request.demand, count=min(1, request.demand.count)))

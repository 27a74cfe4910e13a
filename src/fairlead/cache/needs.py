"""What pods count for by their needs, and what processes outside pods hold. Pure.

A pod without a need counts for what it was allocated. A need changes that: a bound pod counts for its
effective size on its accelerator. On a node whose agent does not prepare claims by measured use, claims may
not sum to more than there is; so a pod counts there for its share at least.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fairlead.cache.types import LivePod
from fairlead.keys import BY_USE
from fairlead.manifest.node.holdings import UNPREEMPTABLE
from fairlead.manifest.types.kubernetes import Node
from fairlead.need import Need, NeedSource, effective_size
from fairlead.placement import NodeState, Placement
from fairlead.request import Request
from fairlead.share import DeviceShare
from fairlead.units import Bytes

PendingNeed = Callable[[LivePod, Request], Need | None]
ExtendedPlacement = Callable[[LivePod, Placement], Placement]
NOTHING: Final[Mapping[str, Bytes]] = {}


def prepares_by_use(node: Node | None) -> bool:
    """Say whether a node's agent prepares claims that sum to more than their accelerator has."""
    return node is not None and node.metadata.annotations.get(BY_USE) == "1"


def carried(need: Need | None) -> Need | None:
    """Return the need that a request carries; None where it is the plain request."""
    return None if need is None or (need.source is NeedSource.REQUEST and not need.firm) else need


class NeedCache:
    """The needs of pods, by uid, and foreign use by node; empty where pods are placed by their requests."""

    def __init__(self) -> None:
        self.for_pending: PendingNeed = lambda pod, request: None
        """Returns the need of a pending pod; None: its request decides."""
        self.extend: ExtendedPlacement = lambda pod, placement: placement
        """Returns a new placement with the shares that an elastic pod is offered, and counts those."""
        self.shrinks = False
        """Whether a need may count for less than the share that the pod was allocated."""
        self.bound: dict[str, Need] = {}
        """The needs by which bound pods count."""
        self._foreign: dict[str, Mapping[str, Bytes]] = {}

    def with_need(self, pod: LivePod, request: Request) -> Request:
        """Return the request of a pending pod with its need, where that is not the request."""
        need = carried(self.for_pending(pod, request))
        return request if need is None else replace(request, need=need)

    def keep(self, request: Request) -> None:
        """Count a pod by the need that it is placed with, until its own use is measured."""
        if request.need is not None:
            self.bound[request.id] = request.need

    def count(
        self, placed: Mapping[str, Placement], state: NodeState, node: Node | None
    ) -> dict[str, Placement]:
        """Return the placements on a node with what the pods count for, and with foreign use."""
        if not (self.bound or self._foreign):
            return dict(placed)
        floor = not (self.shrinks and prepares_by_use(node))
        memory = {device.id: device.memory for device in state.devices}
        counted = {uid: self._count(each, memory, floor=floor) for uid, each in placed.items()}
        return counted | self._foreign_use(state)

    def _count(self, placement: Placement, memory: Mapping[str, int], *, floor: bool) -> Placement:
        need = self.bound.get(placement.request.id)
        if need is None:
            return placement
        shares = tuple(
            _counted(share, need, memory.get(share.device), floor=floor) for share in placement.shares
        )
        return replace(placement, request=replace(placement.request, need=need), shares=shares)

    def set_foreign(self, node: str, held: Mapping[str, Bytes]) -> bool:
        """Store what processes outside pods hold on a node, by device; say whether that changed."""
        if self._foreign.get(node, NOTHING) == held:
            return False
        if held:
            self._foreign[node] = dict(held)
        else:
            del self._foreign[node]
        return True

    def foreign_nodes(self) -> list[str]:
        """Return the nodes with foreign use."""
        return list(self._foreign)

    def _foreign_use(self, node: NodeState) -> dict[str, Placement]:
        """Return what processes outside pods hold on a node, as a placement that no pod can preempt."""
        held = self._foreign.get(node.name, NOTHING)
        shares = tuple(DeviceShare(each.id, held[each.id]) for each in node.devices if each.id in held)
        if not shares:
            return {}
        name = f"processes outside pods on {node.name}"
        request = Request(name, uid=name, priority=UNPREEMPTABLE, preempts=False)
        return {name: Placement(request, node.name, shares)}


def _counted(share: DeviceShare, need: Need, memory: int | None, *, floor: bool) -> DeviceShare:
    if share.whole or not memory or (floor and need.peak <= share.memory):
        return share
    size = effective_size(need, memory)
    # The plain request needs no headroom: it is counted as without measurements.
    soft = not need.firm and need.source is not NeedSource.REQUEST
    return replace(share, memory=Bytes(max(size, share.memory) if floor else size), soft=soft)

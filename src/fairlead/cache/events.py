"""What happens in a cluster that may help a request that was refused, and which reasons it helps with."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.compat import StrEnum
from fairlead.placement import Reason, Rejection


class ClusterEvent(StrEnum):
    """Something that happened."""

    NODE = "node"
    """A node came, or is not as it was: room, labels, taints, accelerators."""
    ROOM = "room"
    """A pod or claim is gone: something became free."""
    NEIGHBOUR = "neighbour"
    """A pod was bound: it may be one that others want to be near, or that evens out a spread."""
    MEMBER = "member"
    """A pod came that waits: it may complete a gang."""
    CLAIM = "claim"
    """A claim came or changed."""
    QUOTA = "quota"
    """A quota changed, or a pod that may have counted against one is gone."""
    RULE = "rule"
    """A class, template or group came or changed: pods may read otherwise."""
    BUDGET = "budget"
    """A disruption budget came, went or allows another number of evictions."""


FREED: Final = frozenset({ClusterEvent.ROOM, ClusterEvent.QUOTA})
"""What happens when a pod holds nothing any more."""
_ROOM: Final = frozenset({ClusterEvent.ROOM, ClusterEvent.NODE})
_NODE: Final = frozenset({ClusterEvent.NODE})
HELPS: Final[Mapping[Reason, frozenset[ClusterEvent]]] = {
    Reason.INVALID: frozenset({ClusterEvent.RULE, ClusterEvent.CLAIM}),
    Reason.UNSCHEDULABLE: _NODE,
    Reason.TAINT: _NODE,
    Reason.SELECTOR: _NODE,
    Reason.AFFINITY: _NODE,
    Reason.CPU: _ROOM,
    Reason.MEMORY: _ROOM,
    Reason.PODS: _ROOM,
    Reason.RESOURCE: _ROOM,
    Reason.PORT: _ROOM,
    Reason.NEAR: frozenset({ClusterEvent.NEIGHBOUR, ClusterEvent.NODE}),
    Reason.APART: _ROOM,
    Reason.SPREAD: frozenset({ClusterEvent.NEIGHBOUR, ClusterEvent.ROOM, ClusterEvent.NODE}),
    Reason.NO_DEVICE: _NODE,
    Reason.HEALTH: _NODE,
    Reason.MODEL: _NODE,
    Reason.VENDOR: _NODE,
    Reason.DEVICE_SELECTOR: frozenset({ClusterEvent.RULE, ClusterEvent.CLAIM, ClusterEvent.NODE}),
    Reason.PRECISION: _NODE,
    Reason.ESTIMATE: _NODE,
    Reason.SLO: _NODE,
    Reason.UNSHARED: _NODE,
    Reason.BUSY: _ROOM,
    Reason.DEVICE_MEMORY: _ROOM,
    Reason.DEVICE_COMPUTE: _ROOM,
    Reason.DEVICES: _ROOM,
    Reason.GANG: frozenset({ClusterEvent.MEMBER, ClusterEvent.ROOM, ClusterEvent.NODE}),
    Reason.BUDGET: frozenset({ClusterEvent.BUDGET, ClusterEvent.ROOM, ClusterEvent.NODE}),
    Reason.QUOTA: frozenset({ClusterEvent.QUOTA}),
}


def queueing_hints(rejections: Iterable[Rejection]) -> frozenset[ClusterEvent]:
    """Return what could help a request that was refused for these reasons; a new node always could."""
    return _NODE.union(*(HELPS[each.reason] for each in rejections))

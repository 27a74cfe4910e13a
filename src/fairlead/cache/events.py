"""Cluster events, and the queueing hints: which events may let a rejected request fit."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.compat import StrEnum
from fairlead.placement import Reason, Rejection


class ClusterEvent(StrEnum):
    """A change of the cluster, named as a queueing hint names it."""

    NODE_CHANGED = "NodeChanged"
    """A node was added or changed: allocatable resources, labels, taints, accelerators."""
    POD_DELETED = "PodDeleted"
    """A pod or claim was deleted or deallocated: something became free."""
    POD_BOUND = "PodBound"
    """A pod was bound: others may have affinity to it, or it may even out a topology spread."""
    GANG_MEMBER_ADDED = "GangMemberAdded"
    """A pending pod was added: it may complete a gang."""
    CLAIM_CHANGED = "ClaimChanged"
    """A claim was added or changed."""
    QUOTA_CHANGED = "QuotaChanged"
    """A quota changed, or a pod that may have counted against one was deleted."""
    CLASS_CHANGED = "ClassChanged"
    """A class, template or group was added or changed: pods may read otherwise."""
    BUDGET_CHANGED = "BudgetChanged"
    """A disruption budget was added or deleted, or allows another number of evictions."""


FREED: Final = frozenset({ClusterEvent.POD_DELETED, ClusterEvent.QUOTA_CHANGED})
"""The events of a pod that no longer holds resources."""
_ROOM: Final = frozenset({ClusterEvent.POD_DELETED, ClusterEvent.NODE_CHANGED})
_NODE: Final = frozenset({ClusterEvent.NODE_CHANGED})
HINTS_BY_REASON: Final[Mapping[Reason, frozenset[ClusterEvent]]] = {
    Reason.INVALID: frozenset({ClusterEvent.CLASS_CHANGED, ClusterEvent.CLAIM_CHANGED}),
    Reason.UNSCHEDULABLE: _NODE,
    Reason.TAINT: _NODE,
    Reason.SELECTOR: _NODE,
    Reason.AFFINITY: _NODE,
    Reason.CPU: _ROOM,
    Reason.MEMORY: _ROOM,
    Reason.PODS: _ROOM,
    Reason.RESOURCE: _ROOM,
    Reason.PORT: _ROOM,
    Reason.POD_AFFINITY: frozenset({ClusterEvent.POD_BOUND, ClusterEvent.NODE_CHANGED}),
    Reason.POD_ANTI_AFFINITY: _ROOM,
    Reason.TOPOLOGY_SPREAD: frozenset(
        {ClusterEvent.POD_BOUND, ClusterEvent.POD_DELETED, ClusterEvent.NODE_CHANGED}
    ),
    Reason.NO_DEVICE: _NODE,
    Reason.HEALTH: _NODE,
    Reason.MODEL: _NODE,
    Reason.VENDOR: _NODE,
    Reason.DEVICE_SELECTOR: frozenset(
        {ClusterEvent.CLASS_CHANGED, ClusterEvent.CLAIM_CHANGED, ClusterEvent.NODE_CHANGED}
    ),
    Reason.PRECISION: _NODE,
    Reason.ESTIMATE: _NODE,
    Reason.SLO: _NODE,
    Reason.UNSHARED: _NODE,
    Reason.BUSY: _ROOM,
    Reason.DEVICE_MEMORY: _ROOM,
    Reason.MEMORY_BOUND: _ROOM,
    Reason.DEVICE_COMPUTE: _ROOM,
    Reason.SLOWDOWN: _ROOM,
    Reason.CORRELATION: _ROOM,
    Reason.DEVICES: _ROOM,
    Reason.GANG: frozenset(
        {ClusterEvent.GANG_MEMBER_ADDED, ClusterEvent.POD_DELETED, ClusterEvent.NODE_CHANGED}
    ),
    Reason.BUDGET: frozenset(
        {ClusterEvent.BUDGET_CHANGED, ClusterEvent.POD_DELETED, ClusterEvent.NODE_CHANGED}
    ),
    Reason.QUOTA: frozenset({ClusterEvent.QUOTA_CHANGED}),
}


def queueing_hints(rejections: Iterable[Rejection]) -> frozenset[ClusterEvent]:
    """Return the events that may let a request fit after these rejections; a new node always may."""
    return _NODE.union(*(HINTS_BY_REASON[rejection.reason] for rejection in rejections))

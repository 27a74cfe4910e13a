"""Objects as the scheduler reads them, and their kinds."""

from typing import Any, Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.objects import ContainerExtendedResourceRequest, PodExtendedResourceClaimStatus
from fairlead.keys import PLACEMENT, TURN
from fairlead.manifest import live
from fairlead.manifest.policy_types import BUDGETS
from fairlead.manifest.quotashapes import QUOTAS, ResourceQuota
from fairlead.manifest.seen import (
    DISRUPTION,
    OWN_CLAIM,
    PREEMPTED,
    PREEMPTING,
    SCHEDULED,
    LiveClaim,
    LivePod,
)

__all__ = [
    "BUDGETS",
    "CLAIMS",
    "DISRUPTION",
    "NODES",
    "OWN_CLAIM",
    "PLACEMENT",
    "PODS",
    "PREEMPTED",
    "PREEMPTING",
    "QUOTAS",
    "RULES",
    "SCHEDULED",
    "SLICES",
    "STORAGE",
    "TURN",
    "ContainerExtendedResourceRequest",
    "LiveClaim",
    "LivePod",
    "PodExtendedResourceClaimStatus",
    "ResourceQuota",
]

PODS: Final = live.PODS
CLAIMS: Final = live.CLAIMS
NODES: Final = live.NODES
SLICES: Final[Kind[Any]] = live.SLICES
STORAGE: Final = live.STORAGE
RULES: Final = tuple(kind for kind in live.OPTIONAL if kind not in (SLICES, CLAIMS))
"""Kinds that say how pods are to be read: classes, templates, groups."""

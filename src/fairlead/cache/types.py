"""The objects that the scheduler reads, and their kinds."""

from typing import Any, Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.objects import ContainerExtendedResourceRequest, PodExtendedResourceClaimStatus
from fairlead.keys import LEADER_EPOCH, PLACEMENT
from fairlead.manifest import listing
from fairlead.manifest.types.live import (
    DISRUPTION,
    EVICTING,
    EXTENDED_RESOURCE_CLAIM,
    FULL,
    PREEMPTED,
    PREEMPTING,
    SCHEDULED,
    LiveClaim,
    LivePod,
)
from fairlead.manifest.types.policy import BUDGETS
from fairlead.manifest.types.quota import QUOTAS, ResourceQuota

__all__ = [
    "BUDGETS",
    "CLAIMS",
    "DISRUPTION",
    "EVICTING",
    "EXTENDED_RESOURCE_CLAIM",
    "FULL",
    "LEADER_EPOCH",
    "NODES",
    "PLACEMENT",
    "PODS",
    "PREEMPTED",
    "PREEMPTING",
    "QUOTAS",
    "RULES",
    "SCHEDULED",
    "SLICES",
    "STORAGE",
    "ContainerExtendedResourceRequest",
    "LiveClaim",
    "LivePod",
    "PodExtendedResourceClaimStatus",
    "ResourceQuota",
]

PODS: Final = listing.PODS
CLAIMS: Final = listing.CLAIMS
NODES: Final = listing.NODES
SLICES: Final[Kind[Any]] = listing.SLICES
STORAGE: Final = listing.STORAGE
RULES: Final = tuple(kind for kind in listing.OPTIONAL if kind not in (SLICES, CLAIMS))
"""The kinds that pods refer to: classes, templates, groups."""

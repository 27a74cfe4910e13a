"""Decide where work goes: pure code over columns, for a live cluster, one machine and a simulation alike."""

from fairlead.schedule.change import explained, smallest_changes
from fairlead.schedule.cluster import DeviceFree, EngineCluster, NodeFree
from fairlead.schedule.decide import decide, place
from fairlead.schedule.gang import place_gang
from fairlead.schedule.mix import DemandMix, RequestKind, typical
from fairlead.schedule.policies import POLICIES, Policy, policy_named, policy_names
from fairlead.schedule.preempt import preempt, victims
from fairlead.schedule.queue import place_all

__all__ = [
    "POLICIES",
    "DemandMix",
    "DeviceFree",
    "EngineCluster",
    "NodeFree",
    "Policy",
    "RequestKind",
    "decide",
    "explained",
    "place",
    "place_all",
    "place_gang",
    "policy_named",
    "policy_names",
    "preempt",
    "smallest_changes",
    "typical",
    "victims",
]

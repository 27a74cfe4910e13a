"""Decide where work goes: pure code over columns, for a live cluster, one machine and a simulation alike."""

from fairlead.schedule.decision.decide import decide, place
from fairlead.schedule.decision.gang import place_gang
from fairlead.schedule.decision.preempt import preempt, victims
from fairlead.schedule.decision.queue import place_all
from fairlead.schedule.explain.suggest import explained, smallest_changes
from fairlead.schedule.score.mix import DemandMix, RequestKind, typical
from fairlead.schedule.score.policies import POLICIES, Policy, policy_named, policy_names
from fairlead.schedule.state.cluster import DeviceFree, EngineCluster, NodeFree

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

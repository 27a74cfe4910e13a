"""The scheduling engine: pure code over columns, shared by live clusters, single machines and simulations."""

from fairlead.schedule.decision.decide import decide, place
from fairlead.schedule.decision.gang import place_gang
from fairlead.schedule.decision.preempt import preempt, select_victims
from fairlead.schedule.decision.queue import place_all
from fairlead.schedule.explain.suggest import suggest_changes, with_suggestions
from fairlead.schedule.score.adapt import learn
from fairlead.schedule.score.mix import DemandMix, RequestKind, typical_demand
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
    "learn",
    "place",
    "place_all",
    "place_gang",
    "policy_named",
    "policy_names",
    "preempt",
    "select_victims",
    "suggest_changes",
    "typical_demand",
    "with_suggestions",
]

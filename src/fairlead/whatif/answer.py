"""Decide for every workload of a query; the cluster does not change."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import Decision, SuggestedChange
from fairlead.request import Request
from fairlead.schedule import EngineCluster, place_all, with_suggestions
from fairlead.whatif.detail import details
from fairlead.whatif.document import DecisionDocument


def answer(
    snapshot: Snapshot,
    requests: Sequence[Request],
    policy: str,
    *,
    preemption: bool = True,
    detailed: bool = False,
) -> DecisionDocument:
    """Return every decision, in the order of the requests; refusals carry suggested changes."""
    state = EngineCluster(snapshot.nodes, snapshot.placements)
    state.limit_disruptions(snapshot.budgets)
    return decision_document(
        state, place_all(state, requests, policy, preemption=preemption), policy, detailed=detailed
    )


def decision_document(
    state: EngineCluster, decisions: Sequence[Decision], policy: str, *, detailed: bool = False
) -> DecisionDocument:
    """Return the document of decisions made on a cluster; refusals carry suggested changes."""
    decided = _with_changes(state, decisions, policy)
    refused = [decision.request for decision in decided if not decision.placed] if detailed else []
    return DecisionDocument(
        policy,
        decided,
        state.nodes(),
        {decision.id: details(state, decision, policy) for decision in refused},
    )


def _with_changes(state: EngineCluster, decisions: Sequence[Decision], policy: str) -> list[Decision]:
    """Search for changes once per shape: what helps one replica helps the others."""
    changes_by_shape: dict[Hashable, tuple[SuggestedChange, ...]] = {}
    completed = []
    for decision in decisions:
        key = (decision.request.shape, decision.rejections)
        if not decision.placed and key not in changes_by_shape:
            changes_by_shape[key] = with_suggestions(state, decision, policy).changes
        completed.append(decision if decision.placed else replace(decision, changes=changes_by_shape[key]))
    return completed

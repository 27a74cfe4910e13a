"""Decide for one pending pod of a live cluster, with its gang, as if no other pod were pending."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.listed_cluster import ListedCluster
from fairlead.cache.nominations import Nomination
from fairlead.catalog import Catalog
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.types.live import LivePod
from fairlead.placement import Decision
from fairlead.request import LabelTerm, MatchOperator, Request, Selector
from fairlead.schedule import place, place_all
from fairlead.whatif.answer import decision_document

POLICY: Final = "fairlead"


def decide_locally(
    objects: FoundObjects, catalog: Catalog, pod: LivePod, *, detailed: bool = False
) -> dict[str, Any]:
    """Return the decision for a pod; for a pod that cannot be read, the error is the reason."""
    listed = ListedCluster.of(objects, catalog)
    cache, pending = listed.cache, listed.snapshot.pending
    request = next((other for other in pending if other.id == pod.metadata.uid), None)
    if request is None:
        return _unreadable(pod, listed)
    members = [other for other in pending if other.id == request.id or _together(other, request)]
    _reserve(
        cache, [other for other in pending if other not in members and other.priority >= request.priority]
    )
    cache.cluster.limit_disruptions(cache.disruptions.budgets)
    leaving = {uid: placed.node for uid in cache.leaving() if (placed := cache.cluster.placement(uid))}
    decisions = cache.quotas.decide_within_quota(members, POLICY, partial(_place, cache, leaving))
    documents = decision_document(cache.cluster, decisions, POLICY, detailed=detailed).to_json()["decisions"]
    document: dict[str, Any] = documents[members.index(request)]
    released = [uid for uid, node in leaving.items() if cache.cluster.placement(uid) is None]
    return {
        **document,
        "pending_victims": _names(cache, [uid for uid in released if leaving[uid] == document["node"]]),
    }


def _place(cache: SchedulerCache, leaving: Iterable[str], members: Sequence[Request]) -> list[Decision]:
    """Place the pods; if necessary, where pods are terminating, or else with preemption."""
    cluster = cache.cluster
    for released in ((), leaving):
        mark = cluster.checkpoint()
        for uid in released:
            cluster.release(uid)
        decisions = place_all(cluster, members, POLICY, preemption=bool(released))
        if all(decision.placed for decision in decisions):
            cluster.commit(mark)
            return decisions
        cluster.rollback(mark)
    return place_all(cluster, members, POLICY)


def _reserve(cache: SchedulerCache, others: Iterable[Request]) -> None:
    """Reserve places for pods that have victims, on the nodes that they are nominated to."""
    cluster = cache.cluster
    for request in others:
        pod = cache.pod(request.id)
        node = pod.status.nominated_node_name if pod is not None else ""
        if cluster.node(node) is None:
            continue
        mark = cluster.checkpoint()
        for uid in cache.leaving():
            cluster.release(uid)
        names = (*request.selector.names, LabelTerm("metadata.name", MatchOperator.IN, (node,)))
        pinned = replace(request, gang=None, selector=Selector(request.selector.terms, names))
        placement = place(cluster, pinned, POLICY).placement
        cluster.rollback(mark)
        if placement is not None:
            cache.nominations.reserve(Nomination(replace(placement, request=request)))


def _names(cache: SchedulerCache, uids: Iterable[str]) -> list[str]:
    return sorted("/".join(pod.key) for pod in map(cache.pod, uids) if pod is not None)


def _together(one: Request, other: Request) -> bool:
    return one.gang is not None and one.gang == other.gang and one.namespace == other.namespace


def _unreadable(pod: LivePod, listed: ListedCluster) -> dict[str, Any]:
    reasons = [failure.reason for failure in listed.unreadable if failure.id == pod.metadata.uid]
    blank = Decision(Request(pod.metadata.name, pod.metadata.namespace), POLICY).to_json()
    return {**blank, "sentence": reasons[0] if reasons else f"{pod.metadata.name} is no longer pending"}

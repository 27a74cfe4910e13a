"""Decide for one waiting pod of a live cluster, with its gang, as its scheduler would; no other pod waits."""

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
    """Return the decision for a pod; one that cannot be read has that as its reason."""
    listed = ListedCluster.of(objects, catalog)
    cache, pending = listed.cache, listed.snapshot.pending
    asked = next((each for each in pending if each.id == pod.metadata.uid), None)
    if asked is None:
        return _unreadable(pod, listed)
    members = [each for each in pending if each.id == asked.id or _together(each, asked)]
    _reserve(cache, [each for each in pending if each not in members and each.priority >= asked.priority])
    cache.cluster.limit_disruptions(cache.disruptions.budgets)
    leaving = {uid: placed.node for uid in cache.leaving() if (placed := cache.cluster.placement(uid))}
    decisions = cache.quotas.decided(members, POLICY, partial(_place, cache, leaving))
    own = decision_document(cache.cluster, decisions, POLICY, detailed=detailed).to_json()["decisions"]
    found: dict[str, Any] = own[members.index(asked)]
    gone = [uid for uid, node in leaving.items() if cache.cluster.placement(uid) is None]
    return {**found, "pending_victims": _names(cache, [uid for uid in gone if leaving[uid] == found["node"]])}


def _place(cache: SchedulerCache, leaving: Iterable[str], members: Sequence[Request]) -> list[Decision]:
    """Place the pods, if need be where others are leaving, or else where others must go."""
    cluster = cache.cluster
    for released in ((), leaving):
        mark = cluster.checkpoint()
        for uid in released:
            cluster.release(uid)
        found = place_all(cluster, members, POLICY, preemption=bool(released))
        if all(each.placed for each in found):
            cluster.commit(mark)
            return found
        cluster.rollback(mark)
    return place_all(cluster, members, POLICY)


def _reserve(cache: SchedulerCache, others: Iterable[Request]) -> None:
    """Count the places of pods that others were evicted for, on the nodes that they are nominated to."""
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
        there = replace(request, gang=None, selector=Selector(request.selector.terms, names))
        placement = place(cluster, there, POLICY).placement
        cluster.rollback(mark)
        if placement is not None:
            cache.nominations.reserve(Nomination(replace(placement, request=request)))


def _names(cache: SchedulerCache, uids: Iterable[str]) -> list[str]:
    return sorted("/".join(pod.key) for pod in map(cache.pod, uids) if pod is not None)


def _together(one: Request, other: Request) -> bool:
    return one.gang is not None and one.gang == other.gang and one.namespace == other.namespace


def _unreadable(pod: LivePod, listed: ListedCluster) -> dict[str, Any]:
    why = [each.reason for each in listed.unreadable if each.id == pod.metadata.uid]
    none = Decision(Request(pod.metadata.name, pod.metadata.namespace), POLICY).to_json()
    return {**none, "sentence": why[0] if why else f"{pod.metadata.name} waits no more"}

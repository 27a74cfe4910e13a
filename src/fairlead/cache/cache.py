"""The scheduler's cache: objects of the API server in, placements and pending requests out.

    on_event(change) ... on_event(change) -> sync() -> the cluster is as a list of all objects would make it

Beside the objects it keeps only assumed pods: placements that no watch has shown yet.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlead.cache.claim_index import ClaimIndex
from fairlead.cache.claims import ClaimCache
from fairlead.cache.delta import CacheDelta, PendingPod
from fairlead.cache.disruptions import DisruptionCache
from fairlead.cache.events import FREED, ClusterEvent
from fairlead.cache.latency import names_model
from fairlead.cache.leader_marks import LeaderMarks
from fairlead.cache.needs import NeedCache
from fairlead.cache.nodes import NodeCache
from fairlead.cache.nominations import Nominations
from fairlead.cache.origin import LIVE, ObjectOrigin
from fairlead.cache.pod_changes import in_flight_request, is_as_assumed, is_unchanged, node_of, seen_as
from fairlead.cache.quota import QuotaCache
from fairlead.cache.translator import PodTranslator, UnreadablePod, affected_pods
from fairlead.cache.types import LiveClaim, LivePod, ResourceQuota
from fairlead.cache.unobserved import UnobservedAllocations
from fairlead.cache.volumes import VolumeCache
from fairlead.catalog import Catalog
from fairlead.cluster.meta import Object
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ManifestError
from fairlead.manifest.node.holdings import BoundPod, claim_id, node_report, placements
from fairlead.manifest.pod.claim_names import claims_named
from fairlead.manifest.types.dra import Slice
from fairlead.manifest.types.kubernetes import Node, PodGroup
from fairlead.manifest.types.policy import PodDisruptionBudget
from fairlead.manifest.types.storage import StorageClass, Volume, VolumeClaim
from fairlead.modelprofiles.types import ModelProfile
from fairlead.placement import Placement
from fairlead.schedule import EngineCluster


class SchedulerCache:
    """Objects, indexed by node, and the engine's cluster that follows from them."""

    def __init__(
        self, catalog: Catalog, scheduler: str | None = "fairlead", origin: ObjectOrigin = LIVE
    ) -> None:
        self.cluster = EngineCluster()
        self.leader_marks = LeaderMarks()
        self._translator = PodTranslator(catalog, origin)
        self._nodes = NodeCache(catalog, origin)
        self.read_errors: Mapping[str, ManifestError] = self._nodes.unreadable
        """Nodes that cannot be read, and why."""
        self.unreadable: Mapping[str, UnreadablePod] = self._translator.unreadable
        """Bound pods that are counted from their spec alone, by uid, and why."""
        self._scheduler = scheduler
        self._pods: dict[str, LivePod] = {}
        self._on: dict[str, set[str]] = {}
        self._claims = ClaimCache()
        self._assumed: dict[str, Placement] = {}
        self._assumed_on: dict[str, set[str]] = {}
        self._in_flight: set[str] = set()
        """Assumed pods with writes in flight: whatever becomes of the pod, these may still take effect."""
        self.unobserved = UnobservedAllocations()
        self._orphaned: dict[str, LivePod] = {}
        """Pods that were deleted since the last `sync`, before the cache observed their claims."""
        self._waiting: set[str] = set()
        self._claim_index = ClaimIndex()
        self.volumes = VolumeCache(origin)
        self.quotas = QuotaCache(self.cluster, self.pod)
        self.waiting_for_volumes: dict[str, frozenset[str]] = {}
        """By pod with a reserved place: the pods, itself among them, whose volumes it waits for."""
        self.needs = NeedCache()
        self.nominations = Nominations(self.cluster)
        self.disruptions = DisruptionCache()
        self._stale_nodes: set[str] = set()
        """Nodes whose placements may differ from the engine's."""
        self._stale_pods: set[str] = set()
        """Pending pods to be read again."""
        self._events: set[ClusterEvent] = set()
        self._gone: set[str] = set()
        self._handlers = self._handlers_by_kind()

    def _handlers_by_kind(self) -> Mapping[type[Object], Callable[[ObjectChange[Any]], None]]:
        return {
            Node: self._nodes.on_node,
            Slice: self._nodes.on_slice,
            LivePod: self._on_pod,
            LiveClaim: self._on_claim,
            ModelProfile: self._on_profile,
            PodDisruptionBudget: self._on_budget,
            ResourceQuota: self._on_quota,
            **dict.fromkeys((VolumeClaim, Volume, StorageClass), self._on_volume),
        }

    def on_event(self, change: ObjectChange[Any]) -> None:
        """Store a change; `sync` computes what follows from it."""
        self._handlers.get(type(change.object), self._on_rule)(change)

    def sync(self) -> CacheDelta:
        """Bring the engine's cluster up to date, and return what changed for pending pods."""
        if vacated := self.nominations.take_vacated():
            self._stale_nodes |= vacated
            self._events.add(ClusterEvent.POD_DELETED)
        if self._update_nodes() and self._translator.set_device_sizes(self.cluster.nodes()):
            self._stale_pods |= self._waiting
            self._stale_nodes |= set(self._on)
        nodes = frozenset(self._stale_nodes)
        self._update_placements()
        pending = tuple(self._translate_waiting())
        orphaned = tuple(self._orphaned.items())
        delta = CacheDelta(pending, tuple(sorted(self._gone)), frozenset(self._events), nodes, orphaned)
        self._gone, self._events, self._orphaned = set(), set(), {}
        return delta

    def pod(self, uid: str) -> LivePod | None:
        """Return a pod as last seen."""
        return self._pods.get(uid)

    def node(self, name: str) -> Node | None:
        """Return a node as last seen."""
        return self._nodes.node(name)

    def pods_on(self, name: str) -> list[LivePod]:
        """Return the pods that are bound to a node, and those that are assumed there."""
        uids = (*self._on.get(name, ()), *self._assumed_on.get(name, ()))
        return [self._pods[uid] for uid in uids if uid in self._pods]

    def read(self, pod: LivePod) -> PendingPod:
        """Return a pod as a request, whichever scheduler it names."""
        pending = self._translator.translate_pending(pod, self.claims_of(pod))
        return pending if isinstance(pending, UnreadablePod) else self.needs.with_need(pod, pending)

    def waits(self, uid: str) -> bool:
        """Say whether a pod is pending, and is not assumed."""
        return uid in self._waiting

    def recount(self, pods: Iterable[str], nodes: Iterable[str]) -> None:
        """Read these pending pods again, and count what pods hold on these nodes: needs have changed."""
        self._stale_pods |= self._waiting.intersection(pods)
        if names := set(nodes):
            self._stale_nodes |= names
            self._events.add(ClusterEvent.POD_DELETED)

    def has_bound_pods(self) -> bool:
        """Say whether a bound pod names this scheduler."""
        return any(
            pod.spec.node_name and pod.spec.scheduler_name == self._scheduler for pod in self._pods.values()
        )

    def claim(self, namespace: str, name: str) -> LiveClaim | None:
        """Return a claim as last seen."""
        return self._claims.get((namespace, name))

    def has_seen(self, item: LivePod | LiveClaim) -> bool:
        """Say whether the cache holds this version of a pod or claim, or a newer one."""
        is_pod = isinstance(item, LivePod)
        return seen_as(self._pods.get(item.metadata.uid) if is_pod else self._claims.get(item.key), item)

    def claims_of(self, pod: LivePod) -> dict[str, LiveClaim]:
        """Return the claims that a pod names and that exist, by the pod's name for them."""
        return self._claims.of(pod)

    def group_of(self, pod: LivePod) -> PodGroup | None:
        """Return the PodGroup of a pod; None where it has none."""
        return self._translator.group(pod)

    def assume(self, placements_made: Iterable[Placement]) -> None:
        """Assume that pods are bound until the API server shows the result; the engine has bound them."""
        for placement in placements_made:
            self._assumed[uid := placement.request.id] = placement
            self.needs.keep(placement.request)
            self._assumed_on.setdefault(placement.node, set()).add(uid)
            self._in_flight.add(uid)
            self._waiting.discard(uid)
            self._claim_index.drop(uid)

    def finish_binding(self, uid: str) -> None:
        """Record that a binding succeeded; the pod stays assumed until a watch shows it bound, or deleted."""
        self._in_flight.discard(uid)
        pod = self._pods.get(uid)
        if pod is None or pod.ended:
            self.unobserved.drop(uid)
            self._end_assumption(uid)

    def wait_for_volumes(self, uids: Iterable[str]) -> None:
        """Reserve assumed places until a volume of one of the pods changes: then all are decided again."""
        together = frozenset(uids)
        self._in_flight -= together
        self.waiting_for_volumes |= dict.fromkeys(together, together)

    def requeue_waiting_for_volumes(self, uid: str) -> None:
        """Requeue every gang member whose reservation was made with this pod's."""
        for member in self.waiting_for_volumes.get(uid, ()):
            self.forget(member)

    def forget(self, uid: str) -> None:
        """End the assumption of a pod whose binding failed; a pod that is still pending is read again."""
        self.waiting_for_volumes.pop(uid, None)
        self._in_flight.discard(uid)
        self.unobserved.drop(uid)
        if self._end_assumption(uid):
            self._events |= FREED
        self._requeue(uid)

    def leaving(self) -> set[str]:
        """Return the ids of placements that end soon: pods being deleted, and claims of deleted pods."""
        leaving = self.disruptions.leaving.union(map(claim_id, self._claims.orphaned(self._pods)))
        return {uid for uid in leaving if self.cluster.placement(uid) is not None}

    @property
    def being_bound(self) -> set[str]:
        """The ids of assumed pods that are being bound: the API server does not show it yet."""
        return self._assumed.keys() - self.waiting_for_volumes.keys()

    def _on_budget(self, change: ObjectChange[PodDisruptionBudget]) -> None:
        self.disruptions.on_budget(change)
        self._events.add(ClusterEvent.BUDGET_CHANGED)

    # Event handlers

    def _on_pod(self, change: ObjectChange[LivePod]) -> None:
        uid = change.object.metadata.uid
        before, now = self._pods.pop(uid, None), change.new
        if now is not None:
            self._pods[uid] = now
            if before is not None and is_unchanged(before, now):
                return
        was, node = node_of(before), node_of(now)
        self.disruptions.on_pod(uid, now)
        assumed = self._assumed.get(uid)
        if is_as_assumed(before, now, assumed):
            self._observe_assumed(uid, node)
        else:
            self._translator.drop(uid)
            self._move(uid, was, node)
            self._nodes.on_pod(uid, was, node, now)
            self._check_assumption(uid, node, alive=now is not None and not now.ended)
            self._count_unobserved(uid, was, node, change.object)
        if was != node:
            self._events |= FREED if was else {ClusterEvent.POD_BOUND}
        self._requeue(uid)

    def _observe_assumed(self, uid: str, node: str) -> None:
        """Turn an assumed pod into a bound one; the engine's cluster does not change."""
        del self._assumed[uid]
        self._assumed_on[node].discard(uid)
        self._on.setdefault(node, set()).add(uid)

    def _move(self, uid: str, was: str, node: str) -> None:
        self._stale_nodes |= {was, node} - {""}
        if was:
            self._on[was].discard(uid)
        if node:
            self._on.setdefault(node, set()).add(uid)

    def _check_assumption(self, uid: str, node: str, *, alive: bool) -> None:
        """End an assumption that a watch confirmed, or refuted after its writes ended."""
        assumed = self._assumed.get(uid)
        if assumed is None:
            return
        self._stale_nodes.add(assumed.node)
        if node == assumed.node or (uid not in self._in_flight and (node or not alive)):
            self._end_assumption(uid)

    def _count_unobserved(self, uid: str, was: str, node: str, pod: LivePod) -> None:
        """Assume that a deleted pod still holds its devices, where its claims are not observed yet."""
        placement = self.unobserved.of(uid)
        if placement is not None and was and not node and uid not in self._in_flight:
            self.assume([placement])
            self._orphaned[uid] = pod

    def _end_assumption(self, uid: str) -> bool:
        placement = self._assumed.pop(uid, None)
        if placement is not None:
            self._assumed_on[placement.node].discard(uid)
            self._stale_nodes.add(placement.node)
        return placement is not None

    def _on_claim(self, change: ObjectChange[LiveClaim]) -> None:
        before, after = self._claims.on_event(change)
        now = change.new
        if now is not None and now.results:
            self._observed(self.unobserved.observe(change.key))
        self._stale_nodes |= before | after
        if before - after:
            self._events.add(ClusterEvent.POD_DELETED)
        if now is None or not now.made_by_scheduler:
            # Pods that name the claim are read again: the claim itself may not name the pod.
            self._stale_pods |= self._claim_index.of(change.key)
            self._events.add(ClusterEvent.CLAIM_CHANGED)

    def _observed(self, uid: str) -> None:
        """End the assumption of a deleted pod: its claim counts from now on."""
        if uid and node_of(self._pods.get(uid)) == "" and self._orphaned.pop(uid, None) is not None:
            self._in_flight.discard(uid)
            self._end_assumption(uid)

    def _on_rule(self, change: ObjectChange[Any]) -> None:
        if self._translator.on_rule(change):
            self._stale_pods |= affected_pods(change, (self._pods[uid] for uid in self._waiting))
            self._events.add(ClusterEvent.CLASS_CHANGED)

    def _on_profile(self, change: ObjectChange[ModelProfile]) -> None:
        if self._translator.on_profile(change):
            self._stale_pods |= {uid for uid in self._waiting if names_model(self._pods[uid])}
            self._events.add(ClusterEvent.CLASS_CHANGED)

    def _on_quota(self, change: ObjectChange[ResourceQuota]) -> None:
        self.quotas.on_event(change)
        self._events.add(ClusterEvent.QUOTA_CHANGED)

    def _on_volume(self, change: ObjectChange[Any]) -> None:
        for uid in self.volumes.on_event(change):
            self.requeue_waiting_for_volumes(uid)
            if uid in self._waiting:
                self._stale_pods.add(uid)
        self._events.add(ClusterEvent.CLAIM_CHANGED)

    def _requeue(self, uid: str) -> None:
        """Add a pod to the pending pods, or remove it from them."""
        pod = self._pods.get(uid)
        waits = pod is not None and pod.waits_for(self._scheduler)
        self.volumes.index_pod(uid, pod if waits else None)
        if not waits and uid in self.waiting_for_volumes:
            self._gone.add(uid)
            self.requeue_waiting_for_volumes(uid)
        if not waits:
            self.nominations.give_up(uid)
        if pod is not None and waits and uid not in self._assumed:
            self.leader_marks.on_pod(pod)
            if uid not in self._waiting:
                self._events.add(ClusterEvent.GANG_MEMBER_ADDED)
            self._waiting.add(uid)
            self._claim_index.put(uid, claims_named(pod).values())
            self._stale_pods.add(uid)
            self._gone.discard(uid)
        elif uid in self._waiting:
            self._waiting.discard(uid)
            self._claim_index.drop(uid)
            self._stale_pods.discard(uid)
            self._gone.add(uid)

    # Sync

    def _update_nodes(self) -> bool:
        """Update the engine's nodes; say whether any changed."""
        changed = False
        for name, state in self._nodes.changed():
            before = self.cluster.node(name)
            changed |= state != before
            if state is None and before is not None:
                self.cluster.remove(name)
            elif state is not None and state != before:
                self.cluster.put(state)
                self._events.add(ClusterEvent.NODE_CHANGED)
            self._stale_nodes.add(name)
        return changed

    def _update_placements(self) -> None:
        """Update the placements on stale nodes; release first, for a pod may have moved to another node."""
        known = [name for name in sorted(self._stale_nodes) if self.cluster.node(name) is not None]
        wanted = {name: self._placements_on(name) for name in known}
        for name, on_node in wanted.items():
            for placed in self.cluster.placed_on(self.cluster.row(name)):
                if on_node.get(placed.request.id) != placed:
                    self.cluster.release(placed.request.id)
        for name in known:
            for identity, placement in wanted[name].items():
                if self.cluster.placement(identity) is None:
                    self.cluster.bind(placement, strict=False)
        self._stale_nodes.clear()

    def _placements_on(self, name: str) -> dict[str, Placement]:
        state = self.cluster.node(name)
        assert state is not None, "the caller passes known nodes"
        pods = [self._pods[uid] for uid in self._on.get(name, ())]
        bound = [BoundPod(self._translator.translate_bound(pod, self.claims_of(pod)), pod) for pod in pods]
        reserved = [self._assumed[uid] for uid in self._assumed_on.get(name, ())]
        reserved += self.nominations.on(name)
        assumed = [
            BoundPod(in_flight_request(each.request, self._pods.get(each.request.id)), assumed=each.shares)
            for each in reserved
        ]
        node = self._nodes.node(name)
        reported, claims = node_report(node, state.devices), self._claims.on(name)
        placed = placements(state, [*bound, *assumed], claims, reported, self._translator.admitted)
        return self.needs.count(placed, state, node)

    def _translate_waiting(self) -> Iterable[PendingPod]:
        for uid in sorted(self._stale_pods & self._waiting):
            pod = self._pods[uid]
            pending = self.read(pod)
            if pod.spec.volumes and not isinstance(pending, UnreadablePod):
                pending = self.volumes.with_volumes(pod, pending, self._nodes.knows)
            yield pending
        self._stale_pods.clear()

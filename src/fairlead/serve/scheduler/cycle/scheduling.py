"""The scheduling cycle: apply what changed, find a place for the next pod, and plan its binding. Pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.delta import CacheDelta
from fairlead.cache.events import ClusterEvent, queueing_hints
from fairlead.cache.needs import prepares_by_use
from fairlead.cache.nominations import Nomination
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import LiveClaim, LivePod
from fairlead.cache.volumes import VolumeBinding
from fairlead.manifest.types.storage import VolumeClaim
from fairlead.placement import Decision, Placement, Reason
from fairlead.request import Request
from fairlead.schedule import Policy, learn, place, place_gang
from fairlead.schedule.filter.hints import resource_fit_hint
from fairlead.serve.scheduler.bind.allocation_mode import reason_for_claim
from fairlead.serve.scheduler.bind.writes import (
    BindingPlan,
    claim_name,
    is_allocated_only_for,
    request_mappings,
)
from fairlead.serve.scheduler.cycle.preemption import PATIENCE, Preemption, Preemptions, names_budget
from fairlead.serve.scheduler.cycle.queue import FitHint, SchedulingQueue
from fairlead.serve.scheduler.report.conditions import StatusReporter, waits_for
from fairlead.serve.scheduler.report.metrics import SchedulerMetrics

_SILENT_SECONDS: Final = 1.0
"""Seconds for which nothing is reported of a new pod: its claim, or a place for it, may be on its way."""
VOLUMES_WITHIN: Final = 600.0
"""Seconds for which a pod that waits for its volumes keeps its place, as in kube-scheduler."""
_MAX_CHECKED_NODES: Final = 64
"""Where something changed on more nodes than this, they are not checked one by one."""


@dataclass(frozen=True, slots=True)
class LastDecision:
    """The last decision for a pending pod, and when it was made."""

    decision: Decision
    at: float


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one scheduling cycle leads to."""

    plans: tuple[BindingPlan, ...] = ()
    """Placements to be written; their pods are placed together."""
    preemptions: tuple[Preemption, ...] = ()
    volumes: tuple[tuple[str, VolumeBinding], ...] = ()
    """Volumes to be bound, each with the id of its pod, which has a node now."""
    stranded: tuple[tuple[LivePod, LiveClaim], ...] = ()
    """Claims that are allocated for one pod alone, which does not fit where they are."""


class SchedulingCycle:
    """Decides for pending pods, one group at a time."""

    def __init__(
        self, cache: SchedulerCache, queue: SchedulingQueue, policy: Policy, *, own_claims: bool
    ) -> None:
        self.cache = cache
        self.queue = queue
        self.reporter = StatusReporter()
        self.metrics = SchedulerMetrics()
        self.runs = 0
        """Cycles in which something was decided."""
        self.policy = policy
        self.last_decisions: dict[str, LastDecision] = {}
        """The last decision, by id, of every pod that is pending or is being bound."""
        self.unreadable: set[str] = set()
        """Pending pods that cannot be placed as they are written."""
        self.own_claims = own_claims
        self.by_use = bool(policy.telemetry)
        """Whether the policy places by measured use."""
        self._first_seen: dict[str, float] = {}
        self._refused: dict[Hashable, Decision] = {}
        """The refusals in one state of the cluster, by shape."""
        self._refused_at = -1
        self._freed: frozenset[str] = frozenset()
        """Nodes on which something became free, and on which not every waiting pod was tried yet."""
        self.preemptions = Preemptions(cache, policy)
        self._preemptors: set[str] = set()
        """Pods that are being bound to a place that preemption reserved for them."""
        self._volume_deadlines: dict[str, float] = {}
        """When each pod that waits for its volumes loses its place."""

    def refresh(self, now: float) -> CacheDelta:
        """Apply what changed in the cache to the queue."""
        self._expire_volume_waits(now)
        delta = self.cache.sync()
        for uid in delta.gone:
            self._drop(uid)
        for pod in delta.pending:
            self._first_seen.setdefault(pod.id, now)
            if self._volume_deadlines.pop(pod.id, None) is not None:
                self.reporter.drop(pod.id)  # its wait for volumes is over
            if isinstance(pod, UnreadablePod):
                self._refuse_unreadable(pod)
            else:
                self.unreadable.discard(pod.id)
                self._enqueue(pod, now)
        if self.cache.nominations:
            for uid in sorted(self.preemptions.due_preemptors(now)):
                self.queue.activate(uid)
        if delta.events:
            self._freed = delta.nodes | (self._freed if self.queue.has_active else frozenset())
            self.queue.move_to_active(delta.events, self._fit_hint(self._freed))
        if not self.queue.has_active:  # it may take a moment
            learn(self.cache.cluster, self.policy)
        return delta

    def run(self, now: float) -> CycleResult:
        """Find places for the next group in the queue."""
        members = self.queue.pop()
        if not members:
            return CycleResult()
        self.runs += 1
        nominations = self.cache.nominations
        withdrawn = [each for one in members if (each := nominations.withdraw(one.id)) is not None]
        decisions = self.cache.quotas.decide_within_quota(members, self.policy.name, self._decide)
        self.last_decisions |= {each.request.id: LastDecision(each, now) for each in decisions}
        placed = [self._extend(each) for each in decisions if each.placement is not None]
        refused = [each for each in decisions if each.placement is None]
        self.cache.assume(each.placement for each in placed if each.placement is not None)
        volumes: list[tuple[str, VolumeBinding]] = []
        if any(self._without_volume(each.request.id) for each in placed):
            volumes = self._wait_for_volumes(placed, now)
            placed = []
        self._preemptors |= {each.placement.request.id for each in withdrawn}
        preemption: Preemption | None = None
        if refused:
            refused, preemption = self._preempt(refused, now, nominated=bool(withdrawn))
            self._add_unschedulable(refused, now)
        self._vacate(withdrawn)
        return CycleResult(
            tuple(map(self._plan_binding, placed)),
            (preemption,) if preemption is not None else (),
            tuple(volumes),
            self.stranded(each.request.id for each in refused),
        )

    def stranded(self, uids: Iterable[str]) -> tuple[tuple[LivePod, LiveClaim], ...]:
        """Return the claims that are allocated for one of these pods alone, while the pod has no place.

        A leader allocated them and stopped before it bound the pod; without them the pod may fit elsewhere.
        """
        pods = [pod for uid in uids if self.cache.waits(uid) and (pod := self.cache.pod(uid)) is not None]
        named = ((pod, claim) for pod in pods for claim in self.cache.claims_of(pod).values())
        return tuple((pod, claim) for pod, claim in named if is_allocated_only_for(claim, pod))

    def pending_victims(self, uid: str) -> list[str]:
        """Return the pods that a preemptor waits for and that still exist, as `namespace/name`."""
        pods = self.preemptions.victims_of(uid)
        return [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]

    def recently_queued(self, now: float) -> set[str]:
        """Return the pods that joined the queue less than a second ago."""
        return set(
            takewhile(lambda uid: now - self._first_seen[uid] < _SILENT_SECONDS, reversed(self._first_seen))
        )

    def drop_nominations(self) -> None:
        """End the reservations for preemptors: another replica decides now."""
        if self.cache.nominations:
            for uid in self.preemptions.drop_nominations():
                self.queue.activate(uid)

    def record_eviction(self, victim: str, problem: str, now: float) -> None:
        """Record the result of an eviction; where it failed, activate its preemptors."""
        for uid in self.preemptions.record_eviction(victim, problem, now):
            self.queue.activate(uid)

    def record_bound(self, uid: str, now: float) -> None:
        """Record that a pod is bound."""
        self.metrics.waiting.observe(now - self._first_seen.get(uid, now))
        self.cache.finish_binding(uid)
        self._drop(uid)

    def record_failure(self, uid: str, now: float, *, partly_bound: bool = False) -> None:
        """Record that the binding of a pod failed; `partly_bound`: other pods of its gang are bound."""
        self.metrics.decisions["failed", "write"] += 1
        self.queue.record_failure(uid, now)
        place = self.cache.cluster.placement(uid)
        self.cache.forget(uid)
        if not self.cache.waits(uid):
            self._drop(uid)
        elif place is not None and (partly_bound or uid in self._preemptors):
            # Pods were evicted for it, or other pods of its gang are bound: no other pod takes its place.
            self.cache.nominations.reserve(Nomination(place, until=now + PATIENCE + self.queue.max_backoff))
            self.queue.nominate(uid)

    def prioritize_partly_bound_gangs(self) -> None:
        """Decide first for gangs that the previous leader bound in part: their places are still free."""
        gangs = ((each.request.namespace, each.request.gang) for each in self.cache.cluster.placements())
        self.queue.prioritize_partly_bound_gangs(
            Counter((space, gang.name) for space, gang in gangs if gang is not None)
        )

    def _drop(self, uid: str) -> None:
        self.queue.remove(uid)
        self.reporter.forget(uid)
        self._first_seen.pop(uid, None)
        self._preemptors.discard(uid)
        self._volume_deadlines.pop(uid, None)
        self.unreadable.discard(uid)
        self.last_decisions.pop(uid, None)

    def _decide(self, members: Sequence[Request]) -> list[Decision]:
        cluster, first = self.cache.cluster, members[0]
        if first.gang is not None:
            return place_gang(cluster, members, self.policy)
        if self._refused_at != cluster.changes:
            self._refused_at = cluster.changes
            self._refused.clear()
        known = None if first.inter_pod else self._refused.get(first.shape)
        if known is not None:  # a pod of its shape was refused, and nothing has changed since
            return [replace(known, request=first)]
        before = self.last_decisions.get(first.id)
        refused_before = (
            before is not None and before.decision.placement is None and self.queue.activated_by_deletion
        )
        if before is not None and refused_before and not self._fit_hint(self._freed)(first):
            return [before.decision]  # another pod took what had become free
        decision = place(cluster, first, self.policy)
        if decision.placement is None and not first.inter_pod:
            self._refused[first.shape] = decision
        return [decision]

    def _add_unschedulable(self, refused: Sequence[Decision], now: float) -> None:
        hints = queueing_hints(rejection for each in refused for rejection in each.rejections)
        requests = [each.request for each in refused]
        if self.preemptions.blocked(requests):
            hints |= {ClusterEvent.POD_BOUND}  # a pod that is being bound can be evicted once it is bound
        self.queue.add_unschedulable(requests, hints, now)
        for each in refused:
            self.reporter.add(each.request.id, each.sentence() + self._nomination_text(each.request))
            main = max(each.rejections, key=lambda one: one.count, default=None)
            self.metrics.decisions["refused", main.reason.value if main else ""] += 1

    def _without_volume(self, uid: str) -> list[VolumeClaim]:
        pod = self.cache.pod(uid)
        return self.cache.volumes.unbound_claims(pod) if pod is not None and pod.spec.volumes else []

    def _expire_volume_waits(self, now: float) -> None:
        """End the reservations of pods that have waited too long for their volumes."""
        for uid in [uid for uid, until in self._volume_deadlines.items() if until <= now]:
            del self._volume_deadlines[uid]
            if uid in self.cache.waiting_for_volumes:
                for each in self.cache.waiting_for_volumes[uid]:
                    self.queue.record_failure(each, now)
                self.cache.requeue_waiting_for_volumes(uid)

    def _wait_for_volumes(self, placed: Sequence[Decision], now: float) -> list[tuple[str, VolumeBinding]]:
        """Reserve the places of a group until its volumes are bound; return the volumes to bind."""
        volumes: list[tuple[str, VolumeBinding]] = []
        self.cache.wait_for_volumes(each.request.id for each in placed)
        self._volume_deadlines |= {each.request.id: now + VOLUMES_WITHIN for each in placed}
        for each in placed:
            uid, name = each.request.id, each.placement.node if each.placement else ""
            pod, node = self.cache.pod(uid), self.cache.cluster.node(name)
            if pod is None or node is None:
                continue
            volumes += [(uid, binding) for binding in self.cache.volumes.bindings(pod, node)]
            names = ", ".join(claim.metadata.name for claim in self._without_volume(uid))
            text = f"has its place on {node.name} and waits for its volumes: {names or 'those of its gang'}"
            self.reporter.add(uid, f"{each.request.name} {text}")
        return volumes

    def _refuse_unreadable(self, pod: UnreadablePod) -> None:
        self.unreadable.add(pod.id)
        self.queue.remove(pod.id)
        self.cache.nominations.give_up(pod.id)
        self.reporter.add(pod.id, pod.reason)
        self.metrics.decisions["refused", Reason.INVALID.value] += 1

    def _enqueue(self, request: Request, now: float) -> None:
        """Queue a pod; one that a previous leader nominated keeps its precedence."""
        pod = self.cache.pod(request.id)
        if pod is not None and pod.status.nominated_node_name:
            self.queue.nominate(request.id)
        self.queue.add(request, now)

    def _preempt(
        self, refused: list[Decision], now: float, *, nominated: bool
    ) -> tuple[list[Decision], Preemption | None]:
        """Choose victims where that makes room; return the refusals, which may now name a budget."""
        requests = [each.request for each in refused]
        decisions: list[Decision] = []
        preemption: Preemption | None = None
        if not any(rejection.reason is Reason.QUOTA for rejection in refused[0].rejections):
            decisions, preemption = self.preemptions.plan(requests, now, nominated=nominated)
        for uid in preemption.displaced if preemption else ():
            self.queue.nominate(uid, reserved=False)
            self.queue.activate(uid)
        nominated_pods = tuple(pair for each in requests if (pair := self._nominate(each)) is not None)
        victims = preemption.victims if preemption else ()
        written = Preemption(nominated_pods, victims) if nominated_pods or victims else None
        if not any(map(names_budget, decisions)):
            return refused, written
        self.last_decisions |= {each.request.id: LastDecision(each, now) for each in decisions}
        return decisions, written

    def _nominate(self, request: Request) -> tuple[LivePod, str] | None:
        """Set a pod's rank in the queue; return it with its node where the API server has another one."""
        nomination, pod = self.cache.nominations.of(request.id), self.cache.pod(request.id)
        self.queue.nominate(request.id, reserved=nomination is not None)
        node = nomination.placement.node if nomination else ""
        return (pod, node) if pod is not None and pod.status.nominated_node_name != node else None

    def _nomination_text(self, request: Request) -> str:
        """Return the end of a sentence: the pod's nominated node, and the pods that it waits for."""
        nomination = self.cache.nominations.of(request.id)
        if nomination is None:
            return ""
        waits = waits_for(request.namespace, self.pending_victims(request.id))
        return f"; it is nominated to {nomination.placement.node}{waits}"

    def _vacate(self, withdrawn: Sequence[Nomination]) -> None:
        """Free the reserved places of pods that now have another place, or none."""
        for each in withdrawn:
            now = self.cache.cluster.placement(each.placement.request.id)
            if now is None or now.node != each.placement.node:
                self.cache.nominations.vacate(each.placement.node)

    def _fit_hint(self, nodes: frozenset[str]) -> FitHint:
        """Return whether a request may fit on these nodes, as a function; where they are many, any may."""
        if len(nodes) > _MAX_CHECKED_NODES:
            return lambda request: True
        cluster = self.cache.cluster
        free = [cluster.free(name) for name in nodes if cluster.node(name) is not None]

        def fits(request: Request) -> bool:
            if any(resource_fit_hint(request, each) for each in free):
                return True
            if self.cache.nominations.of(request.id) is not None:
                return False  # its victims are already being evicted
            return self.preemptions.may_preempt([request])

        return fits

    def _extend(self, decision: Decision) -> Decision:
        """Return a decision with the shares that the pod is offered."""
        pod, placement = self.cache.pod(decision.request.id), decision.placement
        return (
            decision
            if pod is None or placement is None
            else replace(decision, placement=self.cache.needs.extend(pod, placement))
        )

    def _plan_binding(self, decision: Decision) -> BindingPlan:
        """Return the plan that writes a placement; it counts until the API server shows the result."""
        self.reporter.drop(decision.request.id)
        self.metrics.decisions["placed", ""] += 1
        placement, pod = decision.placement, self.cache.pod(decision.request.id)
        assert placement is not None, "only a placed pod is planned"
        assert pod is not None, "a pending pod is in the cache"
        claims = self.cache.claims_of(pod)
        by_use = self.by_use and prepares_by_use(self.cache.node(placement.node))
        own = self.own_claims and not claims and self._needs_claim(pod, placement, by_use=by_use)
        existing = self.cache.claim(pod.metadata.namespace, claim_name(pod)) if own else None
        ordered = [
            claims[resource_claim.name]
            for resource_claim in pod.spec.resource_claims
            if resource_claim.name in claims
        ]
        plan = BindingPlan(pod, placement, tuple(ordered), own, existing, by_use)
        self.cache.unobserved.add(placement, plan.claims_to_allocate)
        return plan

    def _needs_claim(self, pod: LivePod, placement: Placement, *, by_use: bool) -> bool:
        """Say whether the pod needs a claim of its own, as its binding is not enough for the node's agent.

        By measured use it needs one: units of the device plugin cannot be handed out twice.
        """
        if not placement.shares or not request_mappings(pod):
            return False
        if by_use and not any(share.whole for share in placement.shares):
            return True
        others = self.cache.pods_on(placement.node)
        return bool(reason_for_claim(pod, placement.shares, self.cache.node(placement.node), others))

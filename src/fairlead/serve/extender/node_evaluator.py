"""Evaluate nodes for a pod of kube-scheduler: which can run it, why others cannot, and their scores. Pure.

kube-scheduler has checked labels, taints, pod affinity and the resource sums of each node. What is left is
whether the pod fits on single accelerators, and which node the policy prefers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead import keys
from fairlead.cache.cache import SchedulerCache
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import SCHEDULED, LivePod
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.types.kubernetes import Node
from fairlead.placement import Reason, Rejection
from fairlead.request import Request, Toleration, problems
from fairlead.schedule import Policy
from fairlead.schedule.score.survey import NodeSurvey, diagnose_nodes, ranks, survey
from fairlead.schedule.state.cluster import ABSENT
from fairlead.schedule.state.columns import Ints, Mask
from fairlead.schedule.state.unconfirmed import UnconfirmedPod, UnconfirmedPods
from fairlead.serve.extender.unreported import UnreportedPods, mentions

BEST: Final = 10
"""The highest score of an extender (MaxExtenderPriority)."""
UNCONFIRMED_NODE: Final = "unconfirmed-pods"
UNKNOWN_NODE: Final = "unknown-node"
_EVERYTHING: Final = (Toleration(exists=True),)
_UNCONFIRMED: Final = "node(s) where pods placed a moment ago may have taken what is left"
_UNKNOWN: Final = "node(s) that fairlead has not seen yet"
_NO_DEVICE: Final = "node(s) without an accelerator"


@dataclass(slots=True)
class NodeVerdicts:
    """The result for each node: it passes, or the reason why it does not."""

    passed: Sequence[str] = ()
    failed: dict[str, str] = field(default_factory=dict)
    for_good: dict[str, str] = field(default_factory=dict)
    """The nodes on which no pod's end would help (unresolvable)."""
    reasons: Counter[str] = field(default_factory=Counter)
    """The number of nodes that do not pass, by reason."""

    @property
    def may_change_soon(self) -> bool:
        """Whether no node passes only because unconfirmed pods may be on them."""
        return not self.passed and bool(self.reasons[UNCONFIRMED_NODE])


class NodeEvaluator:
    """Evaluates nodes from the cache of the cluster and from earlier answers."""

    def __init__(self, cache: SchedulerCache, policy: Policy) -> None:
        self.cache = cache
        self.unconfirmed = UnconfirmedPods()
        self._unreported = UnreportedPods(self.unconfirmed)
        self._policy = policy

    def on_event(self, change: ObjectChange[Any]) -> None:
        """Apply a change of the cluster."""
        self.cache.on_event(change)
        if isinstance(change.object, LivePod):
            self._on_pod_event(change.object.metadata.uid, change.old, change.new)
        elif isinstance(change.object, Node):
            self._unreported.on_report(change.object.metadata.name, _allocated(change.new))

    def _on_pod_event(self, uid: str, before: LivePod | None, now: LivePod | None) -> None:
        if now is None or now.ended:
            self._unreported.drop(uid)
            self.unconfirmed.drop(uid)
            if before is not None and _holds(before):
                self._unreported.on_pod_left(before.spec.node_name)
        elif now.spec.node_name and not (before and before.spec.node_name):
            unconfirmed = self.unconfirmed.drop(uid)
            if unconfirmed is not None:
                self._on_bound(now, unconfirmed)
        elif _became_unschedulable(before, now):
            self.unconfirmed.on_unschedulable(uid)

    def _on_bound(self, pod: LivePod, unconfirmed: UnconfirmedPod) -> None:
        """Wait for the agent's report of a pod, where the node has an agent and several accelerators."""
        name = pod.spec.node_name
        state, allocated = self.cache.cluster.node(name), _allocated(self.cache.node(name))
        if (
            state is not None
            and len(state.devices) > 1
            and allocated
            and not mentions(allocated, "/".join(pod.key))
        ):
            on_node = replace(unconfirmed, rows=self.cache.cluster.rows_of([name]))
            self._unreported.add(name, pod.metadata.uid, "/".join(pod.key), on_node)

    def filter(self, pod: LivePod, names: Sequence[str], now: float) -> NodeVerdicts:
        """Return the nodes that can run a pod; the pod counts on each of them until it is bound to one."""
        uid = pod.metadata.uid or "/".join(pod.key)
        self.unconfirmed.drop(uid)
        self.unconfirmed.expire(now)
        self._unreported.expire(now)
        request = self._request(pod)
        if request is None:
            return NodeVerdicts(names)
        if isinstance(request, str):
            text = f"node(s) could not be evaluated: {request}"
            return NodeVerdicts(
                for_good=dict.fromkeys(names, text), reasons=Counter({Reason.INVALID.value: len(names)})
            )
        surveyed = survey(self.cache.cluster, request, self._policy, names)
        certain = self.unconfirmed.certain_fits(surveyed)
        if certain.any():
            self.unconfirmed.add(uid, surveyed.compiled, surveyed.rows[certain], now)
        return self._verdict(surveyed, names, certain)

    def prioritize(self, pod: LivePod, names: Sequence[str]) -> list[int]:
        """Return the scores of nodes, from 0 to 10, in the order of their names."""
        request = self._request(pod)
        if request is None or isinstance(request, str):
            return [0] * len(names)
        surveyed = survey(self.cache.cluster, request, self._policy, names)
        scores: list[int] = ranks(surveyed.score, BEST).tolist()
        return scores

    def _request(self, pod: LivePod) -> Request | str | None:
        """Return a pod's request for accelerators: None for none, or a text why it is invalid."""
        if pod.spec.resource_claims:
            return None  # kube-scheduler allocates claims itself
        read = self.cache.read(pod)
        if isinstance(read, UnreadablePod):
            return read.reason
        if not read.demand.count:
            return None
        request = device_request(read)
        errors = problems(request)
        return "; ".join(errors) if errors else request

    def _verdict(self, surveyed: NodeSurvey, names: Sequence[str], certain: Mask) -> NodeVerdicts:
        if certain.all():
            return NodeVerdicts(names)
        verdict = NodeVerdicts([name for name, fine in zip(names, certain.tolist(), strict=True) if fine])
        uncertain = surveyed.fits & ~certain
        self._fail(verdict, names, uncertain.nonzero()[0], _UNCONFIRMED, UNCONFIRMED_NODE)
        unknown = surveyed.rows == ABSENT
        self._fail(verdict, names, unknown.nonzero()[0], _UNKNOWN, UNKNOWN_NODE)
        for name in self.cache.read_errors.keys() & verdict.failed.keys():
            verdict.failed[name] = f"node(s) that cannot be read: {self.cache.read_errors[name]}"
        self._refuse(verdict, names, surveyed, (~surveyed.fits & ~unknown).nonzero()[0])
        return verdict

    def _fail(self, verdict: NodeVerdicts, names: Sequence[str], at: Ints, text: str, reason: str) -> None:
        if len(at):
            verdict.failed |= {names[each]: text for each in at.tolist()}
            verdict.reasons[reason] += len(at)

    def _refuse(self, verdict: NodeVerdicts, names: Sequence[str], surveyed: NodeSurvey, at: Ints) -> None:
        against = diagnose_nodes(surveyed.compiled, surveyed.rows[at])
        texts = [_text(each) for each in against.reasons]
        for each, which, good in zip(
            at.tolist(), against.which.tolist(), against.for_good.tolist(), strict=True
        ):
            (verdict.for_good if good else verdict.failed)[names[each]] = texts[which]
        for which, count in Counter(against.which.tolist()).items():
            verdict.reasons[against.reasons[which].reason.value] += count


def device_request(request: Request) -> Request:
    """Return the request without the parts that kube-scheduler has checked.

    CPU and memory stay: scores weigh what is left of them, and some accelerators share the node's memory.
    """
    return Request(
        request.name,
        request.namespace,
        request.uid,
        cpu=request.cpu,
        memory=request.memory,
        demand=request.demand,
        tolerations=_EVERYTHING,
        slo=request.slo,
        estimates=request.estimates,
    )


def _text(rejection: Rejection) -> str:
    """Return a reason in the form that kube-scheduler puts after the number of nodes."""
    if rejection.reason is Reason.NO_DEVICE:
        return _NO_DEVICE
    return f"node(s) whose accelerators {rejection.text}"


def _allocated(node: Node | None) -> str:
    """Return a node's annotation of its holders; empty where it has none."""
    return node.metadata.annotations.get(keys.ALLOCATED, "") if node is not None else ""


def _holds(pod: LivePod) -> bool:
    """Say whether a pod is bound and requests accelerators."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    resources = (
        name
        for container in containers
        for name in (*container.resources.requests, *container.resources.limits)
    )
    return bool(pod.spec.node_name) and any(map(is_accelerator, resources))


def _became_unschedulable(before: LivePod | None, now: LivePod) -> bool:
    """Say whether kube-scheduler has just marked the pod unschedulable."""
    condition = now.condition(SCHEDULED)
    return condition.status == "False" and (before is None or before.condition(SCHEDULED) != condition)

"""Judge nodes for a pod that kube-scheduler asks about: which can take it, why not others, how well. Pure.

kube-scheduler has seen to labels, taints, neighbours and the sums of each node. What is left to say is
whether the pod fits on accelerators, one by one, and which node the policy likes.
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
"""What kube-scheduler takes an extender's highest score to be."""
DOUBT: Final = "in-doubt"
UNSEEN: Final = "unseen-node"
_EVERYTHING: Final = (Toleration(exists=True),)
_DOUBTED: Final = "node(s) where pods placed a moment ago may have taken what is left"
_UNSEEN: Final = "node(s) that fairlead has not seen yet"
_NO_DEVICE: Final = "node(s) without an accelerator"


@dataclass(slots=True)
class NodeVerdicts:
    """What is said of each node: it passes, or it does not and why."""

    passed: Sequence[str] = ()
    failed: dict[str, str] = field(default_factory=dict)
    for_good: dict[str, str] = field(default_factory=dict)
    """Those on which nobody's leaving would help."""
    reasons: Counter[str] = field(default_factory=Counter)
    """How many nodes do not pass, by the word for why."""

    @property
    def may_change_soon(self) -> bool:
        """Whether all that is in the way is not knowing where others went."""
        return not self.passed and bool(self.reasons[DOUBT])


class NodeEvaluator:
    """Judges by what is known of the cluster, and by what was answered before."""

    def __init__(self, cache: SchedulerCache, policy: Policy) -> None:
        self.cache = cache
        self.doubts = UnconfirmedPods()
        self._untold = UnreportedPods(self.doubts)
        self._policy = policy

    def hear(self, change: ObjectChange[Any]) -> None:
        """Take in a change of the cluster."""
        self.cache.on_event(change)
        if isinstance(change.object, LivePod):
            self._hear_pod(change.object.metadata.uid, change.old, change.new)
        elif isinstance(change.object, Node):
            self._untold.hear(change.object.metadata.name, _told(change.new))

    def _hear_pod(self, uid: str, before: LivePod | None, now: LivePod | None) -> None:
        if now is None or now.ended:
            self._untold.drop(uid)
            self.doubts.drop(uid)
            if before is not None and _holds(before):
                self._untold.on_pod_left(before.spec.node_name)
        elif now.spec.node_name and not (before and before.spec.node_name):
            doubt = self.doubts.drop(uid)
            if doubt is not None:
                self._arrived(now, doubt)
        elif _given_up(before, now):
            self.doubts.drop(uid)

    def _arrived(self, pod: LivePod, doubt: UnconfirmedPod) -> None:
        """Wait for the agent's word on a pod, where there is an agent and more than one accelerator."""
        name = pod.spec.node_name
        state, said = self.cache.cluster.node(name), _told(self.cache.node(name))
        if state is not None and len(state.devices) > 1 and said and not mentions(said, "/".join(pod.key)):
            here = replace(doubt, rows=self.cache.cluster.rows_of([name]))
            self._untold.add(name, pod.metadata.uid, "/".join(pod.key), here)

    def filter(self, pod: LivePod, names: Sequence[str], now: float) -> NodeVerdicts:
        """Say which nodes can take a pod; it is counted on each of them until it is seen on one."""
        uid = pod.metadata.uid or "/".join(pod.key)
        self.doubts.drop(uid)
        self.doubts.expire(now)
        self._untold.expire(now)
        asked = self._asked(pod)
        if asked is None:
            return NodeVerdicts(names)
        if isinstance(asked, str):
            text = f"node(s) could not be asked: {asked}"
            return NodeVerdicts(
                for_good=dict.fromkeys(names, text), reasons=Counter({Reason.INVALID.value: len(names)})
            )
        found = survey(self.cache.cluster, asked, self._policy, names)
        sure = self.doubts.certain_fits(found)
        if sure.any():
            self.doubts.add(uid, found.compiled, found.rows[sure], now)
        return self._verdict(found, names, sure)

    def prioritize(self, pod: LivePod, names: Sequence[str]) -> list[int]:
        """Return how good nodes are, from 0 to 10, in the order of their names."""
        asked = self._asked(pod)
        if asked is None or isinstance(asked, str):
            return [0] * len(names)
        found = survey(self.cache.cluster, asked, self._policy, names)
        scores: list[int] = ranks(found.score, BEST).tolist()
        return scores

    def _asked(self, pod: LivePod) -> Request | str | None:
        """Return what a pod asks of accelerators: None for nothing, or why it cannot be meant."""
        if pod.spec.resource_claims:
            return None  # kube-scheduler gives claims their devices itself
        read = self.cache.read(pod)
        if isinstance(read, UnreadablePod):
            return read.reason
        if not read.demand.count:
            return None
        asked = of_devices(read)
        wrong = problems(asked)
        return "; ".join(wrong) if wrong else asked

    def _verdict(self, found: NodeSurvey, names: Sequence[str], sure: Mask) -> NodeVerdicts:
        if sure.all():
            return NodeVerdicts(names)
        verdict = NodeVerdicts([name for name, fine in zip(names, sure.tolist(), strict=True) if fine])
        doubted = found.fits & ~sure
        self._fail(verdict, names, doubted.nonzero()[0], _DOUBTED, DOUBT)
        unseen = found.rows == ABSENT
        self._fail(verdict, names, unseen.nonzero()[0], _UNSEEN, UNSEEN)
        for name in self.cache.read_errors.keys() & verdict.failed.keys():
            verdict.failed[name] = f"node(s) that cannot be read: {self.cache.read_errors[name]}"
        self._refuse(verdict, names, found, (~found.fits & ~unseen).nonzero()[0])
        return verdict

    def _fail(self, verdict: NodeVerdicts, names: Sequence[str], at: Ints, text: str, reason: str) -> None:
        if len(at):
            verdict.failed |= {names[each]: text for each in at.tolist()}
            verdict.reasons[reason] += len(at)

    def _refuse(self, verdict: NodeVerdicts, names: Sequence[str], found: NodeSurvey, at: Ints) -> None:
        against = diagnose_nodes(found.compiled, found.rows[at])
        texts = [_words(each) for each in against.reasons]
        for each, which, good in zip(
            at.tolist(), against.which.tolist(), against.for_good.tolist(), strict=True
        ):
            (verdict.for_good if good else verdict.failed)[names[each]] = texts[which]
        for which, count in Counter(against.which.tolist()).items():
            verdict.reasons[against.reasons[which].reason.value] += count


def of_devices(request: Request) -> Request:
    """Return what is left to ask when kube-scheduler has seen to the rest.

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


def _words(rejection: Rejection) -> str:
    """Return a reason as kube-scheduler puts the number of nodes before it."""
    if rejection.reason is Reason.NO_DEVICE:
        return _NO_DEVICE
    return f"node(s) whose accelerators {rejection.text}"


def _told(node: Node | None) -> str:
    """Return what a node's agent says of who holds what; empty where there is none."""
    return node.metadata.annotations.get(keys.ALLOCATED, "") if node is not None else ""


def _holds(pod: LivePod) -> bool:
    """Say whether a pod was on a node for its accelerators."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    asked = (
        name
        for container in containers
        for name in (*container.resources.requests, *container.resources.limits)
    )
    return bool(pod.spec.node_name) and any(map(is_accelerator, asked))


def _given_up(before: LivePod | None, now: LivePod) -> bool:
    """Say whether kube-scheduler has just told that it found no place."""
    said = now.condition(SCHEDULED)
    return said.status == "False" and (before is None or before.condition(SCHEDULED) != said)

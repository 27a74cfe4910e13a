"""Controllers as the pods that they would make."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fairlead.cluster.meta import replace as changed
from fairlead.errors import ManifestError
from fairlead.manifest.files.collect import FoundObject
from fairlead.manifest.pod.allocated import with_allocated_claims
from fairlead.manifest.pod.claims import claims_named
from fairlead.manifest.pod.gangs import gang_of_controller
from fairlead.manifest.pod.request import ReadContext, read_request
from fairlead.manifest.types import kubernetes
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.placement import NodeState
from fairlead.request import LabelTerm, MatchOperator, Request, Selector, repels

MOST_PODS: Final = 200_000
"""Pods of one question; a cluster has at most 150,000."""
_REPLICATED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "DaemonSet")
PendingPod = tuple[str, kubernetes.Pod, Request]
"""Where a pod was found, its manifest, and what it asks for."""


def pending_requests(context: ReadContext, nodes: Sequence[NodeState] = ()) -> list[PendingPod]:
    """Return every pod that waits for a place, in the order of the files; `nodes` are for DaemonSets."""
    found: list[PendingPod] = []
    for each in context.objects.entries:
        found += _pods(each, context, nodes)
        if len(found) > MOST_PODS:
            raise ManifestError(
                f"{each.where}: with it there are more than {MOST_PODS} pods", "ask for fewer"
            )
    return found


def _pods(found: FoundObject, context: ReadContext, nodes: Sequence[NodeState]) -> Iterable[PendingPod]:
    if found.kind == "Pod" and _is_pending(found.body):
        asked = read_request(found.where, found.body, context)
        yield found.where, found.body, with_allocated_claims(asked, _claims(found.body, context))
    elif found.kind == "CronJob":
        job = found.body.spec.job_template
        meta = changed(found.body.metadata, labels=job.metadata.labels)
        yield from _replicas(found.where, "Job", kubernetes.Controller(metadata=meta, spec=job.spec), context)
    elif found.kind == "DaemonSet":
        yield from _daemon_pods(found, context, nodes)
    elif found.kind in _REPLICATED:
        yield from _replicas(found.where, found.kind, found.body, context)


def _claims(pod: LivePod, context: ReadContext) -> list[LiveClaim]:
    found = (context.objects.get("ResourceClaim", *key) for key in claims_named(pod).values())
    return [each for each in found if each is not None]


def _is_pending(pod: LivePod) -> bool:
    return not (pod.spec.node_name or pod.ended or pod.metadata.deletion_timestamp)


def _replicas(
    where: str, kind: str, controller: kubernetes.Controller, context: ReadContext
) -> Iterator[PendingPod]:
    count = _replica_count(where, kind, controller.spec)
    if not count:
        return
    pod = _template_pod(controller)
    one = read_request(where, pod, context, gang_of_controller(where, kind, controller, context.objects))
    name = controller.metadata.name
    for number in range(count):
        yield where, pod, replace(one, name=f"{name}-{number}", uid="")


def _replica_count(where: str, kind: str, spec: kubernetes.ControllerSpec) -> int:
    if kind == "Job":
        parallel = 1 if spec.parallelism is None else spec.parallelism
        stated, key = parallel if spec.completions is None else min(parallel, spec.completions), "parallelism"
    else:
        stated, key = 1 if spec.replicas is None else spec.replicas, "replicas"
    if not 0 <= stated <= MOST_PODS:
        raise ManifestError(f"{where}: spec.{key}: {stated}", f"write a number from 0 to {MOST_PODS}")
    return stated


def _template_pod(controller: kubernetes.Controller) -> kubernetes.Pod:
    template = controller.spec.template
    meta = changed(
        template.metadata, name=controller.metadata.name, namespace=controller.metadata.namespace, uid=""
    )
    return kubernetes.Pod(metadata=meta, spec=template.spec)


def _daemon_pods(
    found: FoundObject, context: ReadContext, nodes: Sequence[NodeState]
) -> Iterator[PendingPod]:
    """Yield a pod for each node that would get one."""
    pod = _template_pod(found.body)
    one = read_request(found.where, pod, context)
    for node in nodes:
        if _is_daemon_node(one, node):
            here = Selector((), (LabelTerm("metadata.name", MatchOperator.IN, (node.name,)),))
            pinned = tuple(replace(each, names=(*each.names, *here.names)) for each in one.affinity) or (
                here,
            )
            yield found.where, pod, replace(one, name=f"{one.name}-{node.name}", uid="", affinity=pinned)


def _is_daemon_node(one: Request, node: NodeState) -> bool:
    borne = not any(repels(taint, one.tolerations) for taint in node.taints)
    chosen = not one.affinity or any(_selects_node(each, node) for each in one.affinity)
    return borne and chosen and one.selector.selects(node.labels)


def _selects_node(selector: Selector, node: NodeState) -> bool:
    return selector.selects(node.labels) and all(term.holds_for(node.name) for term in selector.names)

"""Controllers as the pods that they create."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fairlead.cluster.meta import replace as replace_meta
from fairlead.errors import ManifestError
from fairlead.manifest.files.collect import FoundObject
from fairlead.manifest.pod.allocated import with_allocated_claims
from fairlead.manifest.pod.claim_names import claims_named
from fairlead.manifest.pod.gangs import gang_of_controller
from fairlead.manifest.pod.request import ReadContext, read_request
from fairlead.manifest.types import kubernetes
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.placement import NodeState
from fairlead.request import LabelTerm, MatchOperator, Request, Selector, repels

MOST_PODS: Final = 200_000
"""The most pods of one question; Kubernetes supports 150,000 in a cluster."""
_REPLICATED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "DaemonSet")
PendingPod = tuple[str, kubernetes.Pod, Request]
"""The place of a pod in its file, its manifest, and its request."""


def pending_requests(context: ReadContext, nodes: Sequence[NodeState] = ()) -> list[PendingPod]:
    """Return every pending pod, in the order of the files; `nodes` are for DaemonSets."""
    pods: list[PendingPod] = []
    for entry in context.objects.entries:
        pods += _pods(entry, context, nodes)
        if len(pods) > MOST_PODS:
            raise ManifestError(f"{entry.where}: it brings the total above {MOST_PODS} pods", "ask for fewer")
    return pods


def _pods(entry: FoundObject, context: ReadContext, nodes: Sequence[NodeState]) -> Iterable[PendingPod]:
    if entry.kind == "Pod" and _is_pending(entry.body):
        asked = read_request(entry.where, entry.body, context)
        yield entry.where, entry.body, with_allocated_claims(asked, _claims(entry.body, context))
    elif entry.kind == "CronJob":
        job = entry.body.spec.job_template
        meta = replace_meta(entry.body.metadata, labels=job.metadata.labels)
        yield from _replicas(entry.where, "Job", kubernetes.Controller(metadata=meta, spec=job.spec), context)
    elif entry.kind == "DaemonSet":
        yield from _daemon_pods(entry, context, nodes)
    elif entry.kind in _REPLICATED:
        yield from _replicas(entry.where, entry.kind, entry.body, context)


def _claims(pod: LivePod, context: ReadContext) -> list[LiveClaim]:
    claims = (context.objects.get("ResourceClaim", *key) for key in claims_named(pod).values())
    return [claim for claim in claims if claim is not None]


def _is_pending(pod: LivePod) -> bool:
    return not (pod.spec.node_name or pod.ended or pod.metadata.deletion_timestamp)


def _replicas(
    where: str, kind: str, controller: kubernetes.Controller, context: ReadContext
) -> Iterator[PendingPod]:
    count = _replica_count(where, kind, controller.spec)
    if not count:
        return
    pod = _template_pod(controller)
    template = read_request(where, pod, context, gang_of_controller(where, kind, controller, context.objects))
    name = controller.metadata.name
    for number in range(count):
        yield where, pod, replace(template, name=f"{name}-{number}", uid="")


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
    meta = replace_meta(
        template.metadata, name=controller.metadata.name, namespace=controller.metadata.namespace, uid=""
    )
    return kubernetes.Pod(metadata=meta, spec=template.spec)


def _daemon_pods(
    entry: FoundObject, context: ReadContext, nodes: Sequence[NodeState]
) -> Iterator[PendingPod]:
    """Yield a pod for each node that the DaemonSet covers."""
    pod = _template_pod(entry.body)
    template = read_request(entry.where, pod, context)
    for node in nodes:
        if _is_daemon_node(template, node):
            node_selector = Selector((), (LabelTerm("metadata.name", MatchOperator.IN, (node.name,)),))
            pinned = tuple(
                replace(selector, names=(*selector.names, *node_selector.names))
                for selector in template.affinity
            ) or (node_selector,)
            yield (
                entry.where,
                pod,
                replace(template, name=f"{template.name}-{node.name}", uid="", affinity=pinned),
            )


def _is_daemon_node(request: Request, node: NodeState) -> bool:
    tolerated = not any(repels(taint, request.tolerations) for taint in node.taints)
    selected = not request.affinity or any(_selects_node(selector, node) for selector in request.affinity)
    return tolerated and selected and request.selector.selects(node.labels)


def _selects_node(selector: Selector, node: NodeState) -> bool:
    return selector.selects(node.labels) and all(term.holds_for(node.name) for term in selector.names)

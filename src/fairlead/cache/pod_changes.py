"""Which changes of pods and claims affect scheduling: most changes of a pod do not. Pure."""

from fairlead.cache.types import LEADER_EPOCH, LiveClaim, LivePod
from fairlead.cluster.meta import replace
from fairlead.keys import MEMORY_LIMIT, PLACEMENT
from fairlead.manifest.node.holdings import UNPREEMPTABLE
from fairlead.placement import Placement, parse_shares
from fairlead.request import Request
from fairlead.share import DeviceShare


def pools(claim: LiveClaim | None) -> set[str]:
    """Return the nodes on which a claim is allocated devices; a pool has its node's name."""
    return {result.pool for result in claim.results} if claim is not None else set()


def node_of(pod: LivePod | None) -> str:
    """Return the node whose resources a pod holds; empty where it is not bound, or has ended."""
    return pod.spec.node_name if pod is not None and not pod.ended else ""


def in_flight_request(request: Request, pod: LivePod | None) -> Request:
    """Return the request of a binding in flight: the pod's, unless another client bound the pod meanwhile."""
    if not node_of(pod):
        return request
    name = f"under way {request.id}"
    return Request(name, request.namespace, uid=name, priority=UNPREEMPTABLE, preempts=False)


def seen_as(cached: LivePod | LiveClaim | None, item: LivePod | LiveClaim) -> bool:
    """Say whether a cached object is this version of a pod or claim, or a newer one."""
    if cached is None or cached.metadata.uid != item.metadata.uid:
        return False
    return int(cached.metadata.resource_version) >= int(item.metadata.resource_version)


def is_unchanged(before: LivePod, now: LivePod) -> bool:
    """Say whether no field changed that affects scheduling: most changes of a pod are a kubelet's status."""
    same_spec = before.metadata.labels == now.metadata.labels and before.spec == now.spec
    same_annotations = before.metadata.annotations == now.metadata.annotations
    same_deletion = before.metadata.deletion_timestamp == now.metadata.deletion_timestamp
    same = same_spec and same_annotations and same_deletion
    return same and _relevant_status(before) == _relevant_status(now)


def is_as_assumed(before: LivePod | None, now: LivePod | None, assumed: Placement | None) -> bool:
    """Say whether a pod is bound to its assumed node and devices, and is otherwise unchanged.

    False for pods with claims: the claims determine what they hold, and volumes tie a pod to a node only
    until it is bound.
    """
    if assumed is None or before is None or now is None:
        return False
    if any(volume.persistent_volume_claim or volume.ephemeral for volume in now.spec.volumes):
        return False
    if now.ended or now.spec.node_name != assumed.node or now.spec.resource_claims:
        return False
    if now.status.extended_resource_claim_status.resource_claim_name:
        return False
    annotations = dict(now.metadata.annotations)
    if MEMORY_LIMIT not in before.metadata.annotations:
        annotations.pop(MEMORY_LIMIT, None)  # the binding carries it
    if assumed.shares and not _is_same_placement(annotations.pop(PLACEMENT, ""), assumed.shares):
        return False
    same = before.metadata.labels == now.metadata.labels and before.metadata.annotations == annotations
    return same and replace(now.spec, node_name="") == before.spec


def _is_same_placement(annotation: str, shares: tuple[DeviceShare, ...]) -> bool:
    """Say whether a placement annotation names these shares; for a whole accelerator it has no sizes."""
    return parse_shares(annotation) == tuple(
        DeviceShare(share.device, whole=True) if share.whole else share for share in shares
    )


def _relevant_status(pod: LivePod) -> tuple[object, ...]:
    """Return the status fields that affect scheduling; every mark of a leader is unique, in any epoch."""
    return pod.ended, pod.status.resource_claim_statuses, pod.condition(LEADER_EPOCH).message

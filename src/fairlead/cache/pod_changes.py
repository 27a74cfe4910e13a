"""What matters of an object at a glance: most of what the API server tells is of no matter here. Pure."""

from fairlead.cache.types import LEADER_EPOCH, LiveClaim, LivePod
from fairlead.cluster.meta import replace
from fairlead.keys import PLACEMENT
from fairlead.manifest.node.holdings import UNPREEMPTABLE
from fairlead.placement import DeviceShare, Placement, parse_shares
from fairlead.request import Request


def pools(claim: LiveClaim | None) -> set[str]:
    """Return the nodes on which a claim was given something."""
    return {result.pool for result in claim.results} if claim is not None else set()


def node_of(pod: LivePod | None) -> str:
    """Return the node that a pod holds something of."""
    return pod.spec.node_name if pod is not None and not pod.ended else ""


def in_flight_request(request: Request, pod: LivePod | None) -> Request:
    """Return what counts for a binding under way: the pod, unless another client bound it meanwhile."""
    if not node_of(pod):
        return request
    name = f"under way {request.id}"
    return Request(name, request.namespace, uid=name, priority=UNPREEMPTABLE, preempts=False)


def is_unchanged(before: LivePod, now: LivePod) -> bool:
    """Say whether nothing changed that matters here: most changes of a pod are a kubelet's report."""
    unchanged = before.metadata.labels == now.metadata.labels and before.spec == now.spec
    notes = before.metadata.annotations == now.metadata.annotations
    going = before.metadata.deletion_timestamp == now.metadata.deletion_timestamp
    return unchanged and notes and going and _relevant_status(before) == _relevant_status(now)


def is_as_assumed(before: LivePod | None, now: LivePod | None, assumed: Placement | None) -> bool:
    """Say whether a pod is bound where it was assumed to be, to what it was given, and otherwise as it was.

    Not of pods with claims: what they hold is for the claims to say, and volumes tied them to a node only
    until they were bound.
    """
    if assumed is None or before is None or now is None:
        return False
    if any(volume.persistent_volume_claim or volume.ephemeral for volume in now.spec.volumes):
        return False
    if now.ended or now.spec.node_name != assumed.node or now.spec.resource_claims:
        return False
    if now.status.extended_resource_claim_status.resource_claim_name:
        return False
    notes = dict(now.metadata.annotations)
    if assumed.shares and not _is_same_placement(notes.pop(PLACEMENT, ""), assumed.shares):
        return False
    same = before.metadata.labels == now.metadata.labels and before.metadata.annotations == notes
    return same and replace(now.spec, node_name="") == before.spec


def _is_same_placement(note: str, shares: tuple[DeviceShare, ...]) -> bool:
    """Say whether a note tells these shares; of a whole accelerator it tells no sizes."""
    return parse_shares(note) == tuple(
        DeviceShare(share.device, whole=True) if share.whole else share for share in shares
    )


def _relevant_status(pod: LivePod) -> tuple[object, ...]:
    """Return what matters of a pod's status; each mark of a leader differs from the last, of any turn."""
    return pod.ended, pod.status.resource_claim_statuses, pod.condition(LEADER_EPOCH).message

"""A decision as writes to the API, in the order in which they must be made, and those that undo them. Pure.

    plain pod              bind
    share or whole device  bind, with the placement annotation, where the node's agent reads it; elsewhere
                           the pod's status names its claim > create the claim > allocate it > bind
    named claims           allocate each > bind

Every write that allocates part of a device is conditional on the version of an object that the next leader
changes before it decides (see `failover.py`): a leader that stopped in the middle cannot allocate it twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import NAMESPACE_URL, uuid5

from fairlead.cache.types import (
    CLAIMS,
    EXTENDED_RESOURCE_CLAIM,
    LEADER_EPOCH,
    PLACEMENT,
    PODS,
    SCHEDULED,
    LiveClaim,
    LivePod,
)
from fairlead.cache.volumes import VolumeBinding
from fairlead.keys import BY_USE, MEMORY_LIMIT
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.types.dra import ClaimRequest
from fairlead.manifest.types.live import LEADER_EPOCHS, LeaderMark
from fairlead.manifest.types.storage import SELECTED_NODE, VOLUME_CLAIMS, VOLUMES
from fairlead.offer import DRIVER
from fairlead.placement import PLACEMENTS, Placement
from fairlead.serve.machine.requests import MERGE, STRATEGIC, ApiRequest
from fairlead.serve.scheduler.effects import Allocate, Bind, BindVolume, Deallocate, Fence, Report
from fairlead.share import DeviceShare
from fairlead.units import Bytes

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
REQUEST: Final = "shares"
"""The name of the one request in a claim that this scheduler creates."""
_MARK: Final = 28
"""Characters of a claim's mark: all have this length, so that a claim with one has room for the next."""
_BOUND_BY: Final = "pv.kubernetes.io/bound-by-controller"
"""Says that no person chose the volume: it is free again when the claim is deleted."""
_MIB: Final = 1 << 20
W = TypeVar("W", bound=ApiRequest)
_LONGEST: Final = 253


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """A pod, its place, and the claims by which it gets its devices."""

    pod: LivePod
    placement: Placement
    named_claims: tuple[LiveClaim, ...] = ()
    """The claims that the pod names, in its order."""
    own_claim: bool = False
    """Whether a claim that this scheduler creates stands for its extended resources."""
    existing_claim: LiveClaim | None = None
    """That claim, where it already exists."""
    by_use: bool = False
    """Whether the place was chosen by measured use: claims there may sum to more than the device has."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def claims_to_allocate(self) -> list[tuple[str, str]]:
        """The namespaces and names of the claims that this plan allocates."""
        own = [(self.pod.metadata.namespace, claim_name(self.pod))] if self.own_claim else []
        return [*own, *(claim.key for claim in self.named_claims if not claim.results)]

    @property
    def fenced(self) -> bool:
        """Whether it allocates part of a device, so that the next leader must be able to fence it."""
        return bool(self.placement.shares or self.named_claims)


def request_mappings(pod: LivePod) -> list[dict[str, str]]:
    """Return the containers' accelerator resources as the kubelet reads them from the pod's status."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return [
        {"containerName": container.name, "resourceName": name, "requestName": REQUEST}
        for container in containers
        for name in sorted({*container.resources.requests, *container.resources.limits})
        if is_accelerator(name)
    ]


def claim_name(pod: LivePod) -> str:
    """Return the name of a pod's own claim: two replicas that create it meet at the same name."""
    end = f"-fairlead-{pod.metadata.uid[:8]}"
    return f"{pod.metadata.name[: _LONGEST - len(end)].rstrip('.-')}{end}"


def set_claim_status(plan: BindingPlan) -> Allocate:
    """Name in a pod's status the claim that will stand for its resources; only at the version we read."""
    status = {"resourceClaimName": claim_name(plan.pod), "requestMappings": request_mappings(plan.pod)}
    body = {
        "metadata": _version(plan.pod.metadata.resource_version),
        "status": {"extendedResourceClaimStatus": status},
    }
    return pod_status(Allocate, plan.pod, body)


def create_claim(pod: LivePod, shares: Sequence[DeviceShare], *, by_use: bool = False) -> Allocate:
    """Create a pod's own claim; this allocates nothing."""
    meta = pod.metadata
    first = shares[0] if shares else DeviceShare("", whole=True)
    exactly: dict[str, Any] = {"deviceClassName": DRIVER, "count": max(1, len(shares))}
    if not first.whole:
        exactly["capacity"] = {"requests": _consumed(first)}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
    body = {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.name,
        "metadata": {
            "name": claim_name(pod),
            "namespace": meta.namespace,
            "annotations": {
                EXTENDED_RESOURCE_CLAIM: "true",
                LEADER_EPOCH: _claim_mark(0),
                **_use_mark(by_use),
            },
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }
    return Allocate("POST", CLAIMS.path(meta.namespace), body)


def allocate(plan: BindingPlan, claim: LiveClaim, shares: Mapping[str, Sequence[DeviceShare]]) -> Allocate:
    """Allocate a claim's devices, by request, and reserve it for the pod; only at the version we read."""
    node = plan.placement.node
    results = [_result(plan, claim, name, share) for name, parts in shares.items() for share in parts]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    status: dict[str, Any] = {"reservedFor": _reserved(plan.pod, claim)}
    if not claim.results:
        status["allocation"] = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [here]},
        }
    body = {"metadata": _version(claim.metadata.resource_version), "status": status}
    return Allocate("PATCH", _claim(claim, "status"), body, MERGE)


def is_allocated_only_for(claim: LiveClaim, pod: LivePod) -> bool:
    """Say whether a replica of this scheduler allocated a named claim, for this pod alone."""
    users = [consumer.uid for consumer in claim.status.reserved_for]
    return bool(claim.results) and LEADER_EPOCH in claim.metadata.annotations and users == [pod.metadata.uid]


def is_protected(claim: LiveClaim, *, by_use: bool = False) -> bool:
    """Say whether a named claim has the finalizer and the marks that it needs before it is allocated."""
    marks = {LEADER_EPOCH, *_use_mark(by_use)}
    return FINALIZER in claim.metadata.finalizers and marks <= claim.metadata.annotations.keys()


def protect(claim: LiveClaim, *, by_use: bool = False) -> Allocate:
    """Mark a named claim, and protect it from deletion while its pod uses it; only at the version we read."""
    kept = {
        **_version(claim.metadata.resource_version),
        "finalizers": [
            *(finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER),
            FINALIZER,
        ],
        "annotations": {LEADER_EPOCH: _claim_mark(0), **_use_mark(by_use)},
    }
    return Allocate("PATCH", _claim(claim), {"metadata": kept}, MERGE)


def bind(plan: BindingPlan, version: str = "") -> Bind:
    """Bind the pod to its node together with its placement annotation; only if it is the pod we mean."""
    meta, shares = plan.pod.metadata, plan.placement.shares
    precise = _version(version or meta.resource_version) if plan.fenced else {}
    note = PLACEMENTS.encode(tuple(shares))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            **precise,
            **({"annotations": {PLACEMENT: note, **_limit(plan)}} if shares else {}),
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": plan.placement.node},
    }
    return Bind("POST", PODS.path(meta.namespace, meta.name, "binding"), body)


def _limit(plan: BindingPlan) -> dict[str, str]:
    """Return the limit that the node's agent hands to the frameworks of a pod with a firm need."""
    need = plan.placement.request.need
    return {MEMORY_LIMIT: str(need.peak)} if need is not None and need.firm else {}


def limit_memory(pod: LivePod, size: Bytes) -> Report:
    """Lower the limit of a running pod; through the status, which is all that our account may write."""
    body = {"metadata": {"uid": pod.metadata.uid, "annotations": {MEMORY_LIMIT: str(size)}}}
    return pod_status(Report, pod, body)


def shares_by_request(plan: BindingPlan) -> list[tuple[LiveClaim, dict[str, list[DeviceShare]]]]:
    """Return the named claims to write, each with its part of the shares by request."""
    left = list(plan.placement.shares)
    claims = []
    for claim in plan.named_claims:
        parts: dict[str, list[DeviceShare]] = {}
        for request in () if claim.results else claim.spec.devices.requests:
            count = _count(request)
            parts[_name(request)], left = left[:count], left[count:]
        claims.append((claim, parts))
    return claims


# Undoing


def remove_finalizer(claim: LiveClaim) -> Deallocate:
    """Remove the finalizer of a pod's own claim; only at the version we read."""
    free = {"uid": claim.metadata.uid, **_version(claim.metadata.resource_version), "finalizers": None}
    return Deallocate("PATCH", _claim(claim), {"metadata": free}, MERGE)


def delete_claim(claim: LiveClaim) -> Deallocate:
    """Delete a pod's own claim; only at the version we read."""
    precise = {"uid": claim.metadata.uid, **_version(claim.metadata.resource_version)}
    return Deallocate("DELETE", _claim(claim), {"preconditions": precise})


def deallocate(claim: LiveClaim, pod: LivePod) -> Deallocate:
    """Remove a pod from the users of a named claim; deallocate the claim with its last user."""
    others = [each for each in _reserved(pod, claim) if each["uid"] != pod.metadata.uid]
    status = {"reservedFor": others} if others else {"reservedFor": None, "allocation": None}
    body = {"metadata": _version(claim.metadata.resource_version), "status": status}
    return Deallocate("PATCH", _claim(claim, "status"), body, MERGE)


def bind_volume(binding: VolumeBinding) -> BindVolume:
    """Reserve a volume for a claim, or have one provisioned for its node; only at the version we read."""
    meta = binding.claim.metadata
    if binding.volume is None:
        noted = {**_version(meta.resource_version), "annotations": {SELECTED_NODE: binding.node}}
        return BindVolume("PATCH", VOLUME_CLAIMS.path(meta.namespace, meta.name), {"metadata": noted}, MERGE)
    free = binding.volume.metadata
    marked = {**_version(free.resource_version), "annotations": {_BOUND_BY: "yes"}}
    claim = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    ref = {"apiVersion": VOLUME_CLAIMS.api_version, "kind": VOLUME_CLAIMS.name, **claim}
    body = {"metadata": marked, "spec": {"claimRef": ref}}
    return BindVolume("PATCH", VOLUMES.path(name=free.name), body, MERGE)


def fence_pod(pod: LivePod, epoch: int, nonce: str) -> Fence:
    """Mark a pending pod with our epoch: a late write of an earlier term fails from now on.

    The nonce is new each time: a write that changes nothing would leave the version as it was.
    """
    mark = {
        "type": LEADER_EPOCH,
        "status": "True",
        "reason": "Fenced",
        "message": LEADER_EPOCHS.encode(LeaderMark(epoch, nonce)),
    }
    return pod_status(Fence, pod, {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [mark]}})


def fence_claim(namespace: str, name: str, epoch: int, nonce: str) -> Fence:
    """Mark a claim with our epoch, likewise."""
    mark = {"metadata": {"annotations": {LEADER_EPOCH: _claim_mark(epoch, nonce)}}}
    return Fence("PATCH", CLAIMS.path(namespace, name), mark, MERGE)


def _claim_mark(epoch: int, nonce: str = "") -> str:
    """Return the mark of a claim; with epoch 0 it says that a leader is about to allocate the claim."""
    return LEADER_EPOCHS.encode(LeaderMark(epoch, nonce)).ljust(_MARK, "-")


def _use_mark(by_use: bool) -> dict[str, str]:
    return {BY_USE: "1"} if by_use else {}


def unmark_claim(namespace: str, name: str) -> Fence:
    """Remove the mark of a claim, which changes it too; a claim without one has no room for one either."""
    return Fence(
        "PATCH", CLAIMS.path(namespace, name), {"metadata": {"annotations": {LEADER_EPOCH: None}}}, MERGE
    )


def shorten_pod(pod: LivePod) -> Fence | None:
    """Change a pod that is too large for a mark by making it smaller; None where nothing can be removed."""
    if not pod.condition(SCHEDULED).message:
        return None
    short = {"type": SCHEDULED, "message": ""}
    return pod_status(Fence, pod, {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [short]}})


def _result(plan: BindingPlan, claim: LiveClaim, request: str, share: DeviceShare) -> dict[str, Any]:
    node = plan.placement.node
    result = {"request": request, "driver": DRIVER, "pool": node, "device": share.device}
    if share.whole:
        return result
    identity = f"{claim.metadata.uid}/{request}/{node}/{share.device}"
    return {**result, "shareID": str(uuid5(NAMESPACE_URL, identity)), "consumedCapacity": _consumed(share)}


def _consumed(share: DeviceShare) -> dict[str, str]:
    memory = {"memory": f"{-(-share.memory // _MIB)}Mi"} if share.memory else {}
    return {**memory, **({"compute": str(share.compute)} if share.compute else {})}


def _reserved(pod: LivePod, claim: LiveClaim) -> list[dict[str, str]]:
    meta = pod.metadata
    kept = [
        {"resource": each.resource, "name": each.name, "uid": each.uid} for each in claim.status.reserved_for
    ]
    mine = {"resource": "pods", "name": meta.name, "uid": meta.uid}
    return kept if mine in kept else [*kept, mine]


def _count(request: ClaimRequest) -> int:
    if request.exactly is not None:
        return request.exactly.count
    return request.first_available[0].count if request.first_available else 0


def _name(request: ClaimRequest) -> str:
    """Return how an allocation result names its request; of alternatives, the first."""
    if request.exactly is not None or not request.first_available:
        return request.name
    return f"{request.name}/{request.first_available[0].name}"


def _version(version: str) -> dict[str, str]:
    return {"resourceVersion": version} if version else {}


def pod_status(effect: type[W], pod: LivePod, body: Mapping[str, Any]) -> W:
    """Change fields of a pod's status."""
    return effect("PATCH", PODS.path(pod.metadata.namespace, pod.metadata.name, "status"), body, STRATEGIC)


def pod_path(pod: LivePod) -> str:
    """Return the API path of a pod."""
    return PODS.path(pod.metadata.namespace, pod.metadata.name)


def _claim(claim: LiveClaim, sub: str = "") -> str:
    return CLAIMS.path(claim.metadata.namespace, claim.metadata.name, sub)

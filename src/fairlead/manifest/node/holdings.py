"""What pods and claims hold on one node, from their objects in the API. Pure.

A claim's allocation counts from the moment it is written, whether its pod is bound or not, and it counts
once, however many pods use the claim. The placement annotation of a pod counts whatever else the pod carries.
A pod with neither holds what the node's agent reports. Without a report, it holds what it requests by an
extended resource that its node offers, on the fullest accelerator with room for it. A request by annotation
alone counts from the pod's placement on: until then the pod holds nothing.

A device that the node's source does not name keeps its holders: they take nothing of another device, and
count again when the source names the device again. Where a source only counts devices, such a device is one
of those counted, and it is chosen as for a pod without a report.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead import keys
from fairlead.annotations import parse_allocated
from fairlead.keys import PLACEMENT
from fairlead.manifest import amounts
from fairlead.manifest.node.claimed_share import allocated_share
from fairlead.manifest.pod.admitted import device_plugin_resources
from fairlead.manifest.types.kubernetes import Node
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.offer import DRIVER, Form
from fairlead.placement import DeviceState, NodeState, Placement, parse_shares, share_of
from fairlead.request import Demand, Request
from fairlead.share import DeviceShare
from fairlead.units import Bytes

_MOST: Final = 1 << 48
"""More than any node has of a resource; tens of thousands of such amounts can be added up."""
UNPREEMPTABLE: Final = 1 << 31
"""The priority of a claim that no known pod uses: no pod may preempt it."""
SharesByPod = Mapping[str, tuple[DeviceShare, ...]]
"""The shares that a node's agent reports, by the pod's `namespace/name`."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, bound there or about to be bound."""

    request: Request
    pod: LivePod | None = None
    """None: the pod is only assumed to be there."""
    assumed: tuple[DeviceShare, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node reports beside its accelerators."""

    held: SharesByPod = field(default_factory=dict)
    resources: Collection[str] = ()
    """The resources that the node has or had: by any other resource, a pod there never got a device."""


ReadAdmitted = Callable[[LivePod], Request]
"""Reads a bound pod from its spec alone, as `admitted_request` does."""


def node_report(node: Node | None, devices: Iterable[DeviceState]) -> NodeReport:
    """Return what a node reports: the shares in its agent's annotation, and its resources."""
    if node is None:
        return NodeReport()
    allocated = node.metadata.annotations.get(keys.ALLOCATED, "")
    held = reported_shares(node.metadata.name, allocated, devices) if allocated else {}
    return NodeReport(held, {**node.status.capacity, **node.status.allocatable})


def reported_shares(
    node: str, text: str, devices: Iterable[DeviceState]
) -> dict[str, tuple[DeviceShare, ...]]:
    """Return the shares in a node's annotation by `namespace/name`, also those of other devices."""
    known = {device.id: device for device in devices}
    shares: dict[str, tuple[DeviceShare, ...]] = {}
    for device, forms in (parse_allocated(text) or {}).items():
        for form, holders in forms.items():
            for holder, mebibytes in holders.items():
                if form is not Form.CLAIM and holder.count("/") >= 1:
                    pod = "/".join(holder.split("/")[:2])
                    share = DeviceShare(device, Bytes(mebibytes * amounts.MIB), whole=not mebibytes)
                    shares[pod] = (*shares.get(pod, ()), fill_whole_share(share, known))
    return shares


def claim_id(claim: LiveClaim) -> str:
    """Return the id of a claim that counts for no pod on its node."""
    return f"claim {claim.metadata.namespace}/{claim.metadata.name}"


def placements(
    node: NodeState,
    pods: Sequence[BoundPod],
    claims: Iterable[LiveClaim],
    report: NodeReport,
    admitted: ReadAdmitted,
) -> dict[str, Placement]:
    """Return every placement on a node, by id; the order of pods and claims does not matter."""
    devices = {device.id: device for device in node.devices}
    ordered = sorted(pods, key=lambda pod: pod.request.id)
    claimed, unused = _claim_shares(node.name, devices, ordered, claims)
    placed: dict[str, Placement] = {}
    unnamed: list[
        tuple[Request, Request]
    ] = []  # holders of an unnamed device; the second request says how much
    for claim, held in unused:
        shares = _named_shares(held, devices, counted=node.counted)
        if shares is None:
            unnamed.append((claim, replace(claim, demand=_demand_for(held))))
        elif shares:
            placed[claim.id] = Placement(claim, node.name, shares)
    for bound in ordered:
        request = _bound_amounts(bound.request)
        held_shares = _pod_shares(bound, claimed, devices, report)
        spec = _unreported_request(bound.pod, report, admitted) if held_shares is None else None
        if bound.pod is not None and spec is not None:
            held_shares = _gpushare_shares(bound.pod, spec, devices) or None
        shares = _named_shares(held_shares or (), devices, counted=node.counted)
        if held_shares is None and spec is not None:
            unnamed.append((request, spec))
        elif shares is None:
            unnamed.append((request, replace(request, demand=_demand_for(held_shares or ()))))
        else:
            placed[request.id] = _placement(request, node.name, shares)
    for request, spec in sorted(unnamed, key=_largest_first):
        placed[request.id] = _placement(request, node.name, _probable_shares(spec, devices, placed.values()))
    return placed


def _unreported_request(pod: LivePod | None, report: NodeReport, admitted: ReadAdmitted) -> Request | None:
    """Return what a pod was admitted with by resources of its node; None where it names none of them."""
    if pod is None or device_plugin_resources(pod).isdisjoint(report.resources):
        return None
    return admitted(pod)


def _placement(request: Request, node: str, shares: tuple[DeviceShare, ...]) -> Placement:
    """Return a placement; the request of a pod without a share asks for no accelerator."""
    if request.demand.count and not shares:
        request = replace(request, demand=Demand())
    return Placement(request, node, shares)


def _claim_shares(
    node: str, devices: Mapping[str, DeviceState], pods: Sequence[BoundPod], claims: Iterable[LiveClaim]
) -> tuple[dict[str, list[DeviceShare]], list[tuple[Request, list[DeviceShare]]]]:
    """Return what claims hold: by the pod that each counts for, and the claims without a pod on this node.

    Of the pods that share a claim, it counts for the one with a placement, which names the same devices.
    """
    listed = sorted(claims, key=lambda claim: claim.key)
    requests_by_uid = {
        bound.request.id: (not _has_placement(bound.pod), bound.request) for bound in pods if listed
    }
    claimed: dict[str, list[DeviceShare]] = {}
    unused = []
    for claim in listed:
        ours = [result for result in claim.results if result.device in devices or result.driver == DRIVER]
        shares = [
            fill_whole_share(allocated_share(result), devices) for result in ours if result.pool == node
        ]
        namespace = claim.metadata.namespace  # an owner reference may name the uid of any pod
        users = [
            uid
            for uid in claim.users
            if uid in requests_by_uid and requests_by_uid[uid][1].namespace == namespace
        ]
        if users and shares:
            claimed.setdefault(min(users, key=lambda uid: (requests_by_uid[uid][0], uid)), []).extend(shares)
            for uid in users:
                claimed.setdefault(uid, [])
        elif shares:
            name = claim_id(claim)
            request = Request(name, namespace, uid=name, priority=UNPREEMPTABLE, preempts=False)
            unused.append((request, shares))
    return claimed, unused


def fill_whole_share(share: DeviceShare, devices: Mapping[str, DeviceState]) -> DeviceShare:
    """Return a whole share with the accelerator's capacity; unchanged where the accelerator is unknown."""
    device = devices.get(share.device)
    if not share.whole or device is None:
        return share
    return replace(share, memory=device.memory, compute=device.compute)


def _named_shares(
    shares: Sequence[DeviceShare], devices: Mapping[str, DeviceState], *, counted: bool
) -> tuple[DeviceShare, ...] | None:
    """Return the shares of devices that a node's source names; None: it only counts, under other names.

    A share of a device that the source does not name takes nothing of another device.
    """
    if counted and any(share.device not in devices for share in shares):
        return None
    return tuple(fill_whole_share(share, devices) for share in shares if share.device in devices)


def _demand_for(shares: Sequence[DeviceShare]) -> Demand:
    """Return the demand that these shares satisfy exactly."""
    first = shares[0]
    if first.whole:
        return Demand(len(shares))
    return Demand(len(shares), first.memory, first.compute or None)


def _pod_shares(
    bound: BoundPod,
    claimed: Mapping[str, list[DeviceShare]],
    devices: Mapping[str, DeviceState],
    report: NodeReport,
) -> tuple[DeviceShare, ...] | None:
    """Return a pod's shares; None where it requests some and neither the API nor the agent names them."""
    request, pod = bound.request, bound.pod
    if pod is None:
        return bound.assumed
    decided = _decided_shares(pod)
    shares = [fill_whole_share(share, devices) for share in decided]
    if request.id in claimed:
        return tuple(_join_shares(claimed[request.id], shares))
    if decided:
        return tuple(shares)
    if held := report.held.get(f"{request.namespace}/{request.name}"):
        return held
    return () if request.demand == Demand() else None


def _decided_shares(pod: LivePod) -> tuple[DeviceShare, ...]:
    """Return the shares in a pod's placement annotation; empty where it has none."""
    annotation = pod.metadata.annotations.get(PLACEMENT)
    return parse_shares(annotation) or () if annotation is not None else ()


def _has_placement(pod: LivePod | None) -> bool:
    return pod is not None and PLACEMENT in pod.metadata.annotations


def _join_shares(claims: Sequence[DeviceShare], decided: Iterable[DeviceShare]) -> list[DeviceShare]:
    """Return what claims hold, and the rest of the decided placement: owners may edit claims."""
    joined = list(claims)
    for share in decided:
        claimed = [claim for claim in claims if claim.device == share.device]
        memory = max(0, share.memory - sum(claim.memory for claim in claimed))
        compute = max(0, share.compute - sum(claim.compute for claim in claimed))
        if not claimed or memory or compute:
            joined.append(replace(share, memory=Bytes(memory), compute=compute))
    return joined


def _bound_amounts(request: Request) -> Request:
    """Return a request with amounts that can be added up: a pod with a nodeName may ask for exabytes."""
    most = max((request.cpu, request.memory, *(amount for _, amount in request.resources)))
    if most <= _MOST:
        return request
    resources = tuple((name, min(amount, _MOST)) for name, amount in request.resources)
    memory = Bytes(min(request.memory, _MOST))
    return replace(request, cpu=min(request.cpu, _MOST), memory=memory, resources=resources)


def _gpushare_shares(
    pod: LivePod, spec: Request, devices: Mapping[str, DeviceState]
) -> tuple[DeviceShare, ...]:
    """Return the share on the accelerator that gpushare's annotation names, with the amount of the spec."""
    device = f"gpu-{pod.metadata.annotations.get(keys.ALIYUN_INDEX, '')}"
    memory = spec.demand.memory
    if memory is None or device not in devices or keys.ALIYUN_MEM not in device_plugin_resources(pod):
        return ()
    return (DeviceShare(device, Bytes(min(memory, devices[device].memory))),)


def _largest_first(unnamed: tuple[Request, Request]) -> tuple[bool, int, str]:
    """Order requests by size, so that they fit if they can; by id, a large one may come too late."""
    request, spec = unnamed
    memory = spec.demand.memory
    return memory is not None, -(memory or 0), request.id


def _probable_shares(
    request: Request, devices: Mapping[str, DeviceState], placed: Iterable[Placement]
) -> tuple[DeviceShare, ...]:
    """Return the shares that a device plugin has probably assigned: where none fits, the emptiest device."""
    held: dict[str, list[DeviceShare]] = {name: [] for name in devices}
    for placement in placed:
        for share in placement.shares:
            held[share.device].append(share)
    ranked = []
    for name, device in devices.items():
        share = share_of(request, device)
        free_memory = device.memory - sum(other.memory for other in held[name])
        free_compute = device.compute - sum(other.compute for other in held[name])
        allowed = not request.demand.models or device.model in request.demand.models
        fits = (
            not (share.whole and held[name]) and free_memory >= share.memory and free_compute >= share.compute
        )
        order = (free_memory, free_compute) if allowed and fits else (-free_memory, -free_compute)
        share = replace(
            share,
            memory=Bytes(min(share.memory, device.memory)),
            compute=min(share.compute, device.compute),
        )
        ranked.append((not (allowed and fits), not allowed, order, name, share))
    return tuple(row[-1] for row in sorted(ranked)[: request.demand.count])

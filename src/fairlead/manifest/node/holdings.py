"""Who holds what on one node, from what the API says of its pods and claims. Pure.

A claim's allocation counts from the moment it is written, whether its pod is bound or not, and once, however
many pods use it. The placement that was decided for a pod counts whatever else the pod carries. A pod without
either holds what the node's agent reports; without a report, what it asks for by an extended resource that
its node offers, on the fullest accelerator that can take it. What a pod asks for by annotation alone counts
from its placement on: until then it was given nothing.

A device that the node's source does not name keeps its holders: they take nothing of another device, and
count again when the device is named again. Where a source only counts devices, such a device is one of those
counted, and which one is worked out as for a pod that no report names.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead import keys
from fairlead.annotations import parse_allocated
from fairlead.cluster.objects import AllocatedDevice
from fairlead.errors import ManifestError
from fairlead.keys import PLACEMENT
from fairlead.manifest import amounts
from fairlead.manifest.pod.admitted import device_plugin_resources
from fairlead.manifest.types.kubernetes import Node
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.offer import DRIVER, Form
from fairlead.placement import DeviceShare, DeviceState, NodeState, Placement, parse_shares, share_of
from fairlead.request import Demand, Request
from fairlead.units import Bytes

_MOST: Final = 1 << 48
"""More than any node has of anything; tens of thousands of it can be added up."""
UNPREEMPTABLE: Final = 1 << 31
"""The priority of a claim that no known pod uses: nobody may put it out."""
SharesByPod = Mapping[str, tuple[DeviceShare, ...]]
"""What a node's agent says that pods hold, by `namespace/name`."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, bound there or about to be."""

    request: Request
    pod: LivePod | None = None
    """None: only assumed to be there."""
    assumed: tuple[DeviceShare, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node says of itself beside its accelerators."""

    held: SharesByPod = field(default_factory=dict)
    resources: Collection[str] = ()
    """The resources that it has, or had: what a pod asks for by another was never handed over there."""


ReadAdmitted = Callable[[LivePod], Request]
"""Reads a bound pod from its spec alone, as `admitted` does."""


def node_report(given: Node | None, devices: Iterable[DeviceState]) -> NodeReport:
    """Return what a node reports: the holders that its agent's annotation names, and its resources."""
    if given is None:
        return NodeReport()
    note = given.metadata.annotations.get(keys.ALLOCATED, "")
    held = reported_shares(given.metadata.name, note, devices) if note else {}
    return NodeReport(held, {**given.status.capacity, **given.status.allocatable})


def reported_shares(
    node: str, text: str, devices: Iterable[DeviceState]
) -> dict[str, tuple[DeviceShare, ...]]:
    """Return what a node's annotation says that pods hold, by `namespace/name`, also of other devices."""
    known = {each.id: each for each in devices}
    found: dict[str, tuple[DeviceShare, ...]] = {}
    for device, forms in (parse_allocated(text) or {}).items():
        for form, holders in forms.items():
            for holder, mebibytes in holders.items():
                if form is not Form.CLAIM and holder.count("/") >= 1:
                    pod = "/".join(holder.split("/")[:2])
                    share = DeviceShare(device, Bytes(mebibytes * amounts.MIB), whole=not mebibytes)
                    found[pod] = (*found.get(pod, ()), fill_whole_share(share, known))
    return found


def claim_id(claim: LiveClaim) -> str:
    """Return what stands for a claim that no pod on the node is counted for."""
    return f"claim {claim.metadata.namespace}/{claim.metadata.name}"


def placements(
    node: NodeState,
    tenants: Sequence[BoundPod],
    claims: Iterable[LiveClaim],
    report: NodeReport,
    admitted: ReadAdmitted,
) -> dict[str, Placement]:
    """Return everything that is placed on a node, by id, whatever the order of tenants and claims."""
    devices = {device.id: device for device in node.devices}
    ordered = sorted(tenants, key=lambda each: each.request.id)
    claimed, alone = _claim_shares(node.name, devices, ordered, claims)
    found: dict[str, Placement] = {}
    unnamed: list[
        tuple[Request, Request]
    ] = []  # held of a device that nothing names; the second says how much
    for claim, held in alone:
        shares = _named_shares(held, devices, counted=node.counted)
        if shares is None:
            unnamed.append((claim, replace(claim, demand=_demand_for(held))))
        elif shares:
            found[claim.id] = Placement(claim, node.name, shares)
    for tenant in ordered:
        request = _bound_amounts(tenant.request)
        given_to = _pod_shares(tenant, claimed, devices, report)
        spec = _unreported_request(tenant.pod, report, admitted) if given_to is None else None
        if tenant.pod is not None and spec is not None:
            given_to = _gpushare_shares(tenant.pod, spec, devices) or None
        shares = _named_shares(given_to or (), devices, counted=node.counted)
        if given_to is None and spec is not None:
            unnamed.append((request, spec))
        elif shares is None:
            unnamed.append((request, replace(request, demand=_demand_for(given_to or ()))))
        else:
            found[request.id] = _placement(request, node.name, shares)
    for request, spec in sorted(unnamed, key=_largest_first):
        found[request.id] = _placement(request, node.name, _probable_shares(spec, devices, found.values()))
    return found


def _unreported_request(pod: LivePod | None, report: NodeReport, admitted: ReadAdmitted) -> Request | None:
    """Return what a pod was admitted with by a resource that its node has; None where it was by none."""
    if pod is None or device_plugin_resources(pod).isdisjoint(report.resources):
        return None
    return admitted(pod)


def _placement(request: Request, node: str, shares: tuple[DeviceShare, ...]) -> Placement:
    """Return a placement; a pod that was given no accelerator asks its node for none."""
    if request.demand.count and not shares:
        request = replace(request, demand=Demand())
    return Placement(request, node, shares)


def _claim_shares(
    node: str, devices: Mapping[str, DeviceState], tenants: Sequence[BoundPod], claims: Iterable[LiveClaim]
) -> tuple[dict[str, list[DeviceShare]], list[tuple[Request, list[DeviceShare]]]]:
    """Return what claims hold: by the pod that is counted for them, and those that have none here.

    Of pods that share a claim the one whose placement was decided is counted: that names the same devices.
    """
    listed = sorted(claims, key=lambda each: each.key)
    here = {each.request.id: (not _has_placement(each.pod), each.request) for each in tenants if listed}
    claimed: dict[str, list[DeviceShare]] = {}
    alone = []
    for claim in listed:
        ours = [each for each in claim.results if each.device in devices or each.driver == DRIVER]
        shares = [fill_whole_share(allocated_share(each), devices) for each in ours if each.pool == node]
        space = claim.metadata.namespace  # an owner reference may name the uid of any pod
        users = [uid for uid in claim.users if uid in here and here[uid][1].namespace == space]
        if users and shares:
            claimed.setdefault(min(users, key=lambda uid: (here[uid][0], uid)), []).extend(shares)
            for uid in users:
                claimed.setdefault(uid, [])
        elif shares:
            name = claim_id(claim)
            request = Request(name, space, uid=name, priority=UNPREEMPTABLE, preempts=False)
            alone.append((request, shares))
    return claimed, alone


def allocated_share(result: AllocatedDevice) -> DeviceShare:
    """Return what a claim holds of a device; what does not say how much is given whole."""
    used = {name.rpartition("/")[2]: value for name, value in result.consumed_capacity.items()}
    try:
        memory = amounts.quantity("memory", used["memory"])
        return DeviceShare(result.device, memory, amounts.whole("compute", used.get("compute", 0)))
    except (KeyError, ManifestError):
        return DeviceShare(result.device, whole=True)


def fill_whole_share(share: DeviceShare, devices: Mapping[str, DeviceState]) -> DeviceShare:
    """Return a whole share with all that the accelerator has; as it is where the accelerator is not known."""
    device = devices.get(share.device)
    if not share.whole or device is None:
        return share
    return replace(share, memory=device.memory, compute=device.compute)


def _named_shares(
    shares: Sequence[DeviceShare], devices: Mapping[str, DeviceState], *, counted: bool
) -> tuple[DeviceShare, ...] | None:
    """Return the shares of devices that a node's source names; None: it only counts, and not by these names.

    A share of a device that a source does not name is taken of no other device.
    """
    if counted and any(each.device not in devices for each in shares):
        return None
    return tuple(fill_whole_share(each, devices) for each in shares if each.device in devices)


def _demand_for(shares: Sequence[DeviceShare]) -> Demand:
    """Return what asks for just these shares."""
    first = shares[0]
    if first.whole:
        return Demand(len(shares))
    return Demand(len(shares), first.memory, first.compute or None)


def _pod_shares(
    tenant: BoundPod,
    claimed: Mapping[str, list[DeviceShare]],
    devices: Mapping[str, DeviceState],
    report: NodeReport,
) -> tuple[DeviceShare, ...] | None:
    """Return what a pod was given; None where neither API nor agent says so though it asks for something."""
    request, pod = tenant.request, tenant.pod
    if pod is None:
        return tenant.assumed
    decided = _decided_shares(pod)
    shares = [fill_whole_share(each, devices) for each in decided]
    if request.id in claimed:
        return tuple(_join_shares(claimed[request.id], shares))
    if decided:
        return tuple(shares)
    if held := report.held.get(f"{request.namespace}/{request.name}"):
        return held
    return () if request.demand == Demand() else None


def _decided_shares(pod: LivePod) -> tuple[DeviceShare, ...]:
    """Return the placement that was written with a pod's binding; empty where none was."""
    note = pod.metadata.annotations.get(PLACEMENT)
    return parse_shares(note) or () if note is not None else ()


def _has_placement(pod: LivePod | None) -> bool:
    return pod is not None and PLACEMENT in pod.metadata.annotations


def _join_shares(claims: Sequence[DeviceShare], decided: Iterable[DeviceShare]) -> list[DeviceShare]:
    """Return what claims hold, and what of a decided placement they lack: owners may edit claims."""
    found = list(claims)
    for share in decided:
        mine = [each for each in claims if each.device == share.device]
        memory = max(0, share.memory - sum(each.memory for each in mine))
        compute = max(0, share.compute - sum(each.compute for each in mine))
        if not mine or memory or compute:
            found.append(replace(share, memory=Bytes(memory), compute=compute))
    return found


def _bound_amounts(request: Request) -> Request:
    """Return a request whose amounts can be added up: a pod that names its node may ask for exabytes."""
    most = max((request.cpu, request.memory, *(amount for _, amount in request.resources)))
    if most <= _MOST:
        return request
    resources = tuple((name, min(amount, _MOST)) for name, amount in request.resources)
    memory = Bytes(min(request.memory, _MOST))
    return replace(request, cpu=min(request.cpu, _MOST), memory=memory, resources=resources)


def _gpushare_shares(
    pod: LivePod, spec: Request, devices: Mapping[str, DeviceState]
) -> tuple[DeviceShare, ...]:
    """Return the share whose accelerator gpushare's plugin noted; how much it is, the spec says."""
    device = f"gpu-{pod.metadata.annotations.get(keys.ALIYUN_INDEX, '')}"
    memory = spec.demand.memory
    if memory is None or device not in devices or keys.ALIYUN_MEM not in device_plugin_resources(pod):
        return ()
    return (DeviceShare(device, Bytes(min(memory, devices[device].memory))),)


def _largest_first(unnamed: tuple[Request, Request]) -> tuple[bool, int, str]:
    """Order requests so that they fit where they can: in the order of their ids, large ones come too late."""
    request, spec = unnamed
    memory = spec.demand.memory
    return memory is not None, -(memory or 0), request.id


def _probable_shares(
    request: Request, devices: Mapping[str, DeviceState], found: Iterable[Placement]
) -> tuple[DeviceShare, ...]:
    """Return the shares that a kubelet's plugin has probably handed over: where none fits, the roomiest."""
    held: dict[str, list[DeviceShare]] = {name: [] for name in devices}
    for placement in found:
        for share in placement.shares:
            held[share.device].append(share)
    ranked = []
    for name, device in devices.items():
        share = share_of(request, device)
        left = device.memory - sum(each.memory for each in held[name])
        spare = device.compute - sum(each.compute for each in held[name])
        right = not request.demand.models or device.model in request.demand.models
        fits = not (share.whole and held[name]) and left >= share.memory and spare >= share.compute
        order = (left, spare) if right and fits else (-left, -spare)
        share = replace(
            share,
            memory=Bytes(min(share.memory, device.memory)),
            compute=min(share.compute, device.compute),
        )
        ranked.append((not (right and fits), not right, order, name, share))
    return tuple(each[-1] for each in sorted(ranked)[: request.demand.count])

"""Who holds what on one node, from what the API says of its pods and claims. Pure.

A claim's allocation counts from the moment it is written, whether its pod is bound or not, and once, however
many pods use it. Of a pod without claims, its binding's annotation tells, then the node's agent; where nobody
tells, the fullest accelerator that can take it is likely, and leaves the most room if it is not.

A device that the node's source does not name keeps its holders: they take nothing of another device, and
count again when the device is named again. Where a source only counts devices, such a device is one of those
counted, and which one is worked out as for a pod of which nobody tells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.errors import ManifestError
from fairlead.manifest import amounts, keys
from fairlead.manifest.deviceshapes import AllocatedDevice
from fairlead.manifest.seen import Claim, Pod
from fairlead.offer import DRIVER
from fairlead.placement import PLACEMENT, DeviceState, NodeState, Placement, Share, parse_shares, share_of
from fairlead.request import Demand, Request

FOREVER: Final = 1 << 31
"""The priority of a claim that no known pod uses: nobody may put it out."""
Holders = Mapping[str, tuple[Share, ...]]
"""What a node's agent says that pods hold, by `namespace/name`."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod on a node, bound there or about to be."""

    request: Request
    pod: Pod | None = None
    """None: only assumed to be there."""
    assumed: tuple[Share, ...] = ()


def unread(pod: Pod) -> Request:
    """Return a bound pod that cannot be read: it takes a place, though of unknown size."""
    meta = pod.metadata
    return Request(meta.name, meta.namespace, meta.uid, labels=meta.labels)


def claim_id(claim: Claim) -> str:
    """Return what stands for a claim that no pod on the node is counted for."""
    return f"claim {claim.metadata.namespace}/{claim.metadata.name}"


def placements(
    node: NodeState, tenants: Sequence[Tenant], claims: Iterable[Claim], told: Holders
) -> dict[str, Placement]:
    """Return everything that is placed on a node, by id; the order in which things are given is no matter."""
    devices = {device.id: device for device in node.devices}
    ordered = sorted(tenants, key=lambda each: each.request.id)
    claimed, alone = _claimed(node.name, devices, ordered, claims)
    found: dict[str, Placement] = {}
    untold: list[Request] = []
    for claim, held in alone:
        shares = _of_named(held, devices, counted=node.counted)
        if shares is None:
            untold.append(replace(claim, demand=_demand(held)))
        elif shares:
            found[claim.id] = Placement(claim, node.name, shares)
    for tenant in ordered:
        request = tenant.request
        shares = _of_named(_shares(tenant, claimed, told), devices, counted=node.counted)
        if shares is None:
            untold.append(request)
        else:
            if request.demand.count and not shares:  # another is counted for the claim that they share
                request = replace(request, demand=Demand())
            found[request.id] = Placement(request, node.name, shares)
    for request in untold:
        found[request.id] = Placement(request, node.name, _likely(request, devices, found.values()))
    return found


def _claimed(
    node: str, devices: Mapping[str, DeviceState], tenants: Sequence[Tenant], claims: Iterable[Claim]
) -> tuple[dict[str, list[Share]], list[tuple[Request, list[Share]]]]:
    """Return what claims hold: by the pod that is counted for them, and those that have none here."""
    here = {each.request.id for each in tenants}
    claimed: dict[str, list[Share]] = {}
    alone = []
    for claim in sorted(claims, key=lambda each: each.key):
        ours = [each for each in claim.results if each.device in devices or each.driver == DRIVER]
        shares = [given(each) for each in ours if each.pool == node]
        users = [uid for uid in claim.users if uid in here]
        for uid in users:
            claimed.setdefault(uid, [])
        if users:
            claimed[min(users)] += shares
        elif shares:
            name = claim_id(claim)
            request = Request(name, claim.metadata.namespace, uid=name, priority=FOREVER, preempts=False)
            alone.append((request, shares))
    return claimed, alone


def given(result: AllocatedDevice) -> Share:
    """Return what a claim holds of a device; what does not say how much is given whole."""
    used = {name.rpartition("/")[2]: value for name, value in result.consumed_capacity.items()}
    try:
        memory = amounts.quantity("memory", used["memory"])
        return Share(result.device, memory, amounts.whole("compute", used.get("compute", 0)))
    except (KeyError, ManifestError):
        return Share(result.device, whole=True)


def filled(share: Share, devices: Mapping[str, DeviceState]) -> Share:
    """Return a whole share with all that the accelerator has; as it is where the accelerator is not known."""
    device = devices.get(share.device)
    if not share.whole or device is None:
        return share
    return replace(share, memory=device.memory, compute=device.compute)


def _of_named(
    shares: Sequence[Share] | None, devices: Mapping[str, DeviceState], *, counted: bool
) -> tuple[Share, ...] | None:
    """Return the shares of devices that a node's source names; None: it only counts, and not by these names.

    A share of a device that a source does not name is taken of no other device.
    """
    if shares is None or (counted and any(each.device not in devices for each in shares)):
        return None
    return tuple(filled(each, devices) for each in shares if each.device in devices)


def _demand(shares: Sequence[Share]) -> Demand:
    """Return what asks for just these shares."""
    first = shares[0]
    if first.whole:
        return Demand(len(shares))
    return Demand(len(shares), first.memory, first.compute or None)


def _shares(tenant: Tenant, claimed: Mapping[str, list[Share]], told: Holders) -> Sequence[Share] | None:
    """Return what somebody says that a pod holds; None where nobody does though it asks for something."""
    request, pod = tenant.request, tenant.pod
    if pod is None:
        return tenant.assumed
    if request.id in claimed:
        return claimed[request.id]
    if request.demand == Demand():
        return ()
    noted = parse_shares(pod.metadata.annotations.get(PLACEMENT, "null"))
    return noted or told.get(f"{request.namespace}/{request.name}") or _gpushare(pod, request) or None


def _gpushare(pod: Pod, request: Request) -> tuple[Share, ...]:
    index = pod.metadata.annotations.get(keys.ALIYUN_INDEX, "")
    if not index.isdecimal() or request.demand.memory is None:
        return ()
    return (Share(f"gpu-{index}", request.demand.memory),)


def _likely(
    request: Request, devices: Mapping[str, DeviceState], found: Iterable[Placement]
) -> tuple[Share, ...]:
    held: dict[str, list[Share]] = {name: [] for name in devices}
    for placement in found:
        for share in placement.shares:
            held[share.device].append(share)
    fitting = []
    for name, device in devices.items():
        share = share_of(request, device)
        left = device.memory - sum(each.memory for each in held[name])
        spare = device.compute - sum(each.compute for each in held[name])
        right = not request.demand.models or device.model in request.demand.models
        if right and not (share.whole and held[name]) and left >= share.memory and spare >= share.compute:
            fitting.append((left, spare, name, share))
    return tuple(each[-1] for each in sorted(fitting)[: request.demand.count])

"""How a pod gets its accelerators: by its binding alone, or by a claim that this scheduler creates. Pure.

Where a node's agent hands over the devices that a binding's annotation names, that one write is enough, if
the kubelet finds the units: it counts the pods' requests against the node's allocatable, and a pod that it
refuses has failed for good. A pod that the kubelet may refuse gets a claim, which the kubelet tries to
prepare again and again.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from fairlead import keys
from fairlead.annotations import ALL, parse_allocated, parse_devices
from fairlead.cache.types import LivePod
from fairlead.keys import ALLOCATED, DEVICES, PLACEMENT_FORMAT
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.pod.effective import effective_requests
from fairlead.manifest.types.kubernetes import Amount, Node
from fairlead.offer import Form
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from fairlead.units import parse_quantity

_UNITS: Final[Mapping[str, int]] = {keys.GPU_MEM: 1 << 20, keys.GPU_MEM_GIB: 1 << 30}
"""Resources that are shares of one accelerator's memory, with the bytes of a unit."""


def reason_for_claim(
    pod: LivePod, shares: Sequence[DeviceShare], node: Node | None, others: Iterable[LivePod]
) -> str:
    """Return why the binding alone is not enough for a pod on a node with others; empty where it is."""
    reads = node.metadata.annotations.get(PLACEMENT_FORMAT, "") if node is not None else ""
    if node is None or not reads.isdecimal() or int(reads) < PLACEMENTS.newest:
        return f"the node's agent does not read placements of format {PLACEMENTS.newest}"
    if pod.status.extended_resource_claim_status.resource_claim_name:
        return "the pod's status already names a claim, which cannot be removed"
    requested = {
        name: count
        for name, count in effective_requests("", pod.spec).items()
        if is_accelerator(name) and count
    }
    if len(requested) != 1:
        return "it requests accelerators by more than one resource"
    resource, count = requested.popitem()
    annotations = node.metadata.annotations
    if not _units_match(resource, count, shares) or not _has_unit_devices(
        resource, shares, annotations.get(DEVICES, "")
    ):
        return f"units of {resource} do not stand for the devices that it was allocated"
    uid = pod.metadata.uid
    used = sum(_kubelet_count(other, resource) for other in others if other.metadata.uid != uid)
    room = _parse_units(node.status.allocatable.get(resource, 0))
    if used + count > room:
        return f"the kubelet counts {used} of {room} {resource} as taken"
    return _conflicting_form(resource, shares, annotations.get(ALLOCATED, ""))


def _units_match(resource: str, count: int, shares: Sequence[DeviceShare]) -> bool:
    """Say whether `count` units of a resource are exactly these shares."""
    if resource in _UNITS:
        return [(share.memory, share.whole) for share in shares] == [(count * _UNITS[resource], False)]
    whole = resource.startswith(keys.PREFIX) and all(share.whole for share in shares)
    return whole and len(shares) == count


def _has_unit_devices(resource: str, shares: Sequence[DeviceShare], annotation: str) -> bool:
    """Say whether the node offers these accelerators in units: a kubelet cannot list those of a large one."""
    devices = parse_devices(annotation)
    by_units = {device.id for device in devices or () if device.by_units}
    return devices is None or resource not in _UNITS or by_units.issuperset(share.device for share in shares)


def _kubelet_count(pod: LivePod, resource: str) -> int:
    """Return at least as many units as the kubelet counts for a pod when it admits another one.

    A pod with a claim of its own counts twice: its request stays, and the agent withdraws its units.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    amounts = ({**one.resources.limits, **one.resources.requests}.get(resource, 0) for one in containers)
    by_claim = bool(pod.status.extended_resource_claim_status.resource_claim_name)
    return sum(map(_parse_units, amounts)) * (2 if by_claim else 1)


def _conflicting_form(resource: str, shares: Sequence[DeviceShare], annotation: str) -> str:
    """Return which accelerator the node's agent still reports as held in a form that excludes this one."""
    allocated = parse_allocated(annotation) or {}
    for device in (*(share.device for share in shares), ALL):
        forms = allocated.get(device, {})
        against = forms.keys() - {Form.WHOLE} if resource not in _UNITS else forms.keys() & {Form.WHOLE}
        alone = 0 in forms.get(Form.CLAIM, {}).values()
        if against or alone:
            return f"{device} is, or was a moment ago, held in another form"
    return ""


@lru_cache(maxsize=1024)
def _parse_units(amount: Amount) -> int:
    """Return a number of units; 0 for one that cannot be read."""
    try:
        return parse_quantity(str(amount))
    except ValueError:
        return 0

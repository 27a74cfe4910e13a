"""Which way a pod gets its accelerators: by its binding alone, or by a claim of our making. Pure.

Where a node's agent hands over what a binding notes, that one write is enough, if the kubelet will find the
units: it counts what pods ask for against what the node offers, and a pod that it refuses has failed for
good. Who is not sure to be let in goes by a claim, which a kubelet tries to prepare again and again.
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
from fairlead.placement import PLACEMENTS, DeviceShare
from fairlead.units import parse_quantity

_UNITS: Final[Mapping[str, int]] = {keys.GPU_MEM: 1 << 20, keys.GPU_MEM_GIB: 1 << 30}
"""Resources that are shares of one accelerator's memory, and how many bytes a unit has."""


def reason_for_claim(
    pod: LivePod, shares: Sequence[DeviceShare], node: Node | None, others: Iterable[LivePod]
) -> str:
    """Return why the binding alone would not do for a pod on a node with others; empty where it does."""
    reads = node.metadata.annotations.get(PLACEMENT_FORMAT, "") if node is not None else ""
    if node is None or not reads.isdecimal() or int(reads) < PLACEMENTS.newest:
        return f"the node's agent does not read placements of format {PLACEMENTS.newest}"
    if pod.status.extended_resource_claim_status.resource_claim_name:
        return "it points to a claim already, and a pod cannot take that back"
    asked = {
        name: count
        for name, count in effective_requests("", pod.spec).items()
        if is_accelerator(name) and count
    }
    if len(asked) != 1:
        return "more than one resource stands for its accelerators"
    resource, count = asked.popitem()
    notes = node.metadata.annotations
    if not _units_match(resource, count, shares) or not _has_unit_devices(
        resource, shares, notes.get(DEVICES, "")
    ):
        return f"{resource} cannot say what it was given"
    uid = pod.metadata.uid
    used = sum(_kubelet_count(other, resource) for other in others if other.metadata.uid != uid)
    room = _parse_units(node.status.allocatable.get(resource, 0))
    if used + count > room:
        return f"the kubelet counts {used} of {room} {resource} as taken"
    return _conflicting_form(resource, shares, notes.get(ALLOCATED, ""))


def _units_match(resource: str, count: int, shares: Sequence[DeviceShare]) -> bool:
    """Say whether so many units of a resource are just these shares."""
    if resource in _UNITS:
        return [(share.memory, share.whole) for share in shares] == [(count * _UNITS[resource], False)]
    whole = resource.startswith(keys.PREFIX) and all(share.whole for share in shares)
    return whole and len(shares) == count


def _has_unit_devices(resource: str, shares: Sequence[DeviceShare], note: str) -> bool:
    """Say whether there are units of just these accelerators: a kubelet cannot bear as many as some have."""
    told = parse_devices(note)
    by_units = {each.id for each in told or () if each.by_units}
    return told is None or resource not in _UNITS or by_units.issuperset(share.device for share in shares)


def _kubelet_count(pod: LivePod, resource: str) -> int:
    """Return at least as much as the kubelet counts a pod for, when it lets another one in.

    A pod that has it by a claim counts twice: its request stands, and the agent withdraws its units.
    """
    every = (*pod.spec.init_containers, *pod.spec.containers)
    asked = ({**each.resources.limits, **each.resources.requests}.get(resource, 0) for each in every)
    by_claim = bool(pod.status.extended_resource_claim_status.resource_claim_name)
    return sum(map(_parse_units, asked)) * (2 if by_claim else 1)


def _conflicting_form(resource: str, shares: Sequence[DeviceShare], note: str) -> str:
    """Return which of the accelerators a node's agent still says to be held in a form that excludes this."""
    held = parse_allocated(note) or {}
    for device in (*(share.device for share in shares), ALL):
        forms = held.get(device, {})
        against = forms.keys() - {Form.WHOLE} if resource not in _UNITS else forms.keys() & {Form.WHOLE}
        alone = 0 in forms.get(Form.CLAIM, {}).values()
        if against or alone:
            return f"{device} is, or was a moment ago, held in another form"
    return ""


@lru_cache(maxsize=1024)
def _parse_units(amount: Amount) -> int:
    """Return a number of units; what cannot be read is none."""
    try:
        return parse_quantity(str(amount))
    except ValueError:
        return 0

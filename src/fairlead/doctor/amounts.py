"""The check that matters most: no device is allocated beyond what it has, by what the API says alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.annotations import ALL
from fairlead.cluster.objects import AllocatedDevice
from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import ClusterView, full_name
from fairlead.errors import ManifestError
from fairlead.keys import ALLOCATED, PLACEMENT, PREFIX
from fairlead.manifest.amounts import quantity
from fairlead.manifest.node.claimed_share import allocated_share
from fairlead.manifest.node.holdings import reported_shares
from fairlead.manifest.types.dra import Device
from fairlead.manifest.types.live import LiveClaim
from fairlead.offer import DRIVER
from fairlead.placement import parse_shares
from fairlead.units import format_bytes

Place = tuple[str, str]
"""A node, and a device of that node."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class AllocatedAmount:
    """The part of a device that one pod or claim holds."""

    place: Place
    holder: str
    uid: str
    """The uid of the pod or claim; empty where only an agent reports it."""
    memory: int
    """Bytes; 0 with `whole`."""
    whole: bool = False
    claim: bool = False


def given_away(view: ClusterView) -> list[CheckResult]:
    """Report the devices that are allocated beyond their capacity."""
    capacity, uses = _capacity_by_place(view), _lasting_uses(view)
    by_place: dict[Place, list[AllocatedAmount]] = {}
    for use in uses:
        by_place.setdefault(use.place, []).append(use)
    over = [_overcommit(place, held, capacity.get(place, 0)) for place, held in sorted(by_place.items())]
    results = [result for result in over if result]
    # A slice leaves out a device that containers hold whole; it never leaves out what claims hold.
    lost = {" ".join(use.place) for use in uses if use.claim and use.place not in capacity}
    if lost:
        text = f"claims hold devices that no slice offers any more: {some(lost)}"
        todo = "find the reason on the node: fairlead detect; pods there may have lost their device"
        results.append(warn(text, todo))
    verb = "is" if len(by_place) == 1 else "are"
    devices = f"{len(by_place)} of {count(capacity, 'device')} {verb} in use"
    return results or [ok(f"no device is allocated beyond its capacity; {devices}")]


def _capacity_by_place(view: ClusterView) -> dict[Place, int]:
    """Return the memory of every device that was offered in either view."""
    capacity = dict(capacities(view))
    for place, memory in capacities(view.earlier) if view.earlier else ():
        capacity[place] = max(memory, capacity.get(place, 0))
    return capacity


def _lasting_uses(view: ClusterView) -> list[AllocatedAmount]:
    """Return the uses of devices; of two views, only those in both: these also lasted in between."""
    before = set(device_uses(view.earlier)) if view.earlier else None
    return [use for use in device_uses(view) if before is None or use in before]


def _overcommit(place: Place, uses: list[AllocatedAmount], capacity: int) -> CheckResult | None:
    total = sum(use.memory for use in uses)
    shared_whole = any(use.whole for use in uses) and len(uses) > 1
    if not shared_whole and (not capacity or total <= capacity):
        return None
    allocated = "a whole device" if shared_whole else f"{format_bytes(total)} of {format_bytes(capacity)}"
    names = some(use.holder for use in uses)
    return fail(
        f"{' '.join(place)}: {allocated} allocated to {names}",
        "delete one; then find what else allocates this device (checks other-plugins, two-schedulers)",
    )


def capacities(view: ClusterView) -> Iterator[tuple[Place, int]]:
    """Yield the memory of every device; slices leave out what containers hold, the node's labels do not."""
    labels = {node.metadata.name: node.metadata.labels for node in view.nodes}
    for slice_ in view.own_slices:
        for device in slice_.spec.devices:
            node_labels = labels.get(slice_.spec.node_name, {})
            memory = max(_offered(device), _labelled(device, node_labels))
            yield (slice_.spec.pool.name, device.name), memory


def _offered(device: Device) -> int:
    try:
        return quantity("memory", device.capacity.get("memory", {}).get("value", 0))
    except ManifestError:
        return 0


def _labelled(device: Device, labels: Mapping[str, str]) -> int:
    model = device.attributes.get("model", {}).get("string", "")
    text = labels.get(f"{PREFIX}{model}.memory-mib", "")
    return int(text) * _MIB if text.isdecimal() else 0


def device_uses(view: ClusterView) -> Iterator[AllocatedAmount]:
    """Yield the uses of devices: each claim once, pods without claims, then other pods that agents report."""
    claimed = set[str]()
    for claim in view.claims:
        ours = [result for result in claim.results if result.driver == DRIVER]
        claimed |= set(claim.users) if ours else set()
        yield from (_claim_use(claim, result) for result in ours)
    known = set[str]()
    for pod in view.pods:
        annotation = pod.metadata.annotations.get(PLACEMENT)
        shares = (parse_shares(annotation) or ()) if annotation else ()
        if pod.metadata.uid in claimed or not pod.spec.node_name or pod.ended:
            known.add(full_name(pod))
            continue
        known |= {full_name(pod)} if shares else set()
        for share in shares:
            place = pod.spec.node_name, share.device
            yield AllocatedAmount(place, full_name(pod), pod.metadata.uid, share.memory, share.whole)
    yield from _reported_uses(view, known)


def _claim_use(claim: LiveClaim, result: AllocatedDevice) -> AllocatedAmount:
    share, place = allocated_share(result), (result.pool, result.device)
    key, memory = "/".join(claim.key), share.memory
    return AllocatedAmount(place, key, claim.metadata.uid, memory, share.whole, claim=True)


def _reported_uses(view: ClusterView, known: set[str]) -> Iterator[AllocatedAmount]:
    """Yield what agents report of pods whose share neither a claim nor an annotation names."""
    for node in view.nodes:
        name, allocated = node.metadata.name, node.metadata.annotations.get(ALLOCATED, "")
        for pod, shares in reported_shares(name, allocated, ()).items() if allocated else ():
            for share in shares if pod not in known else ():
                if share.device != ALL:
                    yield AllocatedAmount((name, share.device), pod, "", share.memory, share.whole)

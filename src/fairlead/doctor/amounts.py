"""The check that matters most: of no device more is given away than it has, by what the API says alone."""

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
from fairlead.manifest.node.holdings import allocated_share, reported_shares
from fairlead.manifest.types.dra import Device
from fairlead.manifest.types.live import LiveClaim
from fairlead.offer import DRIVER
from fairlead.placement import parse_shares
from fairlead.units import format_bytes

Place = tuple[str, str]
"""A node, and a device there."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one holder has of a device."""

    place: Place
    holder: str
    uid: str
    """Of the pod or claim; empty where only an agent tells of it."""
    memory: int
    """Bytes; 0 with `whole`."""
    whole: bool = False
    claim: bool = False


def given_away(sight: ClusterView) -> list[CheckResult]:
    """Say which devices are given away more than once."""
    room, held = _capacity_by_place(sight), _lasting_uses(sight)
    by_place: dict[Place, list[DeviceUse]] = {}
    for each in held:
        by_place.setdefault(each.place, []).append(each)
    over = [_overcommit(place, found, room.get(place, 0)) for place, found in sorted(by_place.items())]
    said = [each for each in over if each]
    # What containers hold to the last is left out of slices; what claims hold never is.
    lost = {" ".join(each.place) for each in held if each.claim and each.place not in room}
    if lost:
        text = f"claims hold what no slice offers any more: {some(lost)}"
        said.append(warn(text, "see on the node why: fairlead detect; pods there may have lost their device"))
    verb = "is" if len(by_place) == 1 else "are"
    devices = f"{len(by_place)} of {count(room, 'device')} {verb} held"
    return said or [ok(f"nothing is given away twice; {devices}")]


def _capacity_by_place(sight: ClusterView) -> dict[Place, int]:
    """Return the memory of every device that was offered in any look."""
    found = dict(capacities(sight))
    for place, memory in capacities(sight.earlier) if sight.earlier else ():
        found[place] = max(memory, found.get(place, 0))
    return found


def _lasting_uses(sight: ClusterView) -> list[DeviceUse]:
    """Return who holds what; of two looks, only what is the same in both: that was so in between as well."""
    stayed = set(device_uses(sight.earlier)) if sight.earlier else None
    return [each for each in device_uses(sight) if stayed is None or each in stayed]


def _overcommit(place: Place, found: list[DeviceUse], room: int) -> CheckResult | None:
    total = sum(each.memory for each in found)
    crowded = any(each.whole for each in found) and len(found) > 1
    if not crowded and (not room or total <= room):
        return None
    sum_of = "a whole device to several" if crowded else f"{format_bytes(total)} of {format_bytes(room)}"
    who = some(each.holder for each in found)
    return fail(
        f"{' '.join(place)}: {sum_of} given away, to {who}",
        "delete one; then see who else gives out this device (checks other-plugins, two-schedulers)",
    )


def capacities(sight: ClusterView) -> Iterator[tuple[Place, int]]:
    """Yield the memory of every device; a slice leaves out what containers hold, the node's labels do not."""
    labels = {node.metadata.name: node.metadata.labels for node in sight.nodes}
    for each in sight.own_slices:
        for device in each.spec.devices:
            told = labels.get(each.spec.node_name, {})
            yield (each.spec.pool.name, device.name), max(_offered(device), _labelled(device, told))


def _offered(device: Device) -> int:
    try:
        return quantity("memory", device.capacity.get("memory", {}).get("value", 0))
    except ManifestError:
        return 0


def _labelled(device: Device, labels: Mapping[str, str]) -> int:
    model = device.attributes.get("model", {}).get("string", "")
    text = labels.get(f"{PREFIX}{model}.memory-mib", "")
    return int(text) * _MIB if text.isdecimal() else 0


def device_uses(sight: ClusterView) -> Iterator[DeviceUse]:
    """Yield who holds what: claims once each, then pods that have none, then what agents know of others."""
    claimed = set[str]()
    for claim in sight.claims:
        ours = [each for each in claim.results if each.driver == DRIVER]
        claimed |= set(claim.users) if ours else set()
        yield from (_claim_use(claim, each) for each in ours)
    known = set[str]()
    for pod in sight.pods:
        note = pod.metadata.annotations.get(PLACEMENT)
        shares = (parse_shares(note) or ()) if note else ()
        if pod.metadata.uid in claimed or not pod.spec.node_name or pod.ended:
            known.add(full_name(pod))
            continue
        known |= {full_name(pod)} if shares else set()
        for share in shares:
            place = pod.spec.node_name, share.device
            yield DeviceUse(place, full_name(pod), pod.metadata.uid, share.memory, share.whole)
    yield from _reported_uses(sight, known)


def _claim_use(claim: LiveClaim, result: AllocatedDevice) -> DeviceUse:
    share, place = allocated_share(result), (result.pool, result.device)
    return DeviceUse(place, "/".join(claim.key), claim.metadata.uid, share.memory, share.whole, claim=True)


def _reported_uses(sight: ClusterView, known: set[str]) -> Iterator[DeviceUse]:
    """Yield what nodes' agents say of pods that nobody else tells of."""
    for node in sight.nodes:
        name, note = node.metadata.name, node.metadata.annotations.get(ALLOCATED, "")
        for pod, shares in reported_shares(name, note, ()).items() if note else ():
            for share in shares if pod not in known else ():
                if share.device != ALL:
                    yield DeviceUse((name, share.device), pod, "", share.memory, share.whole)

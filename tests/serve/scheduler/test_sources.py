"""A device is in the cluster because one source of its node names it: two sources never add up."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import CLAIMS, SLICES, LiveClaim, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.keys import ALLOCATED, DEVICES, PLACEMENT
from fairlead.manifest.types.dra import Slice
from fairlead.manifest.types.kubernetes import Node
from fairlead.placement import PLACEMENTS, Decision
from fairlead.schedule import place
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.cache.test_cache import cache_of, shares
from tests.serve.scheduler.objects import GIB, claim, node, pod, read

LABELS = {
    f"fairlead.dev/a40.{name}": value
    for name, value in {"count": "2", "usable": "2", "kind": "gpu", "memory-mib": "40960"}.items()
}
COUNTED = ("a40-0", "a40-1")
"""The names that two A40 get where labels only count them."""
BY_BUS = ("pci-0000-01-00-0", "pci-0000-02-00-0")
MIB = 20 * 1024


def noted(accelerators: object) -> str:
    """Return the text of an agent's annotation."""
    return json.dumps({"version": 1, "accelerators": accelerators})


def labelled(notes: dict[str, str] | None = None) -> Node:
    """Return a node whose labels count two A40; `notes` are its annotations."""
    plain = node("n")
    meta = structs.replace(plain.metadata, labels=LABELS, annotations=notes or {})
    return structs.replace(plain, metadata=meta)


def sliced(names: Sequence[str]) -> Slice:
    """Return the slice of our driver that names these A40."""
    devices = [
        {
            "name": name,
            "attributes": {"model": {"string": "a40"}, "shareable": {"bool": True}},
            "capacity": {"memory": {"value": "40Gi"}},
            "allowMultipleAllocations": True,
        }
        for name in names
    ]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "fairlead.dev", "nodeName": "n", "pool": pool, "devices": devices}
    slice_: Slice = read(SLICES, {"metadata": {"name": "n-fairlead-0", "uid": "s"}, "spec": spec})
    return slice_


def holding(name: str, device: str, mib: int = 0, uid: str = "") -> LivePod:
    """Return a bound pod whose binding names a device: `mib` of it, or the whole of it."""
    note = PLACEMENTS.encode((DeviceShare(device, Bytes(mib << 20), whole=not mib),))
    return pod(name, on="n", mib=mib or 40960, notes={PLACEMENT: note}, uid=uid)


def claim_on(device: str, user: LivePod) -> LiveClaim:
    """Return a claim that is allocated 20 GiB of a device for a pod."""
    made = claim("c", user, on="n", mib=MIB)
    document = json.loads(msgspec.json.encode(made))
    document["status"]["allocation"]["devices"]["results"][0]["device"] = device
    moved: LiveClaim = read(CLAIMS, document)
    return moved


def devices_of(cache: SchedulerCache) -> dict[str, int]:
    """Return the free GiB of each device that the engine knows."""
    return {each.id: each.memory // GIB for each in cache.cluster.free("n").devices}


def decided(cache: SchedulerCache, name: str = "new", mib: int = MIB) -> Decision:
    """Return the decision for one more pod."""
    cache.on_event(ObjectChange(None, pod(name, mib=mib)))
    (asked,) = cache.sync().pending
    assert not isinstance(asked, UnreadablePod)
    return place(cache.cluster, asked)


def test_a_device_that_is_held_whole_is_counted_once_when_another_leaves_the_slice(
    catalog: Catalog,
) -> None:
    both = sliced(COUNTED)
    cache = cache_of(catalog, [labelled(), both, holding("owner", "a40-1")])
    assert devices_of(cache) == {"a40-0": 40, "a40-1": 0}
    cache.on_event(ObjectChange(both, sliced(["a40-1"])))
    cache.sync()
    assert devices_of(cache) == {"a40-1": 0}
    assert not decided(cache).placed


def test_no_device_is_added_from_labels_beside_a_slice(catalog: Catalog) -> None:
    cache = cache_of(catalog, [labelled(), sliced(BY_BUS[1:]), holding("owner", BY_BUS[1])])
    assert devices_of(cache) == {BY_BUS[1]: 0}
    assert not decided(cache).placed


@pytest.mark.parametrize("source", ["binding", "agent", "claim"])
def test_holders_of_a_device_that_the_slice_left_out_take_nothing_of_another(
    catalog: Catalog, source: str
) -> None:
    gone, stays = BY_BUS
    notes = {ALLOCATED: noted({gone: {"memory": {"default/owner/main": MIB}}})}
    owner = holding("owner", gone, MIB) if source == "binding" else pod("owner", on="n", mib=MIB)
    allocated = claim_on(gone, owner)
    world: list[Any] = [labelled(notes if source == "agent" else {}), sliced(BY_BUS), owner]
    cache = cache_of(catalog, [*world, allocated] if source == "claim" else world)
    assert devices_of(cache) == {gone: 20, stays: 40}
    cache.on_event(ObjectChange(sliced(BY_BUS), sliced([stays])))
    cache.sync()
    assert (devices_of(cache), shares(cache, "uid-owner")) == ({stays: 40}, [])
    cache.on_event(ObjectChange(sliced([stays]), sliced(BY_BUS)))
    cache.sync()
    assert devices_of(cache) == {gone: 20, stays: 40}, "the device came back, and with it its holder"


def test_a_pod_that_is_being_bound_to_a_device_that_leaves_the_slice_takes_no_other(catalog: Catalog) -> None:
    gone, stays = BY_BUS
    cache = cache_of(catalog, [labelled(), sliced([gone]), pod("unreported", on="n", mib=MIB)])
    placement = decided(cache).placement
    assert placement is not None
    cache.assume([placement])
    cache.on_event(ObjectChange(sliced([gone]), sliced([stays])))
    cache.sync()
    assert devices_of(cache) == {stays: 20}, "a holder of an unknown device is counted where it may be"


@pytest.mark.parametrize("source", ["binding", "agent", "claim"])
def test_where_labels_only_count_devices_one_held_under_another_name_is_among_them(
    catalog: Catalog, source: str
) -> None:
    notes = {ALLOCATED: noted({BY_BUS[0]: {"memory": {"default/owner/main": 40960}}})}
    owner = pod("owner", on="n", mib=40960)
    world: list[Any] = [labelled(notes if source == "agent" else {})]
    if source == "claim":
        world.append(claim("c", pod("waits", mib=40960), on="n", mib=40960))
    else:
        world.append(holding("owner", BY_BUS[0], 40960) if source == "binding" else owner)
    cache = cache_of(catalog, world)
    assert sorted(devices_of(cache).values()) == [0, 40]


def test_the_agents_list_of_devices_counts_alone_whatever_slices_and_labels_are(catalog: Catalog) -> None:
    row = {"id": BY_BUS[0], "model": "a40", "vendor": "NVIDIA", "memory_mib": 40960, "shareable": True}
    cache = cache_of(catalog, [labelled({DEVICES: noted([row])}), sliced(["a40-7"])])
    assert devices_of(cache) == {BY_BUS[0]: 40}


def test_a_device_that_two_slices_name_is_one_device(catalog: Catalog) -> None:
    twice = sliced([*BY_BUS, BY_BUS[0]])
    assert devices_of(cache_of(catalog, [labelled(), twice])) == dict.fromkeys(BY_BUS, 40)

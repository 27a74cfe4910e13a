"""A snapshot and the scheduler say the same of one cluster: who is where, and holds what."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead import keys
from fairlead.cache.listed import Listed
from fairlead.catalog import Catalog
from fairlead.keys import PLACEMENT
from fairlead.manifest import snapshot
from fairlead.manifest.collect import Found, Objects
from fairlead.placement import Placement, Share
from fairlead.schedule import Cluster
from fairlead.units import Bytes
from tests import catalogs
from tests.cache.test_cache import folded
from tests.serve.scheduler.objects import claim, device_slice, node, pod

KINDS = {"Slice": "ResourceSlice", "Claim": "ResourceClaim"}


def taken(catalog: Catalog, objects: Sequence[Any]) -> snapshot.Snapshot:
    found = [
        Found(each.metadata.name, KINDS.get(type(each).__name__, type(each).__name__), each)
        for each in objects
    ]
    return Listed.of(Objects.of(found), catalog).snapshot


def by_id(placements: Sequence[Placement]) -> dict[str, Placement]:
    return {each.request.id: each for each in placements}


def binding(device: str, mib: int) -> str:
    return json.dumps([Share(device, Bytes(mib << 20)).to_json()])


def ways(number: int, way: str, on: str, mib: int) -> list[Any]:
    """Return a pod on a node whose accelerator is told in one of the ways there are."""
    name = f"p{number}"
    match way:
        case "claim":
            user = pod(name, on=on, mib=mib)
            return [user, claim(f"c{number}", user, on=on, mib=mib)]
        case "claim of a pod to come":
            user = pod(name, mib=mib)
            return [user, claim(f"c{number}", user, on=on, mib=mib)]
        case "binding":
            return [pod(name, on=on, mib=mib, notes={PLACEMENT: binding("gpu-1", mib)})]
        case "nonsense":
            return [pod(name, on=on, mib=mib, notes={keys.COMPUTE: "many"})]
        case "gpushare":
            return [pod(name, on=on, mib=mib, notes={keys.ALIYUN_INDEX: "1"})]
        case "ended":
            return [pod(name, on=on, mib=mib, phase="Succeeded")]
    return [pod(name, on=on, mib=mib)]


WAYS = ("claim", "claim of a pod to come", "binding", "nonsense", "gpushare", "ended", "nobody tells")
PODS = st.tuples(st.sampled_from(WAYS), st.sampled_from("nm"), st.sampled_from((0, 256, 1024, 4096)))


@settings(max_examples=60, deadline=None)
@given(st.lists(PODS, max_size=8), st.randoms(use_true_random=False))
def test_both_say_the_same_of_one_cluster(pods: list[tuple[str, str, int]], dice: Any) -> None:
    objects: list[Any] = [node("n"), device_slice("n"), node("m"), device_slice("m", devices=3)]
    for number, (way, on, mib) in enumerate(pods):
        objects += ways(number, way, on, mib)
    dice.shuffle(objects)
    catalog = catalogs.shipped()
    ours, theirs = taken(catalog, objects), folded(catalog, objects).cluster
    assert by_id(ours.placements) == by_id(list(theirs.placements()))
    mine = Cluster(ours.nodes, ours.placements)
    assert [mine.free(name) for name in "nm"] == [theirs.free(name) for name in "nm"]


def test_what_a_claim_holds_outlives_the_document(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    objects = [node("n"), device_slice("n"), waiting, claim("c", waiting, on="n")]
    kept = taken(catalog, objects)
    again = snapshot.parse(json.loads(json.dumps(kept.to_json())), "again")
    assert again.placements == kept.placements
    assert [each.shares[0].memory for each in again.placements] == [1 << 30]


def test_what_other_drivers_say_of_a_node_is_not_older_than_what_ours_does(catalog: Catalog) -> None:
    ours = device_slice("n", generation=7)
    other = replace(
        device_slice("n", devices=1),
        metadata=replace(ours.metadata, name="other"),
        spec=replace(device_slice("n", devices=1).spec, driver="gpu.nvidia.com"),
    )
    objects = [node("n"), ours, other]
    assert taken(catalog, objects).nodes == tuple(folded(catalog, objects).cluster.nodes())

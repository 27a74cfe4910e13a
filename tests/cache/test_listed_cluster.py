"""One translation: a list, a stream of changes and a file of the same objects are one cluster."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead import keys
from fairlead.cache.cache import SchedulerCache
from fairlead.cache.clusterfile import read_cluster
from fairlead.cache.listed_cluster import ListedCluster
from fairlead.cache.translator import UnreadablePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ManifestError
from fairlead.keys import PLACEMENT
from fairlead.manifest.files import snapshot
from fairlead.manifest.files.collect import FoundObjects, collect
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.types.kubernetes import PodResourceClaimStatus
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.placement import PLACEMENTS, NodeState, Placement
from fairlead.request import Request
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests import catalogs
from tests.serve.scheduler.objects import claim, device_slice, node, pod

KINDS = {"LivePod": "Pod", "LiveClaim": "ResourceClaim", "Slice": "ResourceSlice"}
Seen = tuple[dict[str, NodeState], dict[str, Placement], dict[str, Request], set[str]]


def document(item: Any) -> dict[str, Any]:
    """Return an object as the API server would print it."""
    if isinstance(item, dict):
        return item
    kind = KINDS.get(type(item).__name__, type(item).__name__)
    return {"apiVersion": "v1", "kind": kind, **msgspec.to_builtins(item)}


def listed(items: list[Any]) -> FoundObjects:
    return collect(("list", document(each)) for each in items)


def of_snapshot(described: Snapshot, unreadable: Iterable[UnreadablePod] = ()) -> Seen:
    nodes = {each.name: each for each in described.nodes}
    placements = {placement.request.id: placement for placement in described.placements}
    wrong = {each.id for each in unreadable}
    return nodes, placements, {each.id: each for each in described.pending}, wrong


def of_cache(catalog: Catalog, items: FoundObjects, dice: Random) -> Seen:
    """Return the cluster of a cache that observes objects one by one, some first in an older version."""
    cache = SchedulerCache(catalog)
    waiting: dict[str, Any] = {}
    events: list[ObjectChange[Any]] = []
    for entry in items.entries:
        before = entry.body
        if isinstance(before, LivePod) and before.spec.node_name and dice.random() < 0.5:
            before = replace(before, spec=replace(before.spec, node_name=""))
        elif isinstance(before, LiveClaim) and dice.random() < 0.5:
            before = replace(before, status=type(before.status)())
        events.append(ObjectChange(None, before))
        events += [ObjectChange(before, entry.body)] if before is not entry.body else []
    dice.shuffle(events)
    events.sort(
        key=lambda change: change.old is not None
    )  # of one object, the older version is observed first
    for change in events:
        cache.on_event(change)
        if dice.random() < 0.6:
            _take(waiting, cache)
    _take(waiting, cache)
    cluster = cache.cluster
    requests = {uid: each for uid, each in waiting.items() if isinstance(each, Request)}
    wrong = {*cache.unreadable, *(uid for uid in waiting if uid not in requests)}
    nodes = {each.name: each for each in cluster.nodes()}
    return nodes, {placement.request.id: placement for placement in cluster.placements()}, requests, wrong


def _take(waiting: dict[str, Any], cache: SchedulerCache) -> None:
    delta = cache.sync()
    for uid in delta.gone:
        waiting.pop(uid, None)
    waiting |= {each.id: each for each in delta.pending}


def named(name: str, spec: dict[str, Any], kind: str = "ResourceClaimTemplate") -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": meta, "spec": spec}


ASKS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fairlead.dev"}}]}}
TWO = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fairlead.dev", "count": 2}}]}}
TEMPLATE = named("t", {"spec": TWO})
RESULT = {"driver": "fairlead.dev", "device": "gpu-1"}


def volume(number: int, on: str) -> list[dict[str, Any]]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    spec = {
        "claimRef": {"namespace": "default", "name": f"data-{number}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    meta = {"name": f"data-{number}", "namespace": "default"}
    asked = {"volumeName": f"disk-{number}"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-{number}"},
            "spec": spec,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": meta,
            "spec": asked,
            "status": {"phase": "Bound"},
        },
    ]


def own_claim(number: int, on: str, mib: int) -> list[Any]:
    user = pod(f"p{number}", on=on, mib=mib)
    return [user, claim(f"c{number}", user, on=on, mib=mib)]


def early_claim(number: int, on: str, mib: int) -> list[Any]:
    user = pod(f"p{number}", mib=mib)
    return [user, claim(f"c{number}", user, on=on, mib=mib)]


def named_claim(number: int, on: str, mib: int) -> list[Any]:
    user = pod(f"p{number}", resourceClaims=[{"name": "it", "resourceClaimName": f"c{number}"}])
    held = named(f"c{number}", ASKS, "ResourceClaim")
    if mib:
        held["status"] = {"allocation": {"devices": {"results": [{**RESULT, "pool": on}]}}}
    return [user, held]


def template_claim(number: int, on: str, mib: int) -> list[Any]:
    """Return a pod whose claim was created from a template that has changed since; some are allocated."""
    its = [{"name": "it", "resourceClaimTemplateName": "t"}]
    user = pod(f"p{number}", on=on if mib > 512 else "", resourceClaims=its)
    made = (PodResourceClaimStatus("it", f"c{number}"),)
    held = named(f"c{number}", ASKS, "ResourceClaim")
    if mib:
        held["status"] = {
            "allocation": {"devices": {"results": [{**RESULT, "pool": on}]}},
            "reservedFor": [{"resource": "pods", "uid": user.metadata.uid}],
        }
    return [replace(user, status=replace(user.status, resource_claim_statuses=made)), held]


def binding(number: int, on: str, mib: int) -> list[Any]:
    note = PLACEMENTS.encode((DeviceShare("gpu-1", Bytes(mib << 20)),))
    return [pod(f"p{number}", on=on, mib=mib, notes={PLACEMENT: note})]


def mounted(number: int, on: str, mib: int) -> list[Any]:
    mount = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}
    return [pod(f"p{number}", mib=mib, volumes=[mount]), *volume(number, on)]


WAYS: dict[str, Callable[[int, str, int], list[Any]]] = {
    "its own claim": own_claim,
    "a claim that came before its pod was bound": early_claim,
    "a claim that it names": named_claim,
    "a claim that was made of a template": template_claim,
    "a binding": binding,
    "a volume": mounted,
    "nonsense": lambda number, on, mib: [
        pod(f"p{number}", on=on if mib else "", mib=mib, notes={keys.COMPUTE: "many"})
    ],
    "a gate": lambda number, on, mib: [pod(f"p{number}", mib=mib, schedulingGates=[{"name": "x/hold"}])],
    "a gang": lambda number, on, mib: [
        pod(f"p{number}", mib=mib, notes={keys.GANG: "all", keys.GANG_SIZE: "2"})
    ],
    "an end": lambda number, on, mib: [pod(f"p{number}", on=on, mib=mib, phase="Succeeded")],
    "a note of gpushare": lambda number, on, mib: [
        pod(f"p{number}", on=on, mib=mib, notes={keys.ALIYUN_INDEX: "1"})
    ],
    "nothing yet": lambda number, on, mib: [pod(f"p{number}", mib=mib)],
    "a node": lambda number, on, mib: [pod(f"p{number}", on=on, mib=mib)],
}
"""How a pod may hold devices, and the objects that show it."""
PODS = st.tuples(st.sampled_from(sorted(WAYS)), st.sampled_from("nm"), st.sampled_from((0, 256, 1024, 4096)))


def world(pods: list[tuple[str, str, int]], dice: Random) -> FoundObjects:
    items: list[Any] = [node("n"), device_slice("n"), node("m"), device_slice("m", devices=3), TEMPLATE]
    for number, (way, on, mib) in enumerate(pods):
        items += WAYS[way](number, on, mib)
    dice.shuffle(items)
    return listed(items)


@settings(max_examples=150, deadline=None)
@given(st.lists(PODS, max_size=8), st.integers())
def test_a_list_gives_the_same_cluster_as_a_watch(pods: list[tuple[str, str, int]], seed: int) -> None:
    dice, catalog = Random(seed), catalogs.shipped()
    objects = world(pods, dice)
    cluster = ListedCluster.of(objects, catalog)
    assert of_snapshot(cluster.snapshot, cluster.unreadable) == of_cache(catalog, objects, dice)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PODS.filter(lambda each: each[0] != "nonsense"), max_size=8), st.integers())
def test_a_file_is_the_cluster_that_it_was_printed_from(
    tmp_path: Path, pods: list[tuple[str, str, int]], seed: int
) -> None:
    objects, catalog = world(pods, Random(seed)), catalogs.shipped()
    items = [document(entry.body) | {"kind": entry.kind} for entry in objects.entries]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert of_snapshot(read_cluster([str(path)], catalog)) == of_snapshot(
        ListedCluster.of(objects, catalog).snapshot
    )


def test_objects_without_uids_are_distinct_and_show_none(catalog: Catalog) -> None:
    bare = [replace(each, metadata=replace(each.metadata, uid="")) for each in (pod("a"), pod("b", on="n"))]
    files = ListedCluster.of_files(listed([node("n"), *bare]), catalog).snapshot
    assert [(each.id, each.uid) for each in files.pending] == [("default/a", "")]
    assert [(placement.request.id, placement.request.uid) for placement in files.placements] == [
        ("default/b", "")
    ]


def test_two_pods_of_one_uid_are_refused_in_a_file(catalog: Catalog) -> None:
    twins = [pod("a", uid="u"), pod("b", uid="u")]
    with pytest.raises(ManifestError, match=r"Pod default/b: metadata.uid: u is there twice"):
        ListedCluster.of_files(listed([node("n"), *twins]), catalog)


def test_a_node_that_cannot_be_read_is_named_and_hides_no_other(catalog: Catalog) -> None:
    live = ListedCluster.of(listed([node("n"), node("odd", cpu="many"), pod("a")]), catalog)
    assert [each.name for each in live.snapshot.nodes] == ["n"]
    assert [str(error) for error in live.read_errors] == [
        "list: Node odd: status.allocatable.cpu: 'many' is not an amount"
    ]


def test_a_template_without_a_claim_places_a_pod_of_a_file_and_not_one_of_a_server(
    catalog: Catalog,
) -> None:
    template = named("t", {"spec": ASKS})
    items = listed(
        [node("n"), pod("a", resourceClaims=[{"name": "it", "resourceClaimTemplateName": "t"}]), template]
    )
    assert ListedCluster.of_files(items, catalog).snapshot.pending[0].demand.count == 1
    (unreadable,) = ListedCluster.of(items, catalog).unreadable
    assert isinstance(unreadable, UnreadablePod)
    assert "no claim exists yet for ResourceClaimTemplate default/t" in unreadable.reason


def test_a_kind_that_may_not_be_listed_blocks_no_pod(catalog: Catalog) -> None:
    mount = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    items = listed([node("n"), pod("a", volumes=[mount])])
    assert not ListedCluster.of(items, catalog).snapshot.pending
    forbidden = FoundObjects.of(items.entries, {"PersistentVolume": "you may not"})
    cluster = ListedCluster.of(forbidden, catalog)
    assert len(cluster.snapshot.pending) == 1
    assert [str(error) for error in cluster.read_errors] == ["volumes are not checked: you may not"]


def test_a_claim_counts_as_it_was_created_after_its_template_changed(catalog: Catalog) -> None:
    cluster = ListedCluster.of(
        listed([node("n"), device_slice("n"), TEMPLATE, *template_claim(0, "n", 0)]), catalog
    )
    assert [each.demand.count for each in cluster.snapshot.pending] == [1]


def test_an_allocation_survives_the_round_trip_of_a_snapshot(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    items = listed([node("n"), device_slice("n"), waiting, claim("c", waiting, on="n")])
    kept = ListedCluster.of(items, catalog).snapshot
    again = snapshot.parse(json.loads(json.dumps(kept.to_json())), "again")
    assert again.placements == kept.placements
    assert [placement.shares[0].memory for placement in again.placements] == [1 << 30]


def test_slices_of_other_drivers_do_not_make_ours_outdated(catalog: Catalog) -> None:
    ours, theirs = device_slice("n", generation=7), device_slice("n", devices=1)
    other = replace(
        theirs,
        metadata=replace(ours.metadata, name="other"),
        spec=replace(theirs.spec, driver="gpu.nvidia.com"),
    )
    (state,) = ListedCluster.of(listed([node("n"), ours, other]), catalog).snapshot.nodes
    assert [device.id for device in state.devices] == ["gpu-0", "gpu-1"]

"""The cache equals that of a list: whatever events are repeated, late or lost, the next list corrects it."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.events import ClusterEvent
from fairlead.cache.translator import UnreadablePod
from fairlead.cache.types import PLACEMENT
from fairlead.catalog import Catalog
from fairlead.cluster.meta import Metadata
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.cluster.watch.reflector import Reflector, WatchTiming
from fairlead.placement import PLACEMENTS, Placement
from fairlead.schedule import place
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.scheduler.objects import claim, device_slice, node, pod


def cache_of(catalog: Catalog, objects: Iterable[Any]) -> SchedulerCache:
    """Return the cache of a whole list."""
    cache = SchedulerCache(catalog)
    for object_ in objects:
        cache.on_event(ObjectChange(None, object_))
    cache.sync()
    return cache


def content(cache: SchedulerCache) -> tuple[Any, ...]:
    """Return the whole content of a cache, in a fixed order."""
    cluster = cache.cluster
    placements = sorted(cluster.placements(), key=lambda each: each.request.id)
    names = sorted(each.name for each in cluster.nodes())
    return placements, [cluster.node(name) for name in names], [cluster.free(name) for name in names]


def shares(cache: SchedulerCache, identity: str) -> list[tuple[str, int]]:
    placement = cache.cluster.placement(identity)
    assert placement is not None
    return [(share.device, share.memory >> 20) for share in placement.shares]


def test_a_claim_counts_from_its_allocation_and_for_its_pod_once_that_is_bound(
    catalog: Catalog,
) -> None:
    waiting = pod("a", mib=1024)
    cache = cache_of(catalog, [node("n"), device_slice("n"), waiting, claim("c", waiting, on="n")])
    assert shares(cache, "claim default/c") == [("gpu-0", 1024)]

    cache.on_event(ObjectChange(waiting, pod("a", 2, on="n", mib=1024)))
    cache.sync()
    assert shares(cache, "uid-a") == [("gpu-0", 1024)]
    assert cache.cluster.placement("claim default/c") is None
    assert cache.cluster.free("n").devices[0].memory >> 20 == 3072


def test_a_binding_names_the_accelerator_and_without_one_the_fullest_is_assumed(
    catalog: Catalog,
) -> None:
    note = PLACEMENTS.encode((DeviceShare("gpu-1", Bytes(1 << 30)),))
    placed, bare = pod("a", on="n", mib=1024, notes={PLACEMENT: note}), pod("b", on="n", mib=512)
    cache = cache_of(catalog, [node("n"), device_slice("n"), bare, placed])
    assert shares(cache, "uid-a") == [("gpu-1", 1024)]
    assert shares(cache, "uid-b") == [("gpu-1", 512)]


def test_an_assumed_pod_stays_assumed_until_the_api_server_shows_the_result(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    cache = SchedulerCache(catalog)
    for each in (node("n"), device_slice("n"), waiting):
        cache.on_event(ObjectChange(None, each))
    (asked,) = cache.sync().pending
    assert not isinstance(asked, UnreadablePod)
    decision = place(cache.cluster, asked)
    assert decision.placement is not None
    cache.assume([decision.placement])
    cache.on_event(ObjectChange(waiting, pod("a", 2, mib=1024, notes={"x": "y"})))
    assert cache.sync().pending == ()
    assert len(shares(cache, "uid-a")) == 1

    cache.forget("uid-a")
    delta = cache.sync()
    assert [each.id for each in delta.pending] == ["uid-a"]
    assert ClusterEvent.POD_DELETED in delta.events
    assert cache.cluster.placements() == ()


def test_a_pod_that_is_seen_bound_as_assumed_changes_nothing_for_the_engine(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    cache = SchedulerCache(catalog)
    for each in (node("n"), device_slice("n"), waiting):
        cache.on_event(ObjectChange(None, each))
    (asked,) = cache.sync().pending
    assert not isinstance(asked, UnreadablePod)
    placement = place(cache.cluster, asked).placement
    assert placement is not None
    cache.assume([placement])
    before = cache.cluster.changes

    note = PLACEMENTS.encode(placement.shares)
    bound = pod("a", 2, on="n", mib=1024, notes={PLACEMENT: note})
    cache.on_event(ObjectChange(waiting, bound))
    cache.finish_binding("uid-a")
    assert cache.sync().pending == ()
    assert cache.cluster.changes == before
    assert content(cache) == content(cache_of(catalog, [node("n"), device_slice("n"), bound]))


def test_a_new_claim_makes_the_pods_that_name_it_read_again(catalog: Catalog) -> None:
    one, other = (
        pod(name, resourceClaims=[{"name": "it", "resourceClaimName": f"of-{name}"}]) for name in "ab"
    )
    cache = cache_of(catalog, [one, other])
    foreign = msgspec.structs.replace(claim("of-a", one), metadata=Metadata(name="of-a", namespace="default"))
    cache.on_event(ObjectChange(None, foreign))
    assert [each.id for each in cache.sync().pending] == ["uid-a"]


def test_an_unreadable_pod_has_a_reason_and_a_deleted_one_is_not_pending(catalog: Catalog) -> None:
    cache = SchedulerCache(catalog)
    wrong = pod("a", mib=512, notes={"fairlead.dev/accelerators": "no-such-model"})
    cache.on_event(ObjectChange(None, wrong))
    (unreadable,) = cache.sync().pending
    assert isinstance(unreadable, UnreadablePod)
    assert "no-such-model" in unreadable.reason
    cache.on_event(ObjectChange(wrong, None))
    assert cache.sync().gone == ("uid-a",)


NODES, PODS = ("n0", "n1"), ("a", "b", "c")
Make = Callable[[int], Any]
"""An object of a version."""
makers = st.one_of(
    st.builds(
        lambda name, cpu: lambda version: node(name, version, cpu),
        st.sampled_from(NODES),
        st.sampled_from("48"),
    ),
    st.builds(
        lambda name, devices: lambda version: device_slice(name, version, devices),
        st.sampled_from(NODES),
        st.integers(0, 2),
    ),
    st.builds(
        lambda name, on, mib, phase, uid: lambda version: pod(name, version, on, mib, phase, f"{uid}-{name}"),
        st.sampled_from(PODS),
        st.sampled_from(("", *NODES)),
        st.sampled_from((0, 512, 3072)),
        st.sampled_from(("Pending", "Running", "Succeeded")),
        st.sampled_from("uv"),
    ),
    st.builds(
        lambda name, on, uid: lambda version: claim(f"c-{name}", pod(name, uid=f"{uid}-{name}"), on, version),
        st.sampled_from(PODS),
        st.sampled_from(("", *NODES)),
        st.sampled_from("uv"),
    ),
)
steps = st.lists(
    st.tuples(
        makers,
        st.sampled_from(["write", "write", "write", "delete", "settle"]),
        st.sampled_from(["observed", "observed", "twice", "missed", "late"]),
    ),
    max_size=40,
)


class Follower:
    """The reflectors of all kinds, in front of a cache."""

    def __init__(self, cache: SchedulerCache) -> None:
        self.cache = cache
        self.replicas: dict[type, Reflector[Any]] = {}

    def replica(self, kind: type) -> Reflector[Any]:
        if kind not in self.replicas:
            self.replicas[kind] = Reflector(WatchTiming(), Random(0))
            self.replicas[kind].next_request()
            self.replicas[kind].on_list([], "0")
        return self.replicas[kind]

    def observe(self, what: str, item: Any) -> None:
        for change in self.replica(type(item)).on_event(what, item):
            self.cache.on_event(change)

    def list(self, kind: type, items: list[Any], version: int) -> None:
        for change in self.replica(kind).on_list(items, str(version)):
            self.cache.on_event(change)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_after_any_events_the_cache_equals_that_of_the_list(
    catalog: Catalog, script: list[tuple[Make, str, str]]
) -> None:
    follower = Follower(SchedulerCache(catalog))
    truth: dict[tuple[type, Any], Any] = {}
    earlier: dict[tuple[type, Any], Any] = {}
    for version, (make, what, delivery) in enumerate(script, 1):
        item = make(version)
        key = (type(item), item.key)
        if what == "settle":
            follower.cache.sync()
            continue
        if what == "delete":
            truth.pop(key, None)
        else:
            truth[key] = item
        for _ in range({"observed": 1, "twice": 2, "late": 1}.get(delivery, 0)):
            follower.observe("DELETED" if what == "delete" else "MODIFIED", item)
        if delivery == "late":
            follower.observe("MODIFIED", earlier.get(key, item))
        earlier[key] = item
    last = len(script) + 1
    for kind in {kind for kind, _ in truth} | set(follower.replicas):
        follower.list(kind, [item for (each, _), item in truth.items() if each is kind], last)
    follower.cache.sync()
    assert content(follower.cache) == content(cache_of(catalog, truth.values()))


def test_a_placement_holds_what_it_takes(catalog: Catalog) -> None:
    cache = cache_of(
        catalog, [node("n"), device_slice("n"), pod("a", on="n", mib=4096), pod("b", on="n", mib=4096)]
    )
    placements: list[Placement] = sorted(cache.cluster.placements(), key=lambda each: each.request.id)
    assert [share.device for each in placements for share in each.shares] == ["gpu-0", "gpu-1"]


def test_pods_that_no_agent_reports_are_packed_so_that_all_of_them_fit(catalog: Catalog) -> None:
    sizes = {"a": 1280, "b": 768, "c": 2304, "d": 3072}  # in this order the last finds no device of 4 GiB
    pods = [pod(name, on="n", mib=mib) for name, mib in sizes.items()]
    cache = cache_of(catalog, [node("n"), device_slice("n"), *pods])
    assert [device.memory >> 20 for device in cache.cluster.free("n").devices] == [256, 512]

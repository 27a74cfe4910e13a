"""The cache is a fold of the list: whatever is heard, twice, late or never, the next list makes it right."""

import json
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.catalog import Catalog
from fairlead.cluster.changes import Change
from fairlead.cluster.meta import Metadata
from fairlead.cluster.replica import Replica, Timing
from fairlead.placement import Placement
from fairlead.schedule import place
from fairlead.serve.scheduler.events import Event
from fairlead.serve.scheduler.fold import Fold
from fairlead.serve.scheduler.reading import Unreadable
from fairlead.serve.scheduler.seen import PLACEMENT
from tests.serve.scheduler.objects import claim, device_slice, node, pod


def folded(catalog: Catalog, objects: Iterable[Any]) -> Fold:
    """Fold a whole list from scratch."""
    fold = Fold(catalog)
    for each in objects:
        fold.note(Change(None, each))
    fold.settle()
    return fold


def sight(fold: Fold) -> tuple[Any, ...]:
    """Return all that a fold says of a cluster, in an order of its own."""
    cluster = fold.cluster
    placements = sorted(cluster.placements(), key=lambda each: each.request.id)
    names = sorted(each.name for each in cluster.nodes())
    return placements, [cluster.node(name) for name in names], [cluster.free(name) for name in names]


def shares(fold: Fold, identity: str) -> list[tuple[str, int]]:
    found = fold.cluster.placement(identity)
    assert found is not None
    return [(share.device, share.memory >> 20) for share in found.shares]


def test_a_claim_counts_from_its_allocation_on_and_once_its_pod_is_bound_for_the_pod(
    catalog: Catalog,
) -> None:
    waiting = pod("a", mib=1024)
    fold = folded(catalog, [node("n"), device_slice("n"), waiting, claim("c", waiting, on="n")])
    assert shares(fold, "claim default/c") == [("gpu-0", 1024)]

    fold.note(Change(waiting, pod("a", 2, on="n", mib=1024)))
    fold.settle()
    assert shares(fold, "uid-a") == [("gpu-0", 1024)]
    assert fold.cluster.placement("claim default/c") is None
    assert fold.cluster.free("n").devices[0].memory >> 20 == 3072


def test_a_binding_tells_the_accelerator_and_where_nobody_does_the_fullest_is_likely(
    catalog: Catalog,
) -> None:
    note = '[{"device":"gpu-1","memory_bytes":1073741824,"compute_milli":0,"whole":false}]'
    told, untold = pod("a", on="n", mib=1024, notes={PLACEMENT: note}), pod("b", on="n", mib=512)
    fold = folded(catalog, [node("n"), device_slice("n"), untold, told])
    assert shares(fold, "uid-a") == [("gpu-1", 1024)]
    assert shares(fold, "uid-b") == [("gpu-1", 512)]


def test_what_is_assumed_stays_until_the_api_shows_what_became_of_it(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    fold = Fold(catalog)
    for each in (node("n"), device_slice("n"), waiting):
        fold.note(Change(None, each))
    (asked,) = fold.settle().came
    assert not isinstance(asked, Unreadable)
    decision = place(fold.cluster, asked)
    assert decision.placement is not None
    fold.assume([decision.placement])
    fold.note(Change(waiting, pod("a", 2, mib=1024, notes={"x": "y"})))
    assert fold.settle().came == ()
    assert len(shares(fold, "uid-a")) == 1

    fold.forget("uid-a")
    news = fold.settle()
    assert [each.id for each in news.came] == ["uid-a"]
    assert Event.ROOM in news.events
    assert fold.cluster.placements() == ()


def test_a_pod_that_is_seen_bound_as_assumed_changes_nothing_for_the_engine(catalog: Catalog) -> None:
    waiting = pod("a", mib=1024)
    fold = Fold(catalog)
    for each in (node("n"), device_slice("n"), waiting):
        fold.note(Change(None, each))
    (asked,) = fold.settle().came
    assert not isinstance(asked, Unreadable)
    placement = place(fold.cluster, asked).placement
    assert placement is not None
    fold.assume([placement])
    before = fold.cluster.changes

    note = json.dumps([each.to_json() for each in placement.shares])
    bound = pod("a", 2, on="n", mib=1024, notes={PLACEMENT: note})
    fold.note(Change(waiting, bound))
    fold.confirm("uid-a")
    assert fold.settle().came == ()
    assert fold.cluster.changes == before
    assert sight(fold) == sight(folded(catalog, [node("n"), device_slice("n"), bound]))


def test_a_claim_that_comes_has_those_read_anew_who_name_it(catalog: Catalog) -> None:
    one, other = (
        pod(name, resourceClaims=[{"name": "it", "resourceClaimName": f"of-{name}"}]) for name in "ab"
    )
    fold = folded(catalog, [one, other])
    foreign = msgspec.structs.replace(claim("of-a", one), metadata=Metadata(name="of-a", namespace="default"))
    fold.note(Change(None, foreign))
    assert [each.id for each in fold.settle().came] == ["uid-a"]


def test_a_pod_that_cannot_be_read_says_why_and_one_that_goes_waits_no_more(catalog: Catalog) -> None:
    fold = Fold(catalog)
    wrong = pod("a", mib=512, notes={"fairlead.dev/accelerators": "no-such-model"})
    fold.note(Change(None, wrong))
    (found,) = fold.settle().came
    assert isinstance(found, Unreadable)
    assert "no-such-model" in found.reason
    fold.note(Change(wrong, None))
    assert fold.settle().gone == ("uid-a",)


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
        st.sampled_from(["heard", "heard", "twice", "missed", "late"]),
    ),
    max_size=40,
)


class Follower:
    """Informers of all kinds, as far as they decide what to believe, before a fold."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.replicas: dict[type, Replica[Any]] = {}

    def replica(self, kind: type) -> Replica[Any]:
        if kind not in self.replicas:
            self.replicas[kind] = Replica(Timing(), Random(0))
            self.replicas[kind].next()
            self.replicas[kind].listed([], "0")
        return self.replicas[kind]

    def hear(self, what: str, item: Any) -> None:
        for change in self.replica(type(item)).observed(what, item):
            self.fold.note(change)

    def list(self, kind: type, items: list[Any], version: int) -> None:
        for change in self.replica(kind).listed(items, str(version)):
            self.fold.note(change)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_after_any_events_the_cache_is_a_fold_of_the_list(
    catalog: Catalog, script: list[tuple[Make, str, str]]
) -> None:
    follower = Follower(Fold(catalog))
    truth: dict[tuple[type, Any], Any] = {}
    earlier: dict[tuple[type, Any], Any] = {}
    for version, (make, what, heard) in enumerate(script, 1):
        item = make(version)
        key = (type(item), item.key)
        if what == "settle":
            follower.fold.settle()
            continue
        if what == "delete":
            truth.pop(key, None)
        else:
            truth[key] = item
        for _ in range({"heard": 1, "twice": 2, "late": 1}.get(heard, 0)):
            follower.hear("DELETED" if what == "delete" else "MODIFIED", item)
        if heard == "late":
            follower.hear("MODIFIED", earlier.get(key, item))
        earlier[key] = item
    last = len(script) + 1
    for kind in {kind for kind, _ in truth} | set(follower.replicas):
        follower.list(kind, [item for (each, _), item in truth.items() if each is kind], last)
    follower.fold.settle()
    assert sight(follower.fold) == sight(folded(catalog, truth.values()))


def test_a_placement_holds_what_it_takes(catalog: Catalog) -> None:
    fold = folded(
        catalog, [node("n"), device_slice("n"), pod("a", on="n", mib=4096), pod("b", on="n", mib=4096)]
    )
    found: list[Placement] = sorted(fold.cluster.placements(), key=lambda each: each.request.id)
    assert [share.device for each in found for share in each.shares] == ["gpu-0", "gpu-1"]

"""What a newer version of fairlead wrote: the cache reads around it, and says what it cannot read."""

import pytest
from msgspec import structs

from fairlead.cache.cache import SchedulerCache
from fairlead.catalog import Catalog
from fairlead.cluster.objects import Condition
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.keys import ALLOCATED, DEVICES, LEADER_EPOCH, PLACEMENT
from tests.cache.test_cache import cache_of
from tests.serve.scheduler.objects import device_slice, node, pod

NEWER = '{"version":2}'


def test_a_node_with_a_placement_of_a_newer_format_takes_no_pods_until_that_pod_is_gone(
    catalog: Catalog,
) -> None:
    newer = pod("a", on="n", mib=1024, notes={PLACEMENT: NEWER})
    cache = cache_of(catalog, [node("n"), device_slice("n"), node("other"), newer])
    assert [each.name for each in cache.cluster.nodes()] == ["other"]
    assert str(cache.read_errors["n"]).startswith("pod default/a: placement format 2")

    cache.on_event(ObjectChange(newer, None))
    cache.sync()
    assert sorted(each.name for each in cache.cluster.nodes()) == ["n", "other"]
    assert not cache.read_errors


def test_a_pending_pod_with_a_note_of_a_newer_format_keeps_no_node_away(catalog: Catalog) -> None:
    cache = cache_of(catalog, [node("n"), device_slice("n"), pod("a", mib=1024, notes={PLACEMENT: NEWER})])
    assert not cache.read_errors


@pytest.mark.parametrize("key", [ALLOCATED, DEVICES])
def test_a_node_whose_agent_writes_a_newer_format_takes_no_pods(catalog: Catalog, key: str) -> None:
    made = node("n")
    newer = structs.replace(made, metadata=structs.replace(made.metadata, annotations={key: NEWER}))
    cache = cache_of(catalog, [newer, device_slice("n")])
    assert not cache.cluster.nodes()
    assert "format 2: this program reads formats up to 1" in str(cache.read_errors["n"])
    assert cache.read_errors["n"].hint == "upgrade fairlead here to the version of the node's agent"


def test_a_mark_of_a_newer_format_is_no_epoch_and_is_named(catalog: Catalog) -> None:
    mark = {"type": LEADER_EPOCH, "status": "True", "message": "v2 nonce 9"}
    cache, made = SchedulerCache(catalog), pod("a", mib=1024)
    status = structs.replace(made.status, conditions=(Condition(**mark),))
    cache.on_event(ObjectChange(None, structs.replace(made, status=status)))
    assert cache.leader_marks.epoch == 0
    assert cache.leader_marks.newer.startswith("pod default/a: leader-epoch format 2")

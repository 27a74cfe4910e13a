"""The kinds that are listed of a live cluster, and the kinds that may be forbidden."""

import asyncio
from typing import Any

import pytest

from fairlead.errors import AccessError, MissingApiError
from fairlead.manifest import listing
from fairlead.manifest.files.collect import FoundObjects
from tests.fakecluster.cluster import FakeCluster
from tests.fakecluster.restricted import RestrictedCluster


def listed(refuses: dict[str, Exception]) -> FoundObjects:
    async def look() -> FoundObjects:
        cluster = FakeCluster()
        await cluster.create(listing.NODES.raw(), {"metadata": {"name": "n"}})
        partly: Any = RestrictedCluster(cluster, refuses)
        return await listing.list_objects(partly)

    return asyncio.run(look())


@pytest.mark.parametrize("plural", ["persistentvolumes", "resourcequotas", "poddisruptionbudgets"])
def test_a_forbidden_kind_is_named_and_the_rest_is_listed(plural: str) -> None:
    objects = listed({plural: AccessError(f"{plural}: you may not")})
    assert [each.where for each in objects.all("Node")] == ["node n"]
    assert list(objects.unlisted.values()) == [f"{plural}: you may not"]


def test_a_kind_that_is_not_served_has_no_objects() -> None:
    assert not listed({"workloads": MissingApiError("no such kind")}).unlisted


@pytest.mark.parametrize("plural", ["nodes", "pods", "priorityclasses"])
def test_nodes_pods_and_priority_classes_are_required(plural: str) -> None:
    with pytest.raises(AccessError):
        listed({plural: AccessError("you may not")})

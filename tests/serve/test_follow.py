"""Kinds are followed as soon as the cluster serves them, also those that it learns of later."""

import asyncio
from typing import Any

from fairlead.cluster.kinds import CRDS, NODES, Kind
from fairlead.cluster.meta import Listing, T
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ClusterUnavailableError
from fairlead.modelprofiles.convert import observed_profile
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.serve.follow import Follower
from tests.fakecluster.cluster import FakeCluster
from tests.profiles import definition, observed


class Shaky(FakeCluster):
    """A cluster that goes away now and then."""

    asked = 0

    async def list(self, kind: Kind[T], *given: Any, **named: Any) -> Listing[T]:
        self.asked += kind is MODEL_PROFILES
        if kind is MODEL_PROFILES and self.asked == 3:
            raise ClusterUnavailableError("away")
        return await super().list(kind, *given, **named)


def test_a_kind_that_is_defined_later_is_followed_from_then_on() -> None:
    heard: list[str] = []
    profile = observed_profile(observed(), "n1")

    def hear(change: ObjectChange[Any]) -> None:
        heard.append(change.object.metadata.name)

    async def scenario() -> None:
        cluster = Shaky()
        await cluster.create(NODES, {"metadata": {"name": "n1"}})
        async with asyncio.TaskGroup() as group, asyncio.timeout(10):
            follower = Follower(cluster, group, hear, seldom=0.01)
            await follower.start((MODEL_PROFILES,), (NODES,))
            assert (follower.served, heard) == ({"nodes"}, ["n1"])
            while cluster.asked < 5:
                await asyncio.sleep(0.01)
            assert follower.served == {"nodes"}
            await cluster.create(CRDS, definition())
            await cluster.create(MODEL_PROFILES, profile)
            while len(heard) < 2:
                await asyncio.sleep(0.01)
            for task in follower.tasks:
                task.cancel()

    asyncio.run(scenario())
    assert heard == ["n1", profile.metadata.name]

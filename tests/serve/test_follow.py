"""Kinds are watched as soon as the cluster serves them, also kinds that are installed later."""

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
    """A cluster that is unavailable now and then."""

    lists = 0

    async def list(self, kind: Kind[T], *args: Any, **kwargs: Any) -> Listing[T]:
        self.lists += kind is MODEL_PROFILES
        if kind is MODEL_PROFILES and self.lists == 3:
            raise ClusterUnavailableError("away")
        return await super().list(kind, *args, **kwargs)


def test_a_kind_that_is_installed_later_is_watched_from_then_on() -> None:
    names: list[str] = []
    profile = observed_profile(observed(), "n1")

    def on_change(change: ObjectChange[Any]) -> None:
        names.append(change.object.metadata.name)

    async def scenario() -> None:
        cluster = Shaky()
        await cluster.create(NODES, {"metadata": {"name": "n1"}})
        async with asyncio.TaskGroup() as group, asyncio.timeout(10):
            follower = Follower(cluster, group, on_change, probe_interval=0.01)
            await follower.start((MODEL_PROFILES,), (NODES,))
            assert (follower.served, names) == ({"nodes"}, ["n1"])
            while cluster.lists < 5:
                await asyncio.sleep(0.01)
            assert follower.served == {"nodes"}
            await cluster.create(CRDS, definition())
            await cluster.create(MODEL_PROFILES, profile)
            while len(names) < 2:
                await asyncio.sleep(0.01)
            for task in follower.tasks:
                task.cancel()

    asyncio.run(scenario())
    assert names == ["n1", profile.metadata.name]

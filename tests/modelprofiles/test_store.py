"""Profiles kept in a cluster: many write the same object at once, and the best of all stays."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from fairlead.calibration import Calibration, place
from fairlead.cluster.kinds import CRDS
from fairlead.errors import MissingApiError
from fairlead.modelprofiles.convert import of_calibration, of_seen
from fairlead.modelprofiles.store import StoreCounts, check, discard, read, remove, store
from fairlead.units import Bytes, Seconds
from tests.fakecluster.cluster import FakeCluster
from tests.profiles import HOST, MADE, MEASURED, SETUP, calibration, definition, seen


async def served() -> FakeCluster:
    """Return a cluster that knows the kind."""
    cluster = FakeCluster()
    await cluster.create(CRDS, definition())
    return cluster


def measured(number: int) -> Calibration:
    """Return a calibration of which the fifth machine's is the quickest and the ninth's the largest."""
    found = replace(MEASURED, seconds=Seconds(1.0 + abs(number - 5)), peak_bytes=Bytes(100 - abs(number - 9)))
    return calibration(trials=(replace(calibration().trials[0], measured=found),))


def test_stored_and_read() -> None:
    async def play() -> None:
        cluster, dice = await served(), Random(0)
        objects = [*of_calibration(calibration(), "n1"), of_seen(seen(), "n1")]
        assert await store(cluster, objects, dice) == StoreCounts(made=3)
        assert await store(cluster, objects, dice) == StoreCounts(kept=3)
        found = await read(cluster)
        assert (found.calibrations, found.seen, found.unread) == ((calibration(),), (seen(),), ())
        assert await read(cluster, "none") == ((), (), ())
        assert await remove(cluster, place(SETUP, HOST)) == 3
        assert await read(cluster) == ((), (), ())

    asyncio.run(play())


def test_the_kind_goes_when_nothing_is_kept_of_it() -> None:
    async def play() -> None:
        cluster = await served()
        await store(cluster, of_calibration(calibration(), "n1"), Random(0))
        kept = len(calibration().trials)
        assert await discard(cluster) == kept
        assert await remove(cluster, place(SETUP, HOST)) == kept
        assert await discard(cluster, dry=True) == 0
        assert len((await cluster.list(CRDS)).items) == 1
        assert await discard(cluster) == 0
        assert (await cluster.list(CRDS)).items == ()
        assert await discard(cluster) == 0

    asyncio.run(play())


def test_no_figure_is_lost_among_many_writers() -> None:
    async def play() -> None:
        cluster = await served()
        writers = (
            store(cluster, of_calibration(measured(number), f"n{number}"), Random(number))
            for number in range(12)
        )
        done = await asyncio.gather(*writers)
        assert sum(each.made for each in done) == 1
        (only,) = (await read(cluster)).calibrations
        assert only.trials[0].measured == replace(MEASURED, seconds=Seconds(1.0), peak_bytes=Bytes(100))
        assert only.made == MADE

    asyncio.run(play())


def test_a_cluster_without_the_kind_says_how_to_get_it() -> None:
    with pytest.raises(MissingApiError, match=r"modelprofiles\.fairlead\.dev") as caught:
        asyncio.run(check(FakeCluster()))
    assert "profiles.enabled" in caught.value.hint
    assert "fairlead manifests modelprofiles" in caught.value.hint

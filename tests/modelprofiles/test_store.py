"""Profiles in a cluster: many machines write the same object at once, and the best figures stay."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from fairlead.calibration import Calibration, setup_id
from fairlead.cluster.kinds import CRDS
from fairlead.errors import MissingApiError
from fairlead.modelprofiles.convert import calibration_profiles, observed_profile
from fairlead.modelprofiles.store import (
    StoreCounts,
    check_served,
    delete_kind,
    delete_profiles,
    read_profiles,
    store,
)
from fairlead.units import Bytes, Seconds
from tests.fakecluster.cluster import FakeCluster
from tests.profiles import HOST, MADE, MEASURED, SETUP, calibration, definition, observed


async def served() -> FakeCluster:
    """Return a cluster that serves the kind."""
    cluster = FakeCluster()
    await cluster.create(CRDS, definition())
    return cluster


def measured(number: int) -> Calibration:
    """Return the calibration of a machine: the fifth is the fastest, the ninth takes the most memory."""
    run = replace(MEASURED, seconds=Seconds(1.0 + abs(number - 5)), peak_bytes=Bytes(100 - abs(number - 9)))
    return calibration(trials=(replace(calibration().trials[0], measured=run),))


def test_profiles_are_stored_and_read() -> None:
    async def play() -> None:
        cluster, random = await served(), Random(0)
        objects = [*calibration_profiles(calibration(), "n1"), observed_profile(observed(), "n1")]
        assert await store(cluster, objects, random) == StoreCounts(made=3)
        assert await store(cluster, objects, random) == StoreCounts(kept=3)
        profiles = await read_profiles(cluster)
        assert (profiles.calibrations, profiles.seen, profiles.unread) == (
            (calibration(),),
            (observed(),),
            (),
        )
        assert await read_profiles(cluster, "none") == ((), (), ())
        assert await delete_profiles(cluster, setup_id(SETUP, HOST)) == 3
        assert await read_profiles(cluster) == ((), (), ())

    asyncio.run(play())


def test_the_kind_is_deleted_only_without_profiles() -> None:
    async def play() -> None:
        cluster = await served()
        await store(cluster, calibration_profiles(calibration(), "n1"), Random(0))
        kept = len(calibration().trials)
        assert await delete_kind(cluster) == kept
        assert await delete_profiles(cluster, setup_id(SETUP, HOST)) == kept
        assert await delete_kind(cluster, dry=True) == 0
        assert len((await cluster.list(CRDS)).items) == 1
        assert await delete_kind(cluster) == 0
        assert (await cluster.list(CRDS)).items == ()
        assert await delete_kind(cluster) == 0

    asyncio.run(play())


def test_no_figure_is_lost_among_many_writers() -> None:
    async def play() -> None:
        cluster = await served()
        writers = (
            store(cluster, calibration_profiles(measured(number), f"n{number}"), Random(number))
            for number in range(12)
        )
        counts = await asyncio.gather(*writers)
        assert sum(count.made for count in counts) == 1
        (only,) = (await read_profiles(cluster)).calibrations
        assert only.trials[0].measured == replace(MEASURED, seconds=Seconds(1.0), peak_bytes=Bytes(100))
        assert only.made == MADE

    asyncio.run(play())


def test_a_cluster_without_the_kind_says_how_to_get_it() -> None:
    with pytest.raises(MissingApiError, match=r"modelprofiles\.fairlead\.dev") as caught:
        asyncio.run(check_served(FakeCluster()))
    assert "profiles.enabled" in caught.value.hint
    assert "fairlead manifests modelprofiles" in caught.value.hint

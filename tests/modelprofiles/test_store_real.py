"""Profiles on a real API server: its schema accepts ours and rejects invalid ones, naming the field."""

import asyncio
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fairlead.calibration import Trial, setup_id
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import CRDS
from fairlead.errors import InvalidError
from fairlead.modelprofiles.convert import calibration_profiles, observed_profile
from fairlead.modelprofiles.store import StoreCounts, delete_profiles, read_profiles, store
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.units import Bytes, Seconds
from tests.labs import RealCluster
from tests.profiles import MEASURED, calibration, features, observed, serving_profiles

Spec = dict[str, Any]
MANY = 600


@pytest.fixture
def profiles(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    yield from serving_profiles(real_cluster)


def test_a_round_trip_is_equal_and_a_second_calibration_is_merged(profiles: RealCluster) -> None:
    first, use = calibration(profiles.namespace), observed(profiles.namespace)
    id_ = setup_id(first.setup, first.host)
    better = replace(MEASURED, seconds=Seconds(0.005), peak_bytes=Bytes(50))
    again = replace(first, made="2026-11-17T04:00:00+00:00", trials=(Trial("points", features("b"), better),))

    async def play() -> None:
        async with profiles.connect() as client:
            objects = [*calibration_profiles(first, "n1"), observed_profile(use, "n1")]
            assert await store(client, objects, Random(0)) == StoreCounts(made=3)
            stored = await read_profiles(client, id_)
            assert (stored.calibrations, stored.seen) == ((first,), (use,))
            assert await store(client, calibration_profiles(again, "n2"), Random(0)) == StoreCounts(changed=1)
            assert await store(client, calibration_profiles(again, "n3"), Random(0)) == StoreCounts(kept=1)
            (only,) = (await read_profiles(client, id_)).calibrations
            assert [trial.measured for trial in only.trials] == [MEASURED, better]
            assert await delete_profiles(client, id_) == 3
            assert await read_profiles(client, id_) == ((), (), ())

    asyncio.run(play())


def test_many_writers_share_one_object(profiles: RealCluster) -> None:
    def machine(number: int) -> Any:
        run = replace(MEASURED, seconds=Seconds(1 + number), peak_bytes=Bytes(number))
        mine = calibration(profiles.namespace, trials=(Trial("plain", features("a"), run),))
        return calibration_profiles(mine, f"n{number}")

    async def play() -> None:
        async with profiles.connect() as client:
            await asyncio.gather(*(store(client, machine(number), Random(number)) for number in range(8)))
            id_ = setup_id(calibration(profiles.namespace).setup, calibration().host)
            (only,) = (await read_profiles(client, id_)).calibrations
            measured = only.trials[0].measured
            assert measured is not None
            assert (measured.seconds, measured.peak_bytes) == (Seconds(1), Bytes(7))

    asyncio.run(play())


def test_many_profiles_are_listed(profiles: RealCluster) -> None:
    async def play() -> None:
        async with profiles.connect() as client:
            hosts = [f"host {number}" for number in range(MANY)]
            objects = [observed_profile(observed(profiles.namespace, host=host), "n1") for host in hosts]
            for start in range(0, MANY, 50):
                batch = objects[start : start + 50]
                await asyncio.gather(*(client.create(MODEL_PROFILES, each) for each in batch))
            listed = [
                each for each in (await read_profiles(client)).seen if each.setup.device == profiles.namespace
            ]
            assert sorted(each.host for each in listed) == sorted(hosts)

    asyncio.run(play())


def _set(*path: str, to: Any) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        for step in path[:-1]:
            spec = spec[step]
        spec[path[-1]] = to

    return change


def _without(*path: str) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        for step in path[:-1]:
            spec = spec[step]
        del spec[path[-1]]

    return change


REJECTED: dict[str, tuple[Callable[[Spec], None], str]] = {
    "no digest": (_without("digest"), "spec.digest"),
    "an invalid digest": (_set("digest", to="sha256:0"), "spec.digest"),
    "no device": (_without("setup", "device"), "spec.setup.device"),
    "an invalid device": (_set("setup", "device", to="An L4"), "spec.setup.device"),
    "a time of 0": (_set("measured", "seconds", to=0), "spec.measured.seconds"),
    "a negative time": (_set("measured", "p90", to=-1), "spec.measured.p90"),
    "a string as a time": (_set("measured", "seconds", to="fast"), "spec.measured.seconds"),
    "negative memory": (_set("measured", "peakBytes", to=-1), "spec.measured.peakBytes"),
    "half a byte": (_set("measured", "peakBytes", to=0.5), "spec.measured.peakBytes"),
    "negative work": (_set("features", "work", "conv", "macs", to=-1), "spec.features.work.conv.macs"),
    "too many kinds": (_set("features", "work", to={f"k{n}": {} for n in range(65)}), "spec.features.work"),
    "a long name": (_set("features", "work", to={"k" * 64: {}}), "spec.features.work"),
    "a long host": (_set("host", to="x" * 257), "spec.host"),
    "an invalid date": (_set("made", to="yesterday"), "spec.made"),
    "measurements without work": (_without("features"), "measured needs features"),
    "neither measurement nor reason": (_without("measured"), "a profile needs measured, seen, or the reason"),
    "an empty observation": (_set("seen", to={}), "spec.seen"),
    "a p90 below the median": (
        _set("seen", to={"latency": {"median": 2, "p90": 1, "count": 1}}),
        "p90 must not be less than the median",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_an_invalid_profile_is_rejected_with_its_field(case: str, profiles: RealCluster) -> None:
    change, message = REJECTED[case]
    body = copy.deepcopy(
        codec.to_document(MODEL_PROFILES, calibration_profiles(calibration(profiles.namespace), "n")[0])
    )
    change(body["spec"])

    async def play() -> None:
        async with profiles.connect() as client:
            with pytest.raises(InvalidError) as caught:
                await client.create(MODEL_PROFILES, body)
            assert message in str(caught.value)

    asyncio.run(play())


IMMUTABLE: dict[str, tuple[Callable[[Spec], None], str]] = {
    "the digest": (_set("digest", to="f" * 40), "digest is immutable"),
    "the setup": (_set("setup", "precision", to="int8"), "version, setup and host are immutable"),
    "the host": (_set("host", to="another"), "version, setup and host are immutable"),
    "the most memory measured": (_set("measured", "peakBytes", to=99), "measured.peakBytes is the peak"),
    "the measurement": (_without("measured"), "measured.peakBytes is the peak"),
    "the most memory observed": (_set("seen", "peakBytes", to=1_999), "seen.peakBytes is the peak"),
    "the observation": (_without("seen"), "seen.peakBytes is the peak"),
}


@pytest.mark.parametrize("case", IMMUTABLE)
def test_an_immutable_field_does_not_change(case: str, profiles: RealCluster) -> None:
    change, message = IMMUTABLE[case]
    trial, use = (
        calibration_profiles(calibration(profiles.namespace), "n")[0],
        observed(profiles.namespace, digest="a" * 40),
    )

    async def play() -> None:
        async with profiles.connect() as client:
            await store(client, [trial, observed_profile(use, "n")], Random(0))
            kept = (await client.get(MODEL_PROFILES.raw(), trial.metadata.name)).document()
            change(kept["spec"])
            with pytest.raises(InvalidError, match=message):
                await client.update(MODEL_PROFILES.raw(), kept)

    asyncio.run(play())


def test_the_server_accepts_the_kind(profiles: RealCluster) -> None:
    async def play() -> None:
        async with profiles.connect() as client:
            definition = await client.get(CRDS, MODEL_PROFILES.resource)
            state = {item.type: item.status for item in definition.status.conditions}
            assert state["Established"] == state["NamesAccepted"] == "True"
            assert state.get("NonStructuralSchema", "False") == "False"

    asyncio.run(play())

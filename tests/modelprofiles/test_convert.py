"""Profiles as objects: values survive the round trip, and both sides have the same fields."""

import dataclasses
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fairlead import calibration as values
from fairlead.cluster.http import codec
from fairlead.modelprofiles import types as parts
from fairlead.modelprofiles.convert import (
    ProfileSet,
    calibration_profiles,
    merge_profiles,
    observed_profile,
    profile_set,
)
from fairlead.modelprofiles.types import MODEL_PROFILES, ModelProfile
from fairlead.units import Bytes, Seconds
from tests.profiles import MEASURED, calibration, definition, observed

SPEC: dict[str, Any] = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
FIELDS = SPEC["properties"]
PAIRS: list[tuple[type[Any], type[msgspec.Struct], set[str], dict[str, Any] | None]] = [
    (values.Setup, parts.SetupPart, set(), FIELDS["setup"]),
    (values.OperatorWork, parts.WorkPart, set(), None),
    (values.Features, parts.FeaturesPart, {"digest"}, FIELDS["features"]),
    (values.MeasuredRun, parts.MeasuredPart, set(), FIELDS["measured"]),
    (values.Latency, parts.LatencyPart, set(), FIELDS["seen"]["properties"]["latency"]),
    (values.ObservedUse, parts.ObservedUsePart, {"setup", "host", "digest", "model", "made"}, FIELDS["seen"]),
]
"""A value, its part of an object, the fields that the object has elsewhere, and the schema."""


def through_json(profile: ModelProfile) -> ModelProfile:
    """Return an object as a server would return it."""
    return codec.decode(MODEL_PROFILES, codec.encode_plain(codec.to_document(MODEL_PROFILES, profile)))


@pytest.mark.parametrize(
    ("value", "part", "elsewhere", "schema"), PAIRS, ids=[row[0].__name__ for row in PAIRS]
)
def test_values_parts_and_schema_have_the_same_fields(
    value: type[Any], part: type[msgspec.Struct], elsewhere: set[str], schema: dict[str, Any] | None
) -> None:
    names = {field.name for field in dataclasses.fields(value)} - elsewhere
    assert set(part.__struct_fields__) == names
    if schema:
        assert set(part.__struct_encode_fields__) == set(schema["properties"])


def test_the_schema_knows_every_field_of_the_spec() -> None:
    assert set(parts.ModelProfileSpec.__struct_encode_fields__) == set(FIELDS)
    required = {
        field.encode_name for field in msgspec.structs.fields(parts.ModelProfileSpec) if field.required
    }
    assert set(SPEC["required"]) == required


def test_profiles_survive_the_round_trip() -> None:
    objects = [*calibration_profiles(calibration(), "n1"), observed_profile(observed(), "n1")]
    assert profile_set(map(through_json, objects)) == ProfileSet((calibration(),), (observed(),))
    bare = calibration(trials=(replace(calibration().trials[0], measured=replace(MEASURED, waited=0.0)),))
    assert profile_set(map(through_json, calibration_profiles(bare, ""))).calibrations == (bare,)


def test_setups_are_separate_and_unknown_versions_are_left_out() -> None:
    others = [*calibration_profiles(calibration(), "n1"), *calibration_profiles(calibration(host="b"), "n2")]
    assert {each.host for each in profile_set(others).calibrations} == {"a host", "b"}
    newer = msgspec.structs.replace(others[0].spec, version=99)
    strange = msgspec.structs.replace(others[0], spec=newer)
    (line,) = profile_set([strange]).unread
    assert line.startswith(f"{strange.metadata.name}: a profile of version 99")


def test_machines_of_one_setup_name_the_same_object() -> None:
    mine, same = calibration_profiles(calibration(), "n1"), calibration_profiles(calibration(), "n2")
    assert [each.metadata for each in mine] == [each.metadata for each in same]
    assert observed_profile(observed(digest="a" * 40), "n3").metadata == mine[0].metadata
    assert observed_profile(observed(), "n1").metadata.name != mine[0].metadata.name


def test_a_profile_that_adds_nothing_changes_nothing() -> None:
    before = calibration_profiles(calibration(), "n1")[0]
    slower = replace(MEASURED, seconds=Seconds(9.0), peak_bytes=Bytes(1))
    trials = (replace(calibration().trials[0], measured=slower),)
    assert merge_profiles(before, calibration_profiles(calibration(trials=trials), "n2")[0]) is before
    assert merge_profiles(before, before) is before


def test_a_changed_profile_bears_the_node_of_the_last_writer() -> None:
    before = calibration_profiles(calibration(), "n1")[0]
    now = observed_profile(observed(digest="a" * 40, made="2026-11-17T00:00:00+00:00"), "n2")
    both = merge_profiles(before, now)
    assert (both.spec.node, both.spec.made) == ("n2", now.spec.made)
    assert (both.spec.measured, both.spec.seen) == (before.spec.measured, now.spec.seen)
    assert both.metadata == before.metadata


def test_long_strings_are_cut_to_the_limits_of_the_kind() -> None:
    long = "x" * 5_000
    trials = (replace(calibration().trials[1], model=long, reason=long),)
    spec = calibration_profiles(calibration(host=long, trials=trials), "n1")[0].spec
    for name, text in (("host", spec.host), ("model", spec.model), ("reason", spec.reason)):
        assert len(text) == FIELDS[name]["maxLength"]
    assert (
        len(observed_profile(observed(host=long, model=long), "n1").spec.host) == FIELDS["host"]["maxLength"]
    )

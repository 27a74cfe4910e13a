"""Turn what is known of models on setups into objects, and objects into what is known. Pure.

    Calibration -> an object for each trial        Seen -> one object, the same one where the model is a trial
    objects     -> Knowledge: calibrations, seen, and what cannot be read

The name of an object follows from what it is about, so that all machines of one setup write the same one.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from fairlead import keys
from fairlead.calibration import (
    VERSION,
    Calibration,
    Features,
    Latency,
    MeasuredRun,
    ObservedUse,
    Setup,
    Trial,
    joined,
    place,
    together,
)
from fairlead.cluster.meta import Metadata
from fairlead.modelprofiles.types import (
    FeaturesPart,
    MeasuredPart,
    ModelProfile,
    ModelProfileSpec,
    ObservedUsePart,
    SetupPart,
)

_HOST, _MODEL, _REASON = 256, 253, 1024
"""Characters that the kind has room for; machines and runtimes say of themselves what they like."""
T = TypeVar("T")


class ProfileSet(NamedTuple):
    """What many objects say."""

    calibrations: tuple[Calibration, ...] = ()
    seen: tuple[ObservedUse, ...] = ()
    unread: tuple[str, ...] = ()
    """A line for each object that cannot be used: which one, and why."""


def calibration_profiles(calibration: Calibration, node: str) -> list[ModelProfile]:
    """Return an object for each trial."""
    return [
        named_profile(
            ModelProfileSpec(
                version=VERSION,
                setup=_as(SetupPart, calibration.setup),
                host=calibration.host[:_HOST],
                model=trial.model[:_MODEL],
                digest=trial.features.digest,
                made=calibration.made,
                node=node,
                features=_as(FeaturesPart, trial.features),
                measured=None if trial.measured is None else _as(MeasuredPart, trial.measured),
                reason=trial.reason[:_REASON],
            )
        )
        for trial in calibration.trials
    ]


def observed_profile(seen: ObservedUse, node: str) -> ModelProfile:
    """Return the object of a model that was seen."""
    return named_profile(
        ModelProfileSpec(
            version=VERSION,
            setup=_as(SetupPart, seen.setup),
            host=seen.host[:_HOST],
            model=seen.model[:_MODEL],
            digest=seen.digest,
            made=seen.made,
            node=node,
            seen=_as(ObservedUsePart, seen),
        )
    )


def merge_profiles(before: ModelProfile, now: ModelProfile) -> ModelProfile:
    """Return an object that says what both say; where `now` adds nothing, `before` itself."""
    old, new = before.spec, now.spec
    trial, seen = _merge_trials(old, new), _merge_observed(old, new)
    spec = replace(
        old,
        features=trial and _as(FeaturesPart, trial.features),
        measured=trial and trial.measured and _as(MeasuredPart, trial.measured),
        reason=trial.reason if trial else "",
        seen=seen and _as(ObservedUsePart, seen),
        file=new.file or old.file,
    )
    if spec == old:
        return before
    spec = replace(spec, made=max(old.made, new.made), node=new.node)
    return replace(before, spec=spec)


def profile_set(objects: Iterable[ModelProfile]) -> ProfileSet:
    """Put objects together, by setup; trials are in the order of their names."""
    trials: dict[str, list[tuple[ModelProfileSpec, Trial]]] = {}
    seen, unread = [], []
    for object_ in objects:
        if object_.spec.version != VERSION:
            version = f"a profile of version {object_.spec.version}; this program reads {VERSION}"
            unread.append(f"{object_.metadata.name}: {version}")
            continue
        if trial := _trial(object_.spec):
            trials.setdefault(place(_setup(object_.spec), object_.spec.host), []).append(
                (object_.spec, trial)
            )
        if found := _seen(object_.spec):
            seen.append(found)
    return ProfileSet(tuple(_calibration(each) for each in trials.values()), tuple(seen), tuple(unread))


def _calibration(found: list[tuple[ModelProfileSpec, Trial]]) -> Calibration:
    first = found[0][0]
    made = max(spec.made for spec, _ in found)
    trials = sorted((trial for _, trial in found), key=lambda trial: trial.model)
    return Calibration(_setup(first), first.host, made, tuple(trials))


def named_profile(spec: ModelProfileSpec) -> ModelProfile:
    """Return an object with the name and labels that follow from what it is about."""
    setup = place(_setup(spec), spec.host)
    about = hashlib.sha256(f"{spec.version} {setup} {spec.digest}".encode()).hexdigest()[:16]
    labels = {keys.SETUP: setup, keys.DEVICE: spec.setup.device, keys.DIGEST: spec.digest}
    return ModelProfile(metadata=Metadata(name=f"{spec.setup.device}-{about}", labels=labels), spec=spec)


def _merge_trials(old: ModelProfileSpec, new: ModelProfileSpec) -> Trial | None:
    before, now = _trial(old), _trial(new)
    return together(before, now) if before and now else before or now


def _merge_observed(old: ModelProfileSpec, new: ModelProfileSpec) -> ObservedUse | None:
    before, now = _seen(old), _seen(new)
    return joined(before, now) if before and now else before or now


def _setup(spec: ModelProfileSpec) -> Setup:
    return _as(Setup, spec.setup)


def _trial(spec: ModelProfileSpec) -> Trial | None:
    if spec.features is None:
        return None
    fields = {name: getattr(spec.features, name) for name in spec.features.__struct_fields__}
    features = msgspec.convert({**fields, "digest": spec.digest}, Features, from_attributes=True)
    measured = None if spec.measured is None else _as(MeasuredRun, spec.measured)
    return Trial(spec.model, features, measured, spec.reason)


def _seen(spec: ModelProfileSpec) -> ObservedUse | None:
    found = spec.seen
    if found is None:
        return None
    latency = None if found.latency is None else _as(Latency, found.latency)
    about = (_setup(spec), spec.host, spec.digest, spec.model, spec.made)
    return ObservedUse(*about, found.image, found.peak_bytes, latency, found.watts, found.ramp)


def _as(shape: type[T], value: object) -> T:
    """Return a noun as a part of an object, or the other way: their fields have the same names."""
    return msgspec.convert(value, shape, from_attributes=True)

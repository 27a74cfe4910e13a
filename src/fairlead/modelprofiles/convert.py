"""Convert calibrations and observations to ModelProfile objects, and objects back. Pure.

    Calibration -> an object for each trial
    ObservedUse -> one object, the same one where the model is a trial
    objects     -> ProfileSet: calibrations, observations, and the objects that cannot be read

The name of an object follows from its setup and model, so that all machines of one setup write the same one.
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
    merge_observed,
    merge_trials,
    setup_id,
    with_date,
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
"""Limits of the kind in characters; machines and runtimes report strings of any length."""
T = TypeVar("T")


class ProfileSet(NamedTuple):
    """The content of many profiles."""

    calibrations: tuple[Calibration, ...] = ()
    seen: tuple[ObservedUse, ...] = ()
    unread: tuple[str, ...] = ()
    """A line for each profile that cannot be read: its name, and the reason."""


def calibration_profiles(calibration: Calibration, node: str) -> list[ModelProfile]:
    """Return a profile for each trial."""
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
                measured=_measured_part(with_date(trial, calibration.made)),
                reason=trial.reason[:_REASON],
            )
        )
        for trial in calibration.trials
    ]


def _measured_part(trial: Trial) -> MeasuredPart | None:
    return None if trial.measured is None else _as(MeasuredPart, trial.measured)


def observed_profile(observed: ObservedUse, node: str) -> ModelProfile:
    """Return the profile of a model that was observed in use."""
    return named_profile(
        ModelProfileSpec(
            version=VERSION,
            setup=_as(SetupPart, observed.setup),
            host=observed.host[:_HOST],
            model=observed.model[:_MODEL],
            digest=observed.digest,
            made=observed.made,
            node=node,
            seen=_as(ObservedUsePart, observed),
        )
    )


def merge_profiles(before: ModelProfile, now: ModelProfile) -> ModelProfile:
    """Return a profile with the content of both; where `now` adds nothing, `before` itself."""
    old, new = before.spec, now.spec
    trial, seen = _merge_trials(old, new), _merge_observed(old, new)
    spec = replace(
        old,
        features=trial and _as(FeaturesPart, trial.features),
        measured=_measured_part(trial) if trial else None,
        reason=trial.reason if trial else "",
        seen=seen and _as(ObservedUsePart, seen),
        file=new.file or old.file,
    )
    if spec == old:
        return before
    spec = replace(spec, made=max(old.made, new.made), node=new.node)
    return replace(before, spec=spec)


def profile_set(profiles: Iterable[ModelProfile]) -> ProfileSet:
    """Return the content of profiles, by setup; trials are in the order of their names."""
    trials: dict[str, list[tuple[ModelProfileSpec, Trial]]] = {}
    seen, unread = [], []
    for profile in profiles:
        if profile.spec.version != VERSION:
            problem = f"a profile of version {profile.spec.version}; this program reads {VERSION}"
            unread.append(f"{profile.metadata.name}: {problem}")
            continue
        if trial := _trial(profile.spec):
            trials.setdefault(setup_id(_setup(profile.spec), profile.spec.host), []).append(
                (profile.spec, trial)
            )
        if observed := _seen(profile.spec):
            seen.append(observed)
    return ProfileSet(tuple(_calibration(rows) for rows in trials.values()), tuple(seen), tuple(unread))


def _calibration(trials_by_spec: list[tuple[ModelProfileSpec, Trial]]) -> Calibration:
    first = trials_by_spec[0][0]
    made = max(spec.made for spec, _ in trials_by_spec)
    trials = sorted((trial for _, trial in trials_by_spec), key=lambda trial: trial.model)
    return Calibration(_setup(first), first.host, made, tuple(trials))


def named_profile(spec: ModelProfileSpec) -> ModelProfile:
    """Return a profile with the name and labels that follow from its setup and model."""
    setup = setup_id(_setup(spec), spec.host)
    about = hashlib.sha256(f"{spec.version} {setup} {spec.digest}".encode()).hexdigest()[:16]
    labels = {keys.SETUP: setup, keys.DEVICE: spec.setup.device, keys.DIGEST: spec.digest}
    return ModelProfile(metadata=Metadata(name=f"{spec.setup.device}-{about}", labels=labels), spec=spec)


def _merge_trials(old: ModelProfileSpec, new: ModelProfileSpec) -> Trial | None:
    before, now = _trial(old), _trial(new)
    return merge_trials(before, now) if before and now else before or now


def _merge_observed(old: ModelProfileSpec, new: ModelProfileSpec) -> ObservedUse | None:
    before, now = _seen(old), _seen(new)
    return merge_observed(before, now) if before and now else before or now


def _setup(spec: ModelProfileSpec) -> Setup:
    return _as(Setup, spec.setup)


def _trial(spec: ModelProfileSpec) -> Trial | None:
    if spec.features is None:
        return None
    fields = {name: getattr(spec.features, name) for name in spec.features.__struct_fields__}
    features = msgspec.convert({**fields, "digest": spec.digest}, Features, from_attributes=True)
    measured = None if spec.measured is None else _as(MeasuredRun, spec.measured)
    return with_date(Trial(spec.model, features, measured, spec.reason), spec.made)


def _seen(spec: ModelProfileSpec) -> ObservedUse | None:
    part = spec.seen
    if part is None:
        return None
    latency = None if part.latency is None else _as(Latency, part.latency)
    about = (_setup(spec), spec.host, spec.digest, spec.model, spec.made)
    return ObservedUse(*about, part.image, part.peak_bytes, latency, part.watts, part.ramp)


def _as(target: type[T], value: object) -> T:
    """Return a value as a part of an object, or the other way round: their fields have the same names."""
    return msgspec.convert(value, target, from_attributes=True)

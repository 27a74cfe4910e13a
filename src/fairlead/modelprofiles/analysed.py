"""A model that was analysed and not run yet, as an object beside the measured ones. Pure.

The object names no device. From the model's work the scheduler predicts it on every device.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead.calibration import VERSION, features
from fairlead.modelprofiles.convert import named_profile
from fairlead.modelprofiles.types import FeaturesPart, FilePart, ModelProfile, ModelProfileSpec, SetupPart
from fairlead.workload import Profile

NO_DEVICE: Final = "none"
_REASON: Final = "analysed from its file; not run yet"
_NAME, _REASONS, _LENGTH = 253, 16, 256
"""Limits of the kind: characters of a name, reasons for a runtime, and characters of each reason."""


def analysed_profile(profile: Profile, made: str, node: str) -> ModelProfile:
    """Return the profile of a model of which only the file is known."""
    unsupported = {
        runtime: tuple(reason[:_LENGTH] for reason in reasons[:_REASONS])
        for runtime, reasons in profile.unsupported.items()
    }
    return named_profile(
        ModelProfileSpec(
            version=VERSION,
            setup=SetupPart(device=NO_DEVICE, runtime=NO_DEVICE, version="", precision=profile.precision),
            # In place of a board: so each name has its own object, though files may be the same work.
            host=profile.name[:_NAME],
            model=profile.name[:_NAME],
            digest=profile.digest,
            made=made,
            node=node,
            features=msgspec.convert(features(profile), FeaturesPart, from_attributes=True),
            reason=_REASON,
            file=FilePart(
                format=profile.format,
                precision=profile.precision,
                exact=profile.exact,
                unsupported=unsupported,
                scope=profile.scope[:_LENGTH],
            ),
        )
    )


def file_parts(profiles: Iterable[ModelProfile]) -> Mapping[str, FilePart]:
    """Return what model files say beyond their work, by digest."""
    return {profile.spec.digest: profile.spec.file for profile in profiles if profile.spec.file is not None}

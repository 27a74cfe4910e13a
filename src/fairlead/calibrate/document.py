"""Parse profiles from documents, and refuse values that no measurement can give."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from fairlead.calibration import (
    VERSION,
    Calibration,
    Features,
    Latency,
    MeasuredRun,
    ObservedUse,
    OperatorWork,
    Setup,
    Trial,
)
from fairlead.units import Bytes, Seconds, Watts

PARSE_ERRORS: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""Exceptions of parsing where a document is not a profile."""
_MOST: Final = 2**63
_LONGEST: Final = 1e9
T = TypeVar("T")


class VersionError(ValueError):
    """A document of a version that this program does not read."""


def parse_calibration(document: Mapping[str, Any]) -> Calibration:
    """Parse a calibration; raises one of PARSE_ERRORS where the document is not one."""
    _check_version(document)
    return Calibration(
        setup=_setup(document["setup"]),
        host=str(document["host"]),
        made=str(document["made"]),
        trials=tuple(_trial(trial) for trial in document["trials"]),
    )


def parse_observed(document: Mapping[str, Any]) -> ObservedUse:
    """Parse an observed use of a model; raises one of PARSE_ERRORS where the document is not one."""
    _check_version(document)
    return ObservedUse(
        setup=_setup(document["setup"]),
        host=str(document["host"]),
        digest=str(document["digest"]),
        model=str(document["model"]),
        made=str(document["made"]),
        image=str(document["image"]),
        peak_bytes=_optional(_bytes, document["peak_bytes"]),
        latency=_optional(_latency, document["latency"]),
        watts=_optional(_watts, document["watts"]),
        ramp=_optional(_positive, document["ramp"]),
    )


def _check_version(document: Mapping[str, Any]) -> None:
    version = document["version"]
    if version != VERSION:
        raise VersionError(f"a profile of version {version!r}; this program reads {VERSION}")


def _setup(fields: Mapping[str, Any]) -> Setup:
    return Setup(
        device=str(fields["device"]),
        runtime=str(fields["runtime"]),
        version=str(fields["version"]),
        precision=str(fields["precision"]),
        threads=_count(fields["threads"]),
        effective_ops=_optional(_amount, fields["effective_ops"]),
        link_bits_per_second=_optional(_amount, fields["link_bits_per_second"]),
        power=_optional(_watts, fields["power_w"]),
    )


def _trial(fields: Mapping[str, Any]) -> Trial:
    measured = _optional(_measured, fields["measured"])
    return Trial(str(fields["model"]), _features(fields["features"]), measured, str(fields["reason"]))


def _features(fields: Mapping[str, Any]) -> Features:
    return Features(
        digest=str(fields["digest"]),
        batch=_count(fields["batch"]),
        groups=_count(fields["groups"]),
        peak_bytes=_bytes(fields["peak_bytes"]),
        work={
            str(kind): OperatorWork(**{name: _count(amount) for name, amount in work.items()})
            for kind, work in fields["work"].items()
        },
        input_bytes=_bytes(fields["input_bytes"]),
        output_bytes=_bytes(fields["output_bytes"]),
    )


def _measured(fields: Mapping[str, Any]) -> MeasuredRun:
    return MeasuredRun(
        seconds=_positive(fields["seconds"]),
        p90=_positive(fields["p90"]),
        runs=_count(fields["runs"]),
        wall=_positive(fields["wall"]),
        waited=_amount(fields["waited"]),
        peak_bytes=_bytes(fields["peak_bytes"]),
        base_bytes=_optional(_bytes, fields["base_bytes"]),
        watts=_optional(_watts, fields["watts"]),
        noise=_optional(_amount, fields.get("noise")),  # programs before these fields wrote the same version
        load=_optional(_amount, fields.get("load")),
        made=str(fields.get("made", "")),
    )


def _latency(fields: Mapping[str, Any]) -> Latency:
    return Latency(
        median=_positive(fields["median"]),
        p90=_positive(fields["p90"]),
        count=_count(fields["count"]),
        ratio=_optional(_positive, fields["ratio"]),
    )


def _optional(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)


def _positive(value: Any) -> Seconds:
    number = float(value)
    if not 0 < number < _LONGEST:
        raise ValueError(f"{value!r} is not a duration")
    return Seconds(number)


def _amount(value: Any) -> float:
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is not an amount")
    return number


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < _MOST:
        raise ValueError(f"{value!r} is not a count")
    return number


def _bytes(value: Any) -> Bytes:
    return Bytes(_count(value))


def _watts(value: Any) -> Watts:
    return Watts(_amount(value))

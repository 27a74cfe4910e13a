"""Profiles: calibrations as files, one for each setup."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from fairlead.calibration import VERSION, Calibration, Features, Measured, Setup, Trial, Work
from fairlead.errors import UserError
from fairlead.units import Bytes, Seconds, Watts

_SIZE_LIMIT: Final = 4 * 1024 * 1024
T = TypeVar("T")


def folder(environ: Mapping[str, str]) -> str:
    """Return where this user's profiles are, as the XDG rules say."""
    base = environ.get("XDG_DATA_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    # The rules say that a relative path is to be ignored.
    return os.path.join(
        base if os.path.isabs(base) else os.path.join(home, ".local", "share"), "fairlead", "profiles"
    )


def save(calibration: Calibration, path: str) -> None:
    """Write a profile, whole or not at all."""
    parts = f"{path}.part"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(parts, "w", encoding="ascii") as out:
            json.dump(calibration.to_json(), out, indent=1)
            out.write("\n")
        os.replace(parts, path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "name another file with --out") from None


def load(path: str) -> Calibration:
    """Read a profile."""
    hint = "make it again: fairlead calibrate"
    try:
        with open(path, "rb") as source:
            data = source.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint) from None
    if len(data) > _SIZE_LIMIT:
        raise UserError(f"{path}: larger than {_SIZE_LIMIT >> 20} MiB: not a profile", hint)
    try:
        document = json.loads(data)
        version = document["version"]
        if version == VERSION:
            return parse(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: not a profile: {type(error).__name__}: {error}", hint) from None
    raise UserError(f"{path}: a profile of version {version!r}; this program reads {VERSION}", hint)


def parse(document: Mapping[str, Any]) -> Calibration:
    """Read a document; KeyError, TypeError or ValueError where it is not one."""
    return Calibration(
        setup=_setup(document["setup"]),
        host=str(document["host"]),
        made=str(document["made"]),
        trials=tuple(_trial(each) for each in document["trials"]),
    )


def _setup(fields: Mapping[str, Any]) -> Setup:
    return Setup(
        device=str(fields["device"]),
        runtime=str(fields["runtime"]),
        version=str(fields["version"]),
        precision=str(fields["precision"]),
        threads=int(fields["threads"]),
        effective_ops=_maybe(float, fields["effective_ops"]),
        link_bits_per_second=_maybe(float, fields["link_bits_per_second"]),
        power=_maybe(_watts, fields["power_w"]),
    )


def _trial(fields: Mapping[str, Any]) -> Trial:
    measured = _maybe(_measured, fields["measured"])
    return Trial(str(fields["model"]), _features(fields["features"]), measured, str(fields["reason"]))


def _features(fields: Mapping[str, Any]) -> Features:
    return Features(
        digest=str(fields["digest"]),
        batch=int(fields["batch"]),
        groups=int(fields["groups"]),
        peak_bytes=Bytes(int(fields["peak_bytes"])),
        work={
            str(kind): Work(**{name: int(amount) for name, amount in work.items()})
            for kind, work in fields["work"].items()
        },
    )


def _measured(fields: Mapping[str, Any]) -> Measured:
    return Measured(
        seconds=_positive(fields["seconds"]),
        p90=_positive(fields["p90"]),
        runs=int(fields["runs"]),
        wall=_positive(fields["wall"]),
        waited=float(fields["waited"]),
        peak_bytes=Bytes(int(fields["peak_bytes"])),
        base_bytes=_maybe(_bytes, fields["base_bytes"]),
        watts=_maybe(_watts, fields["watts"]),
    )


def _maybe(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)


def _positive(value: Any) -> Seconds:
    number = float(value)
    if not 0 < number < 1e9:
        raise ValueError(f"{value!r} is not a duration")
    return Seconds(number)


def _bytes(value: Any) -> Bytes:
    return Bytes(int(value))


def _watts(value: Any) -> Watts:
    return Watts(float(value))

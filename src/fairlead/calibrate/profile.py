"""Profiles as files: one for each calibrated setup, and one for each model observed in real use."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from fairlead.calibrate.document import PARSE_ERRORS, VersionError, parse_calibration, parse_observed
from fairlead.calibration import Calibration, ObservedUse, setup_id
from fairlead.errors import UserError
from fairlead.outfile import atomic_write

OBSERVED_FOLDER: Final = "seen"
"""The folder of observed models, inside the folder of profiles."""
_SIZE_LIMIT: Final = 4 * 1024 * 1024
_SUFFIX: Final = ".json"
T = TypeVar("T", bound=Calibration | ObservedUse)


class OtherVersionError(UserError):
    """A profile of a version that this program does not read."""


class ProfileFolder(NamedTuple):
    """All profiles of a folder."""

    calibrations: tuple[Calibration, ...] = ()
    seen: tuple[ObservedUse, ...] = ()
    damaged: tuple[str, ...] = ()
    """A line for each file that cannot be used: which one, and why."""


def default_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of this user's profiles, by the XDG base directory specification."""
    base = environ.get("XDG_DATA_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    # The specification says to ignore a relative path.
    return os.path.join(
        base if os.path.isabs(base) else os.path.join(home, ".local", "share"), "fairlead", "profiles"
    )


def calibration_file(within: str, calibration: Calibration) -> str:
    """Return the file of a setup in a folder of profiles."""
    return os.path.join(within, f"{calibration.setup.name}{_SUFFIX}")


def observed_file(within: str, use: ObservedUse) -> str:
    """Return the file of a model on a setup in a folder of profiles."""
    return os.path.join(
        within, OBSERVED_FOLDER, f"{use.digest[:12]}-{setup_id(use.setup, use.host)}{_SUFFIX}"
    )


def save(calibration: Calibration, path: str) -> None:
    """Write a calibration, whole or not at all."""
    _write(calibration.to_json(), path)


def save_observed(use: ObservedUse, path: str) -> None:
    """Write an observed use, whole or not at all."""
    _write(use.to_json(), path)


def load(path: str) -> Calibration:
    """Read a calibration."""
    return _read(path, parse_calibration, "make it again: fairlead calibrate")


def load_observed(path: str) -> ObservedUse:
    """Read an observed use."""
    return _read(path, parse_observed, "remove it: it is written again when the model runs")


def load_any(path: str) -> Calibration | ObservedUse:
    """Read a profile of either kind."""
    return _read(path, _parse_any, "make it again: fairlead calibrate")


def load_all(within: str) -> ProfileFolder:
    """Read a folder; a missing folder is empty, and a damaged file does not hide the others."""
    damaged: list[str] = []
    calibrations = tuple(_read_all(within, load, damaged))
    observed = tuple(_read_all(os.path.join(within, OBSERVED_FOLDER), load_observed, damaged))
    return ProfileFolder(calibrations, observed, tuple(damaged))


def list_files(within: str) -> list[str]:
    """Return the profile files of a folder, without those in folders below it."""
    try:
        with os.scandir(within) as entries:
            # Opening a pipe or a device would block.
            names = [entry.name for entry in entries if entry.name.endswith(_SUFFIX) and entry.is_file()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{within}: {error.strerror}", "name another folder") from None
    return [os.path.join(within, name) for name in sorted(names)]


def _parse_any(document: Mapping[str, Any]) -> Calibration | ObservedUse:
    return parse_calibration(document) if "trials" in document else parse_observed(document)


def _read_all(within: str, read: Callable[[str], T], damaged: list[str]) -> Iterator[T]:
    try:
        paths = list_files(within)
    except UserError as error:
        damaged.append(str(error))
        return
    for path in paths:
        try:
            yield read(path)
        except UserError as error:
            damaged.append(str(error))


def _write(document: Mapping[str, Any], path: str) -> None:
    try:
        with atomic_write(path, text=True, folders=True) as out:
            json.dump(document, out, indent=1)
            out.write("\n")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "name another file with --out") from None


def _read(path: str, parse: Callable[[Any], T], hint: str) -> T:
    try:
        with open(path, "rb") as source:
            data = source.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "name a file that is there and can be read") from None
    if len(data) > _SIZE_LIMIT:
        raise UserError(f"{path}: larger than {_SIZE_LIMIT >> 20} MiB: not a profile", hint)
    try:
        return parse(json.loads(data))
    except VersionError as error:
        raise OtherVersionError(f"{path}: {error}", hint) from None
    except PARSE_ERRORS as error:
        raise UserError(f"{path}: not a profile: {type(error).__name__}: {error}", hint) from None

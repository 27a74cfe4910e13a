"""A folder of profiles as a whole: add profiles, and remove a setup."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fairlead.calibrate.profile import (
    OBSERVED_FOLDER,
    OtherVersionError,
    calibration_file,
    list_files,
    load,
    load_any,
    load_observed,
    observed_file,
    save,
    save_observed,
)
from fairlead.calibration import (
    Calibration,
    ObservedUse,
    Setup,
    merge_calibrations,
    merge_observed,
    setup_id,
)
from fairlead.errors import UserError

_ALIKE: Final = 0.1
"""Amounts of setups that differ by less are the same: clocks are read from a running machine."""


def add_profiles(
    calibrations: Iterable[Calibration], observed: Iterable[ObservedUse], within: str
) -> list[str]:
    """Add profiles to a folder, each to the file of its setup; return the files."""
    known = {setup: path for setup, path in _setups(within) if os.path.dirname(path) == within}
    written = []
    for calibration in calibrations:
        setup = setup_id(calibration.setup, calibration.host)
        # Machines of one kind share the plain name, so a file from elsewhere has the setup's id as well.
        path = (
            known.get(setup) or f"{calibration_file(within, calibration).removesuffix('.json')}-{setup}.json"
        )
        save(merge_calibrations(load(path), calibration) if setup in known else calibration, path)
        written.append(path)
    for use in observed:
        path = observed_file(within, use)
        save_observed(merge_observed(load_observed(path), use) if os.path.exists(path) else use, path)
        written.append(path)
    return written


def store(calibration: Calibration, path: str, within: str | None = None) -> tuple[str, Calibration]:
    """Add a calibration to the file of its setup; return that file, and all that it now holds.

    Results of other models stay, and a noisier run replaces no quieter one. A file of another setup, or of a
    newer program, is not written: the calibration gets a file of its own beside it. `within`: the setup may
    have any file of that folder.
    """
    folder = os.path.dirname(os.path.abspath(path))
    with _locked(folder):
        beside = _beside(path, calibration)
        for place in dict.fromkeys((path, beside, *(list_files(within) if within else ()))):
            before = _of_setup(calibration, place)
            if before is not None:
                merged = merge_calibrations(before, calibration)
                save(merged, place)
                return place, merged
        place = path if _is_free(path) else beside
        save(calibration, place)
    return place, calibration


def _beside(path: str, calibration: Calibration) -> str:
    stem, ending = os.path.splitext(path)
    return f"{stem}-{setup_id(calibration.setup, calibration.host)}{ending}"


def _is_free(path: str) -> bool:
    """Return whether a file may be written: it is not there, or no program can read it."""
    try:
        return _calibration(path) is None
    except OtherVersionError:
        return False


def _calibration(path: str) -> Calibration | None:
    """Return what a file holds; None: it is no profile, or is not there."""
    if not os.path.isfile(path):  # reading a pipe or a terminal would block
        return None
    try:
        return load(path)
    except OtherVersionError:
        raise
    except UserError:
        return None


def _of_setup(calibration: Calibration, path: str) -> Calibration | None:
    """Return what a file holds, if it is of the setup of a calibration."""
    with suppress(OtherVersionError):
        before = _calibration(path)
        return before if before is not None and _is_same_setup(before, calibration) else None
    return None


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a folder for the time of reading and writing: two calibrations may end together."""
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}", "name another file with --out") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_setup(setup: str, within: str) -> int:
    """Remove every file of a setup; return their number."""
    paths = [path for owner, path in _setups(within) if owner == setup]
    for path in paths:
        try:
            os.unlink(path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}", "remove it by hand") from None
    return len(paths)


def _setups(within: str) -> Iterator[tuple[str, str]]:
    """Yield the readable files, each with the id of its setup before it."""
    for path in (*list_files(within), *list_files(os.path.join(within, OBSERVED_FOLDER))):
        try:
            profile = load_any(path)
        except UserError:
            continue  # reading reports it; it must not block writing the others
        yield setup_id(profile.setup, profile.host), path


def _is_same_setup(one: Calibration, other: Calibration) -> bool:
    """Return whether two calibrations are of one setup, although its clock was not read the same."""
    names = [(each.setup.name, each.setup.version, each.host) for each in (one, other)]
    amounts = zip(_amounts(one.setup), _amounts(other.setup), strict=True)
    return names[0] == names[1] and all(_is_alike(*pair) for pair in amounts)


def _amounts(setup: Setup) -> tuple[float | None, ...]:
    return (setup.effective_ops, setup.link_bits_per_second, setup.power)


def _is_alike(one: float | None, other: float | None) -> bool:
    if not one or not other:
        return one == other
    return abs(one / other - 1) < _ALIKE

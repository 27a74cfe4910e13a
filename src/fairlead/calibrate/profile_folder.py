"""A folder of profiles as a whole: add profiles, and remove a setup."""

import os
from collections.abc import Iterable, Iterator

from fairlead.calibrate.profile import (
    OBSERVED_FOLDER,
    calibration_file,
    list_files,
    load,
    load_any,
    load_observed,
    observed_file,
    save,
    save_observed,
)
from fairlead.calibration import Calibration, ObservedUse, merge_calibrations, merge_observed, setup_id
from fairlead.errors import UserError


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

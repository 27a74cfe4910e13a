"""A folder of profiles as a whole: add to what it knows, and forget a setup."""

import os
from collections.abc import Iterable, Iterator

from fairlead.calibrate.profile import (
    SEEN,
    calibration_file,
    files,
    load,
    load_any,
    load_seen,
    save,
    save_seen,
    seen_file,
)
from fairlead.calibration import Calibration, ObservedUse, joined, place, united
from fairlead.errors import UserError


def keep(calibrations: Iterable[Calibration], seen: Iterable[ObservedUse], within: str) -> list[str]:
    """Add profiles to a folder, each to the file that its setup has there; return the files."""
    known = {setup: path for setup, path in _setups(within) if os.path.dirname(path) == within}
    written = []
    for calibration in calibrations:
        setup = place(calibration.setup, calibration.host)
        # Machines of one kind share the plain name, so a file from elsewhere has its setup's as well.
        path = (
            known.get(setup) or f"{calibration_file(within, calibration).removesuffix('.json')}-{setup}.json"
        )
        save(united(load(path), calibration) if setup in known else calibration, path)
        written.append(path)
    for one in seen:
        path = seen_file(within, one)
        save_seen(joined(load_seen(path), one) if os.path.exists(path) else one, path)
        written.append(path)
    return written


def forget(setup: str, within: str) -> int:
    """Remove every file of a setup; return how many there were."""
    paths = [path for found, path in _setups(within) if found == setup]
    for path in paths:
        try:
            os.unlink(path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}", "remove it by hand") from None
    return len(paths)


def _setups(within: str) -> Iterator[tuple[str, str]]:
    """Yield the files that can be read, each after its setup."""
    for path in (*files(within), *files(os.path.join(within, SEEN))):
        try:
            found = load_any(path)
        except UserError:
            continue  # reading says so; it must not keep others from being written
        yield place(found.setup, found.host), path

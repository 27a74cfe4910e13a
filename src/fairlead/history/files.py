"""Where a user's history lies: in the home, or in the state directory where the home cannot keep it."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from fairlead.ledger.place import STATE_VARIABLE, StateDirectory

FILE: Final = "history.db"
_FOLDER: Final = "fairlead"
_MODE: Final = 0o700


class HistoryFiles(NamedTuple):
    """The database that is written, and others that are read beside it."""

    path: str
    """Empty: no folder can keep one."""
    others: tuple[str, ...] = ()
    """Databases from a time at which another folder could be written."""
    problem: str = ""
    """Why the database is not at its usual place, in one line; empty: it is."""


def history_files(place: StateDirectory, environ: Mapping[str, str]) -> HistoryFiles:
    """Return where the history lies; the folder is made if it is missing."""
    kept = os.path.join(place.private, FILE)
    if environ.get(STATE_VARIABLE):
        return _usable((kept,), "")
    folder, problem = _home_folder(environ)
    return _usable((os.path.join(folder, FILE), kept) if folder else (kept,), problem)


def _usable(paths: tuple[str, ...], problem: str) -> HistoryFiles:
    for path in paths:
        why = _unwritable(path)
        if not why:
            others = tuple(other for other in paths if other != path and os.path.exists(other))
            text = f"{problem}: the history of your jobs is kept in {path}" if problem else ""
            return HistoryFiles(path, others, text)
        problem = problem or why
    others = tuple(path for path in paths if os.path.exists(path))
    return HistoryFiles("", others, f"{problem}: no history of your jobs is kept")


def _home_folder(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the user's folder for state, as the XDG specification says, or why there is none.

    A relative path does not count. A missing home is not made: it may be mounted later, over what it kept.
    """
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, _FOLDER), ""
    home = environ.get("HOME", "")
    if not os.path.isabs(home) or home == "/":
        return "", "there is no home directory"
    try:
        os.stat(home)
    except OSError as error:
        return "", f"{home}: {error.strerror}"
    return os.path.join(home, ".local", "state", _FOLDER), ""


def _unwritable(path: str) -> str:
    """Return why a database cannot be written; empty: it can."""
    folder = os.path.dirname(path)
    owner = _owner(folder)
    if os.geteuid() == 0 and owner not in {0, None}:  # a `sudo` that keeps HOME: the user could not read it
        return f"{folder}: it belongs to user {owner}"
    try:
        os.makedirs(folder, mode=_MODE, exist_ok=True)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder}: it cannot be written to"
    if os.path.lexists(path) and not os.access(path, os.R_OK | os.W_OK):
        return f"{path}: it cannot be written to"
    return ""


def _owner(folder: str) -> int | None:
    """Return the owner of a folder, or of the nearest one above it that exists."""
    while True:
        try:
            return os.stat(folder).st_uid
        except FileNotFoundError:
            folder = os.path.dirname(folder)
        except OSError:
            return None

"""StateDirectory: where the jobs of this machine are recorded, and whether the folders can be trusted."""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.errors import LedgerError

STATE_VARIABLE: Final = "FAIRLEAD_STATE"
SYSTEM_STATE: Final = "/var/lib/fairlead"
"""Root makes it, for instance at installation; then no user owns it."""
DEFAULT_STATE: Final = "/var/tmp/fairlead"  # noqa: S108 - the folders in it are checked, and it is sticky
SHARED_MODE: Final = 0o1777
OWN_MODE: Final = 0o755
PRIVATE_MODE: Final = 0o700
_WRITABLE_BY_OTHERS: Final = 0o022


def state_path(environ: Mapping[str, str], system: str = SYSTEM_STATE) -> str:
    """Return the path of the state directory."""
    stated = environ.get(STATE_VARIABLE, "")
    if stated:
        return os.path.abspath(stated)
    return system if os.path.isdir(system) else DEFAULT_STATE


def user_folder(uid: int) -> str:
    """Return the name of a user's folder in the state directory."""
    return f"u{uid}"


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The state directory, and the folders of one user in it."""

    path: str
    uid: int
    own: str
    """The user's folder: every user can read it."""
    jobs: str
    """One record for each job of the user: every user can read them."""
    private: str
    """Specifications, start tokens, output and caches: for the user alone."""

    @classmethod
    def open(cls, environ: Mapping[str, str], uid: int | None = None) -> "StateDirectory":
        """Return the state directory; missing folders are made, if they are the calling user's own."""
        return cls.at(state_path(environ), uid)

    @classmethod
    def at(cls, path: str, uid: int | None = None) -> "StateDirectory":
        """Return the state directory at this path, likewise."""
        user = os.geteuid() if uid is None else uid
        own = os.path.join(path, user_folder(user))
        place = cls(path, user, own, os.path.join(own, "jobs"), os.path.join(own, "private"))
        _open_shared(path)
        mine = user == os.geteuid()
        for folder, mode in ((own, OWN_MODE), (place.jobs, OWN_MODE), (place.private, PRIVATE_MODE)):
            _open_own(folder, mode, user, mine)
        return place


def _open_shared(path: str) -> None:
    try:
        if not os.path.isdir(path):
            with suppress(FileExistsError):
                os.makedirs(os.path.dirname(path))
        if _make(path, SHARED_MODE):
            return
        status = os.lstat(path)
    except OSError as error:
        raise _unusable(path, error) from None
    if problem := _problem(status):
        raise LedgerError(f"{path}: {problem}", _HINT)
    if status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX:
        raise LedgerError(
            f"{path}: other users can write to it and it is not sticky, so that they could replace your jobs",
            f"chmod +t {path}, or name another directory in {STATE_VARIABLE}",
        )


def _open_own(folder: str, mode: int, uid: int, mine: bool) -> None:
    try:
        if mine and _make(folder, mode):
            return
        status = os.lstat(folder)
    except FileNotFoundError:
        raise LedgerError(f"{folder}: user {uid} has no jobs here", "run the command as that user") from None
    except OSError as error:
        raise _unusable(folder, error) from None
    if problem := _problem(status):
        raise LedgerError(f"{folder}: {problem}", _HINT)
    if status.st_uid != uid:
        raise LedgerError(
            f"{folder}: it belongs to user {status.st_uid}, not to user {uid}",
            f"ask root to remove it, or name another directory in {STATE_VARIABLE}",
        )
    if not mine:
        return
    if stat.S_IMODE(status.st_mode) != mode:
        _correct(folder, mode)
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise LedgerError(
            f"{folder}: it cannot be written to",
            f"check its mode and whether its file system is read-only, or {_HINT}",
        )


def _make(path: str, mode: int) -> bool:
    """Make a folder with exactly this mode, in one step; False: it is there already."""
    before = os.umask(0)  # a folder that gets its mode by a later chmod would be wrong for a moment
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return False
    finally:
        os.umask(before)
    if stat.S_IMODE(os.lstat(path).st_mode) != mode:  # an access control list of the parent changes it
        _correct(path, mode)
    return True


def _correct(path: str, mode: int) -> None:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(folder, mode)
        finally:
            os.close(folder)
    except OSError as error:
        raise _unusable(path, error) from None


_HINT: Final = f"name another directory in {STATE_VARIABLE}"


def _problem(status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link instead of a directory"
    return "" if stat.S_ISDIR(status.st_mode) else "not a directory"


def _unusable(path: str, error: OSError) -> LedgerError:
    return LedgerError(
        f"{path}: {error.strerror or error}: the jobs of this machine cannot be recorded there",
        f"name a directory that you can write to in {STATE_VARIABLE}",
    )

"""Folders and files in places where other processes write too: descriptors instead of paths, no links."""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fairlead.errors import UserError

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY: Final = re.compile(r"\.fairlead-[0-9a-f]{16}\.tmp")


@contextmanager
def folder(path: str) -> Iterator[int]:
    """Open a folder that is not a link itself; its parents are trusted."""
    place = os.open(path, _FLAGS)
    try:
        yield place
    finally:
        os.close(place)


@contextmanager
def real_folder(path: str, *, make: bool = False) -> Iterator[int]:
    """Open a folder of which no parent is a link either; `make` creates missing ones."""
    place = _open_path(path, make=make)
    try:
        yield place
    finally:
        os.close(place)


def set_group(place: int, path: str, group: int) -> None:
    """Set an open folder's group; uid 0 without capabilities may do so only as a member of the group."""
    status = os.fstat(place)
    if status.st_gid == group:
        return
    try:
        os.fchown(place, -1, group)
    except PermissionError:
        hint = f"give the pod supplementalGroups: [{group}]"
        if status.st_uid != os.geteuid():
            hint = f"it belongs to uid {status.st_uid}: remove it, so that it is created again"
        raise UserError(f"{path}: chgrp to {group} not permitted", hint) from None


def write(place: int, name: str, data: bytes) -> None:
    """Write a file, readable by all, into an open folder, atomically."""
    temporary = f".fairlead-{os.urandom(8).hex()}.tmp"
    file = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place
    )
    try:
        try:
            os.fchmod(file, 0o644)
            _write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=place)
        raise
    os.fsync(place)


def sweep(place: int) -> None:
    """Remove the temporary files of a killed writer."""
    for name in filter(_TEMPORARY.fullmatch, os.listdir(place)):
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=place)


def read(path: str, limit: int, place: int | None = None) -> bytes | None:
    """Return a regular file's bytes, at most `limit` + 1; None for any other file.

    It opens neither a link nor a pipe nor a device, not even in a race.
    """
    spot = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    try:
        if not stat.S_ISREG(os.fstat(spot).st_mode):
            return None
        with open(f"/proc/self/fd/{spot}", "rb", buffering=0) as file:
            return _read_all(file.fileno(), limit + 1)
    finally:
        os.close(spot)


def _read_all(file: int, limit: int) -> bytes:
    data = b""
    while len(data) < limit and (piece := os.read(file, limit - len(data))):
        data += piece
    return data


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _open_path(path: str, *, make: bool) -> int:
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or {".", ".."} & set(parts):
        raise UserError(f"{path}: must be absolute, without '.' and '..'")
    place = os.open("/", _FLAGS)
    try:
        for part in parts:
            outer, place = place, _open_child(place, part, make=make)
            os.close(outer)
    except OSError as error:
        os.close(place)
        raise UserError(f"{path}: {_error_text(error)}") from None
    return place


def _error_text(error: OSError) -> str:
    part = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return f"not a folder, or a link to one{part}"
    return f"{(error.strerror or str(error)).lower()}{part}"


def _open_child(place: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _FLAGS, dir_fd=place)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(part, 0o755, dir_fd=place)
    return os.open(part, _FLAGS, dir_fd=place)

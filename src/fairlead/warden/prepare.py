"""Before the agent starts: its folders get its group, and small files are copied for it.

A folder that the agent could write to may contain anything: nothing in it is followed, opened or trusted.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from fairlead.errors import UserError
from fairlead.warden import folders

COPY_LIMIT: Final = 64 * 1024
_ENTRY_LIMIT: Final = 4096
"""The most entries of a folder that are read; the agent creates a handful."""


class FileCopy(NamedTuple):
    """A small file to copy."""

    source: str
    target: str
    """A file, or a folder where it ends with a slash."""


def open_folder(path: str, group: int) -> None:
    """Let a group write to a folder, and remove stale sockets from it."""
    with folders.real_folder(path) as place:
        folders.set_group(place, path, group)
        try:
            if stat.S_IMODE(os.fstat(place).st_mode) != 0o770:
                os.fchmod(place, 0o770)
        except OSError as error:
            raise UserError(f"{path}: chmod not permitted: {error.strerror}") from None
        _remove_sockets(place)


def copy(file: FileCopy, say: Callable[[str], None]) -> None:
    """Copy a file if it exists; one that is not a small regular file is skipped with a log line."""
    try:
        data = _read(file.source)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        say(f"{file.source}: not copied: {error.strerror}")
        return
    except UserError as error:
        say(f"{file.source}: not copied: {error}")
        return
    if data is None:
        say(f"{file.source}: not copied: not a regular file")
    elif len(data) > COPY_LIMIT:
        say(f"{file.source}: not copied: longer than {COPY_LIMIT} bytes")
    else:
        _write(file, data)


def parse_copy(text: str) -> FileCopy:
    """Parse FROM:TO."""
    source, _, target = text.partition(":")
    if not (source.startswith("/") and target.startswith("/")):
        raise UserError(f"--copy {text}: must be FROM:TO, two absolute paths")
    return FileCopy(source, target)


def _read(source: str) -> bytes | None:
    """Read a regular file, also through one link to a file below the link's own folder.

    On a Jetson Orin /etc/nvpmodel.conf is a link into /etc/nvpmodel. Where the host's /etc is mounted
    elsewhere, the link has a wrong target: so its text is resolved in the folder of the link itself.
    """
    data = folders.read(source, COPY_LIMIT)
    inner = _linked(source) if data is None else ""
    if not inner:
        return data
    folder, name = os.path.split(f"{os.path.dirname(source)}/{inner}")
    with folders.real_folder(folder) as place:
        return folders.read(name, COPY_LIMIT, place)


def _linked(source: str) -> str:
    """Return a link's target relative to its own folder; empty where the target is not below it."""
    try:
        target = os.readlink(source)
    except OSError:  # not a link
        return ""
    if target.startswith("/"):
        here, there = os.path.dirname(source).split("/"), target.split("/")[1:]
        shared = next((n for n in range(len(there) - 1, 0, -1) if here[-n:] == there[:n]), 0)
        target = "/".join(there[shared:]) if shared else ""
    return "" if {"", ".", ".."} & set(target.split("/")) else target


def _write(file: FileCopy, data: bytes) -> None:
    folder, name = os.path.split(file.target)
    with folders.real_folder(folder, make=True) as place:
        try:
            folders.write(place, name or os.path.basename(file.source), data)
        except OSError as error:
            raise UserError(f"{file.target}: cannot be written: {error.strerror}") from None


def _remove_sockets(place: int) -> None:
    with os.scandir(place) as entries:
        stale = [each.name for each in islice(entries, _ENTRY_LIMIT) if each.name.endswith(".sock")]
    for name in stale:
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=place)

"""A file copied with its times, mode, owner and attributes, synced, and read again to be sure."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fairlead.errors import FairleadError
from fairlead.tiering.volumes.rename import sync_folder

PIECE: Final = 1 << 20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class DroppedMove(FairleadError):  # noqa: N818  # no error of anybody: a writer was faster
    """A move was given up; the file is where it was."""


def copy_file(source: int, target: str, each_piece: Callable[[], None]) -> None:
    """Copy an open file to a new name, durably; `each_piece` may raise to give up."""
    handle = os.open(target, _FLAGS, 0o600)
    try:
        written = hashlib.sha256()
        offset = 0
        while piece := os.pread(source, PIECE, offset):
            offset += len(piece)
            written.update(piece)
            _write(handle, piece)
            each_piece()
        _copy_metadata(source, handle)
        os.fsync(handle)
    finally:
        os.close(handle)
    if digest_of(target, each_piece) != written.digest():
        raise DroppedMove("the copy differs from what was written", "is the volume damaged? see dmesg")


def _write(handle: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(handle, view) :]


def _copy_metadata(source: int, target: int) -> None:
    status = os.fstat(source)
    try:
        os.fchown(target, status.st_uid, status.st_gid)
    except PermissionError:
        raise DroppedMove("its owner could not be kept", "run the mover as the owner, or as root") from None
    os.fchmod(target, status.st_mode & 0o7777)
    for name in _attributes(source):
        with suppress(OSError):  # the other volume may not have attributes
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _attributes(handle: int) -> list[str]:
    try:
        return os.listxattr(handle)
    except OSError:
        return []


def digest_of(path: str, each_piece: Callable[[], None]) -> bytes:
    """Return the SHA-256 of a file as the volume has it: what the cache holds is dropped first."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        digest = hashlib.sha256()
        offset = 0
        while piece := os.pread(handle, PIECE, offset):
            offset += len(piece)
            digest.update(piece)
            each_piece()
        return digest.digest()
    finally:
        os.close(handle)


def copy_folders(source_top: str, target_top: str, folder: str) -> None:
    """Make a folder of one volume on the other, with the modes and owners of the first."""
    done = ""
    for name in folder.split("/") if folder else ():
        done = f"{done}/{name}"
        try:
            os.mkdir(target_top + done, 0o700)
        except FileExistsError:
            continue
        status = os.stat(source_top + done)
        with suppress(PermissionError):
            os.chown(target_top + done, status.st_uid, status.st_gid)
        os.chmod(target_top + done, status.st_mode & 0o7777)
        sync_folder(os.path.dirname(target_top + done))

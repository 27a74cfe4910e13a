"""One file, link or folder, copied whole or not at all, with mode, times and attributes."""

import errno
import hashlib
import os
import shutil
import stat
from contextlib import suppress
from typing import Final

from fairlead.errors import StoreCopyError
from fairlead.store.copying.listing import unreadable
from fairlead.store.digests import PIECE

STAGING: Final = ".fairlead-copy"
"""The folder at the root of the target for a file that is not whole yet."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def copy_file(source: str, target: str, staging: str) -> None:
    """Copy a file; it has its name in the target only when it is whole and on the disk."""
    staged = os.path.join(staging, "file")
    with suppress(FileNotFoundError):
        os.unlink(staged)
    try:
        handle = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(source, error) from None
    try:
        new = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            status = os.fstat(handle)
            _copy_bytes(source, handle, new)
            _keep_attributes(handle, new)
            _keep_owner(new, status)
            os.fchmod(new, stat.S_IMODE(status.st_mode))
            os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fsync(new)
        finally:
            os.close(new)
    finally:
        os.close(handle)
    _remove(target, but=stat.S_IFREG)
    os.replace(staged, target)


def copy_link(source: str, target: str, staging: str) -> None:
    """Copy a symbolic link as it is."""
    staged = os.path.join(staging, "link")
    with suppress(FileNotFoundError):
        os.unlink(staged)
    os.symlink(os.readlink(source), staged)
    status = os.lstat(source)
    with suppress(OSError, NotImplementedError):
        os.utime(staged, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
    _remove(target)
    os.replace(staged, target)


def join_names(first: str, target: str) -> None:
    """Give a file of the target a further name."""
    _remove(target)
    os.link(first, target, follow_symlinks=False)


def make_folder(target: str) -> None:
    """Make a folder that can be filled; its mode and times come last."""
    _remove(target, but=stat.S_IFDIR)
    with suppress(FileExistsError):
        os.mkdir(target, 0o700)
    os.chmod(target, stat.S_IMODE(os.lstat(target).st_mode) | 0o700)


def finish_folder(source: str, target: str) -> None:
    """Give a folder the mode, times and attributes of its source; its names are on the disk then."""
    handle = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        origin = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(origin)
            _keep_attributes(origin, handle)
        finally:
            os.close(origin)
        _keep_owner(handle, status)
        os.fchmod(handle, stat.S_IMODE(status.st_mode))
        os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(path: str) -> bytes:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    return digest.digest()


def attributes_of(path: str) -> dict[str, bytes]:
    """Return the attributes that users set, which a store keeps digests in."""
    try:
        names = [each for each in os.listxattr(path, follow_symlinks=False) if each.startswith("user.")]
        return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    except FileNotFoundError:
        raise
    except OSError:
        return {}


def remove(path: str) -> None:
    """Remove a file, a link or a folder with all that is in it."""
    _remove(path)


def _copy_bytes(source: str, handle: int, new: int) -> None:
    size = 0
    while True:
        try:
            piece = os.read(handle, PIECE)
        except OSError as error:
            raise unreadable(source, error) from None
        if not piece:
            break
        size += len(piece)
        if piece.count(0) == len(
            piece
        ):  # a hole stays one: a file may be longer than the space that it takes
            os.lseek(new, len(piece), os.SEEK_CUR)
            continue
        view = memoryview(piece)
        while view:
            view = view[os.write(new, view) :]
    os.ftruncate(new, size)


def _keep_attributes(handle: int, new: int) -> None:
    try:
        names = os.listxattr(handle)
    except OSError:  # no attributes there
        return
    for name in names:
        if name.startswith("user."):
            with suppress(OSError):  # none in the target: a store computes a digest when it is wanted
                os.setxattr(new, name, os.getxattr(handle, name))


def _keep_owner(new: int, status: os.stat_result) -> None:
    now = os.fstat(new)
    if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):  # the user of the pods is the owner, as of all that they write
            os.fchown(new, status.st_uid, status.st_gid)


def _remove(path: str, but: int = 0) -> None:
    """Remove what has a path, unless it is of the kind that may stay."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if kind == but:
        return
    if kind == stat.S_IFDIR:
        for folder, names, _ in os.walk(path):
            for name in (".", *names):
                inside = os.path.join(folder, name)
                if not os.path.islink(inside):
                    os.chmod(inside, 0o700)
        shutil.rmtree(path)
    else:
        os.unlink(path)


def explain_full(error: OSError, target: str) -> StoreCopyError | None:
    """Return the error of a target that is full; None: it is another one."""
    if error.errno not in _FULL:
        return None
    return StoreCopyError(f"{target} is full: {error.strerror}", "ask for a larger size, or remove files")

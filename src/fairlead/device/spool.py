"""Contents of queued uploads: a copy of each file as it was when it was queued, with its checksum."""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

from fairlead.device.files import sync_folder
from fairlead.errors import DeviceError, OutputError
from fairlead.outfile import is_disk_fault

_BLOCK: Final = 1 << 20
_FICLONE: Final = 0x40049409
"""The ioctl that shares the blocks of a file with another one until either is written (Btrfs, XFS)."""


@dataclass(frozen=True, slots=True)
class StagedContent:
    """A content in the spool."""

    name: str
    size: int
    sha256: str


def stage(source: str, spool: str, *, link: bool = False) -> StagedContent:
    """Put the content of a file into the spool; `link` takes a hard link to a file that nothing changes."""
    name = secrets.token_hex(16)
    target = os.path.join(spool, name)
    try:
        content = _link(source, target) if link else _copy(source, target)
        sync_folder(spool)
    except (DeviceError, OSError) as error:
        with suppress(FileNotFoundError):
            os.unlink(target)
        if isinstance(error, DeviceError):
            raise
        if is_disk_fault(error):
            raise OutputError(
                f"{source}: the queue cannot hold it: {error.strerror}",
                "make room on the disk; `fairlead device sync` empties the queue once the store is reached",
            ) from None
        raise DeviceError(f"{source}: it cannot be queued: {error.strerror or error}") from None
    return StagedContent(name, *content)


def _link(source: str, target: str) -> tuple[int, str]:
    try:
        os.link(os.path.realpath(source), target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            return _copy(source, target)  # another file system, or one without links
        raise
    with _open_regular(target, source) as file:
        content = _digest(file)
        os.fsync(file.fileno())
    return content


def _copy(source: str, target: str) -> tuple[int, str]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _open_regular(source, source) as old, os.fdopen(os.open(target, flags, 0o600), "w+b") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            content = _digest(new)
        except OSError:  # most file systems cannot share blocks
            content = _copy_blocks(old, new)
        new.flush()
        os.fsync(new.fileno())
    return content


def _open_regular(path: str, source: str) -> BinaryIO:
    """Open a regular file; a pipe would never end, and waits for a writer without O_NONBLOCK."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DeviceError(f"{source}: it is not a regular file", "name a file")
    return os.fdopen(handle, "rb")


def _copy_blocks(old: BinaryIO, new: BinaryIO) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while block := old.read(_BLOCK):
        new.write(block)
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()


def _digest(file: BinaryIO) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()

"""What is below a folder: files, folders and links by their paths."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fairlead.errors import StoreCopyError

_OF_FILE_SYSTEM: Final = "lost+found"
"""What a new file system has at its root: it is no data."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """What is below a folder, by the path in it; a folder comes before what is in it."""

    entries: dict[str, os.stat_result] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Sockets, pipes and devices: they hold no bytes."""

    @property
    def size(self) -> int:
        """The bytes of all files; a file with several names counts once."""
        files = {
            (status.st_dev, status.st_ino): status.st_size
            for status in self.entries.values()
            if stat.S_ISREG(status.st_mode)
        }
        return sum(files.values())

    @property
    def files(self) -> int:
        """How many files there are."""
        return sum(stat.S_ISREG(status.st_mode) for status in self.entries.values())


def list_folder(root: str, own: str = "") -> FolderListing:
    """List a folder; `own` is a name at its root that is no part of it. StoreCopyError: it cannot be read."""
    entries: dict[str, os.stat_result] = {}
    left_out = []
    for path, status in _walk(root, "", own):
        kind = stat.S_IFMT(status.st_mode)
        if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            entries[path] = status
        else:
            left_out.append(path)
    return FolderListing(entries, tuple(left_out))


def _walk(root: str, folder: str, own: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        names = sorted(os.listdir(os.path.join(root, folder)))
    except FileNotFoundError:
        if not folder:
            raise StoreCopyError(f"{root}: there is no such folder", "mount the volume there") from None
        return  # removed while it was listed
    except OSError as error:
        raise unreadable(os.path.join(root, folder), error) from None
    for name in names:
        if not folder and name in (_OF_FILE_SYSTEM, own):
            continue
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError):
            status = os.lstat(os.path.join(root, path))
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(root, path, own)


def unreadable(path: str, error: OSError) -> StoreCopyError:
    """Return the error of something that cannot be read."""
    return StoreCopyError(
        f"{path} cannot be read: {error.strerror}", "repair it, change its mode, or remove it; then try again"
    )

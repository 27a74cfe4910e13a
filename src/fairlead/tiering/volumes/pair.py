"""VolumePair: a fast and a slow folder, and where a file of theirs is.

What programs see is the fast folder. A file on the fast tier is a plain file there; a file on the slow tier
is a symbolic link there, to the file of the same relative path in the slow folder. That path is the file's
key.
"""

import os
import stat
from dataclasses import dataclass
from typing import Final

from fairlead.compat import StrEnum

OWN: Final = ".fairlead"
"""The folder in either volume that holds no files of programs; the store reserves the same name."""
STATE: Final = f"{OWN}/tier"


class Where(StrEnum):
    """Where a file is."""

    FAST = "fast"
    SLOW = "slow"
    MISSING = "missing"
    OTHER = "other"
    """A folder, a device, a link to somewhere else, or to the slow file of another key."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What a file was when it was copied; another size, time or inode: it was changed or replaced."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result, inode: int | None = None) -> "FileIdentity":
        """Return the identity of a file."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino if inode is None else inode)

    @classmethod
    def parse(cls, text: str) -> "FileIdentity | None":
        """Return the identity that a name says; None: it says none."""
        words = text.split("-")
        if len(words) != 3 or not all(word.isdecimal() for word in words):
            return None
        return cls(*map(int, words))

    def __str__(self) -> str:
        return f"{self.size}-{max(self.mtime_ns, 0)}-{self.inode}"

    def has_content_of(self, status: os.stat_result) -> bool:
        """Return whether a file has the size and the time of this one: it was not written since."""
        return (status.st_size, max(status.st_mtime_ns, 0)) == (self.size, max(self.mtime_ns, 0))


@dataclass(frozen=True, slots=True)
class VolumePair:
    """The two folders, by their real paths."""

    fast: str
    slow: str

    @classmethod
    def of(cls, fast: str, slow: str) -> "VolumePair":
        """Return the pair of two folders."""
        return cls(os.path.realpath(fast), os.path.realpath(slow))

    @property
    def state(self) -> str:
        """The folder of the mover's own files on the fast volume."""
        return f"{self.fast}/{STATE}"

    @property
    def staging(self) -> str:
        """The folder of unfinished copies on the slow volume."""
        return f"{self.slow}/{STATE}/new"

    def path(self, key: str) -> str:
        """Return the path that programs use."""
        return f"{self.fast}/{key}"

    def slow_path(self, key: str) -> str:
        """Return the path of the file on the slow volume."""
        return f"{self.slow}/{key}"

    def incoming(self, key: str) -> str:
        """Return the folder in which a promotion is prepared."""
        return f"{self.state}/in/{key}"

    def outgoing(self, key: str) -> str:
        """Return the folder in which a demotion is prepared, and where the demoted file waits."""
        return f"{self.state}/out/{key}"

    def where(self, key: str) -> Where:
        """Return where a file is."""
        path = self.path(key)
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                return Where.FAST
            if stat.S_ISLNK(mode) and os.readlink(path) == self.slow_path(key):
                return Where.SLOW
        except (FileNotFoundError, NotADirectoryError):
            return Where.MISSING
        except OSError:
            pass  # it changed between two looks, or cannot be read
        return Where.OTHER

    def key_of_target(self, target: str) -> str | None:
        """Return the key of a slow file to which a link leads; None: it leads to somewhere else."""
        head, key = target[: len(self.slow) + 1], target[len(self.slow) + 1 :]
        if head != f"{self.slow}/" or not key or key.split("/")[0] == OWN or ".." in key.split("/"):
            return None
        return key


def is_key(key: str) -> bool:
    """Return whether a relative path may be the key of a file."""
    parts = key.split("/")
    return bool(key) and parts[0] != OWN and not any(part in ("", ".", "..") for part in parts)


def lstat(path: str) -> os.stat_result | None:
    """Return the status of a name; None: there is none."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None

"""The files of a machine below a root folder, read so that no content there can harm the reader.

Every read is bounded, never blocks on a pipe or a device, and stays below the root: a captured host comes
from an untrusted source, and its symlinks must not lead to files of this machine.
"""

import errno
import fnmatch
import os
import re
import stat
from itertools import islice
from typing import Final

READ_LIMIT: Final = 64 * 1024
LIST_LIMIT: Final = 8192
_LINK_LIMIT: Final = 40
_PART_LIMIT: Final = 128
"""Components of a path after links are followed; sysfs nests less than half as deep."""
_PROBLEM_LIMIT: Final = 50
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_IDLE: Final = (3, 4)
"""Of /proc/stat: the fields idle and iowait."""
_ALL: Final = 8
"""Of /proc/stat: the fields up to steal; guest time, which follows, is already part of user time."""
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def printable(text: str) -> str:
    """Return `text` on one line and in valid Unicode, whatever bytes it was decoded from."""
    try:
        clean = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a surrogate pair, as JSON can hold one
        clean = text
    return clean if clean.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in clean)


class Host:
    """A machine's files below `root`; absent, unreadable and hostile ones read as None."""

    def __init__(self, root: str = "/", *, here: bool = False, dev: bool = True) -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"
        self.here = here or self.live
        """Whether this is the machine that the program runs on; a container mounts its files below a root."""
        self._dev = dev
        """Whether the machine's /dev is visible; a user namespace mounts another one over it."""
        self._prefix = "" if self.live else self.root
        self._problems: dict[str, str] = {}
        self._folders: dict[str, str | None] = {}
        self._plain: set[str] = set()
        """Paths outside the root that are known not to be links."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read so far, and why."""
        return tuple(f"{printable(path)}: {why}" for path, why in self._problems.items())

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        """Return the start of a regular file, at most `limit` bytes of it."""
        try:
            real = path if self.live else self._regular(path)
            if real is None:
                return None
            handle = os.open(real, _OPEN_FLAGS if self.live else _OPEN_FLAGS | os.O_NOFOLLOW)
            try:
                return os.read(handle, limit)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            self._add_os_error(path, error)
            return None

    def read_with_mtime(self, path: str) -> tuple[float, bytes] | None:
        """Return a regular file's modification time (seconds since 1970) and its start.

        For folders that any user may write to: only a regular file is ever opened, even in a race, because
        opening a device can have effects.
        """
        real = self._locate(path)
        if real is None:
            return None
        try:
            location = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(location)
                if not stat.S_ISREG(status.st_mode):
                    return None
                handle = os.open(f"/proc/self/fd/{location}", _OPEN_FLAGS)
            finally:
                os.close(location)
            try:
                return status.st_mtime, os.read(handle, READ_LIMIT)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            self._add_os_error(path, error)
            return None

    def text(self, path: str) -> str | None:
        """Return a small file as one printable line, without trailing NULs and white space."""
        data = self.read(path, 4096)
        return None if data is None else printable(data.decode("utf-8", "replace").strip("\0 \t\r\n"))

    def number(self, path: str) -> int | None:
        """Return a small file as a whole number: decimal, or hexadecimal with 0x."""
        data = self.read(path, 64)
        if data is None:
            return None
        try:
            return int(data.strip(b"\0 \t\r\n"), 0)
        except ValueError:
            return self._decimal(path, data)

    def hexadecimal(self, path: str) -> int | None:
        """Return a small file as a number written in hexadecimal, with or without 0x."""
        data = self.read(path, 64)
        if data is None:
            return None
        try:
            value = int(data.strip(b"\0 \t\r\n"), 16)
        except ValueError:
            value = -1
        if value < 0:
            self.add_problem(path, "not a hexadecimal number")
            return None
        return value

    def strings(self, path: str) -> tuple[str, ...]:
        """Return a device-tree string list."""
        data = self.read(path, 4096)
        if not data:
            return ()
        return tuple(printable(part.decode("utf-8", "replace")) for part in data.split(b"\0") if part)

    def names(self, path: str, pattern: str = "*") -> list[str]:
        """Return the sorted names in a folder that match a glob; empty if the folder does not exist."""
        names = sorted(entry.name for entry in self._entries(path))
        return names if pattern == "*" else fnmatch.filter(names, pattern)

    def folders(self, path: str) -> list[str]:
        """Return the sorted names of the real folders in a folder: no links, no files."""
        return sorted(entry.name for entry in self._entries(path) if entry.is_dir(follow_symlinks=False))

    def exists(self, path: str) -> bool:
        """Return whether a file of any type exists at the path."""
        real = None if self._hidden(path) else self._locate(path)
        if real is None:
            return False
        try:
            os.stat(real, follow_symlinks=self.live)
        except (OSError, ValueError):
            return False
        return True

    def link(self, path: str) -> str | None:
        """Return the last component of a symlink's target, which is how sysfs names drivers and classes."""
        folder, name = os.path.split(path)
        real = self._locate(folder)
        if real is None:
            return None
        try:
            target = os.readlink(os.path.join(real, name))
        except (OSError, ValueError):
            return None
        return printable(os.path.basename(target.rstrip("/"))) or None

    def resolve(self, path: str) -> str | None:
        """Return the path below the root that `path` leads to after every link is followed."""
        if "\0" in path:
            return None
        real = os.path.realpath(path) if self.live else self._locate(path)
        if real is None or not os.path.lexists(real):
            return None
        return real[len(self._prefix) :] or "/"

    def _hidden(self, path: str) -> bool:
        return not self._dev and (path == "/dev" or path.startswith("/dev/"))

    def add_problem(self, path: str, why: str) -> None:
        """Record why a path could not be read or used."""
        if len(self._problems) < _PROBLEM_LIMIT:
            self._problems.setdefault(path, why)

    def _entries(self, path: str) -> list["os.DirEntry[str]"]:
        """Return the entries of a folder whose names a kernel could have given."""
        real = None if self._hidden(path) else self._locate(path)
        if real is None:
            return []
        try:
            with os.scandir(real) as entries:
                listed = list(islice(entries, LIST_LIMIT))
        except (OSError, ValueError) as error:
            self._add_os_error(path, error)
            return []
        if len(listed) == LIST_LIMIT:
            self.add_problem(path, f"more than {LIST_LIMIT} entries: the rest is ignored")
        printable_entries = [entry for entry in listed if entry.name.isprintable()]
        if len(printable_entries) < len(listed):
            self.add_problem(path, "contains names that no kernel gives: they are ignored")
        return printable_entries

    def _regular(self, path: str) -> str | None:
        """Return the real path of a regular file of a foreign root; a pipe or a device is never opened."""
        folder, _, name = path.rpartition("/")
        base = self._folder(folder)
        if base is None:
            return None
        real = f"{base}/{name}"
        mode = os.lstat(real).st_mode
        if stat.S_ISLNK(mode):
            target = self._follow(path)
            if target is None:
                return None
            real, mode = target, os.lstat(target).st_mode
        if not stat.S_ISREG(mode):
            self.add_problem(path, "not a regular file")
            return None
        return real

    def _locate(self, path: str) -> str | None:
        """Return the path outside the root; links of a foreign root are followed inside it only."""
        if self.live:
            return path
        folder, _, name = path.rpartition("/")
        base = self._folder(folder)
        if base is None:
            return None
        real = f"{base}/{name}"
        return self._follow(path) if os.path.islink(real) else real

    def _folder(self, path: str) -> str | None:
        """Return the real path of a folder of a foreign root, cached: a scan needs the same ones often."""
        if path not in self._folders:
            if len(self._folders) > LIST_LIMIT:
                self._folders.clear()
            self._folders[path] = self._follow(path)
        return self._folders[path]

    def _follow(self, path: str) -> str | None:
        """Resolve `path` below the root as a process rooted there would."""
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done = self._prefix
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done.rpartition("/")[0] if len(done) > len(self._prefix) else done
                continue
            target = self._target(f"{done}/{part}")
            if target is None:
                done = f"{done}/{part}"
                continue
            links += 1
            if links > _LINK_LIMIT:
                self.add_problem(path, "too many levels of symbolic links")
                return None
            if target.startswith("/"):
                done = self._prefix
            todo.extend(p for p in reversed(target.split("/")) if p not in ("", "."))
            if len(todo) > _PART_LIMIT:
                self.add_problem(path, "too long a path of symbolic links")
                return None
        return done

    def _target(self, real: str) -> str | None:
        """Return the target of a link outside the root; None if the path is not a link."""
        if real in self._plain:
            return None
        try:
            return os.readlink(real)
        except (OSError, ValueError):
            if len(self._plain) < LIST_LIMIT:
                self._plain.add(real)
            return None

    def _decimal(self, path: str, data: bytes) -> int | None:
        try:
            return int(data.strip(b"\0 \t\r\n"), 10)
        except ValueError:
            self.add_problem(path, "not a number")
            return None

    def _add_os_error(self, path: str, error: OSError | ValueError) -> None:
        if isinstance(error, ValueError) or error.errno not in _ABSENT:
            self.add_problem(path, str(getattr(error, "strerror", None) or error).lower())


def total_ticks(text: bytes) -> tuple[int, int] | None:
    """Return the busy ticks and all ticks of the cores since boot, as /proc/stat has them."""
    match = re.match(rb"cpu((?: +[0-9]{1,20})+)", text)
    fields = [int(field) for field in match[1].split()[:_ALL]] if match else []
    if len(fields) <= max(_IDLE):
        return None
    return sum(fields) - sum(fields[index] for index in _IDLE), sum(fields)

"""Power cuts: a disk that records the store's steps, and what POSIX allows to be left of them.

What is not synced may be lost, whole or in part: bytes of a file since its last fsync, and names of a folder
since the folder's. Each change of a name survives or not by itself: some file systems keep their order, POSIX
does not promise it.
"""

import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from fairlead.store.disk import PosixDisk


@dataclass(frozen=True)
class Write:
    """Bytes appended to a file."""

    file: int
    data: bytes


@dataclass(frozen=True)
class Name:
    """A change of a name in a folder; no file: it is removed."""

    folder: str
    name: str
    file: int | None


@dataclass(frozen=True)
class Sync:
    """An fsync, of a file or a folder."""

    file: int | None
    folder: str


@dataclass(frozen=True)
class Acknowledged:
    """An upload that its client was told to be done."""

    name: str
    data: bytes


Step = Write | Name | Sync | Acknowledged


@dataclass
class RecordingDisk(PosixDisk):
    """Does each step, but for fsync, and records it."""

    steps: list[Step] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _files: dict[int, int] = field(default_factory=dict)
    """A number for each file by its inode: the file system uses that of a removed file again."""
    _numbers: Iterator[int] = field(default_factory=count)

    def create(self, path: str) -> int:
        """Create a file, and record its name."""
        handle = super().create(path)
        with self._lock:
            self._files[os.fstat(handle).st_ino] = next(self._numbers)
        self._record(Name(os.path.dirname(path), os.path.basename(path), self._file(handle)))
        return handle

    def write(self, handle: int, data: memoryview) -> None:
        """Write, and record the bytes."""
        self._record(Write(self._file(handle), bytes(data)))
        super().write(handle, data)

    def sync(self, handle: int) -> None:
        """Record an fsync."""
        real = os.readlink(f"/proc/self/fd/{handle}")
        self._record(Sync(None, real) if os.path.isdir(real) else Sync(self._file(handle), ""))

    def replace(self, source: str, name: str, folder: int) -> None:
        """Rename, and record both names."""
        self._names(source, name, folder)
        super().replace(source, name, folder)

    def link_new(self, source: str, name: str, folder: int) -> None:
        """Link and unlink, and record both names."""
        super().link_new(source, name, folder)
        self._names(f"/proc/self/fd/{folder}/{name}", name, folder, source)

    def remove(self, path: str) -> None:
        """Remove, and record it."""
        self._record(Name(os.path.dirname(path), os.path.basename(path), None))
        super().remove(path)

    def acknowledge(self, name: str, data: bytes) -> None:
        """Record that a client was told of its upload."""
        self._record(Acknowledged(name, data))

    def _names(self, file: str, name: str, folder: int, source: str = "") -> None:
        self._record(Name(os.readlink(f"/proc/self/fd/{folder}"), name, self._file(file)))
        old = source or file
        self._record(Name(os.path.dirname(old), os.path.basename(old), None))

    def _file(self, file: int | str) -> int:
        return self._files[os.stat(file).st_ino]

    def _record(self, step: Step) -> None:
        with self._lock:
            self.steps.append(step)


def left_after(steps: list[Step], folder: Path, dice: random.Random) -> dict[str, bytes]:
    """Return the files of a folder that a power cut after these steps may leave."""
    contents: dict[int, bytes] = {}
    synced: dict[int, int] = {}
    names: list[tuple[Name, bool]] = []
    for step in steps:
        if isinstance(step, Write):
            contents[step.file] = contents.get(step.file, b"") + step.data
        elif isinstance(step, Sync) and step.file is not None:
            synced[step.file] = len(contents.get(step.file, b""))
        elif isinstance(step, Sync):
            names = [(name, sure or name.folder == step.folder) for name, sure in names]
        elif isinstance(step, Name):
            if step.file is not None and step.folder != str(folder):
                contents[step.file], synced[step.file] = (
                    b"",
                    0,
                )  # a new file, perhaps with a number used before
            names.append((step, False))
    kept: dict[str, int] = {}
    for name, sure in names:
        if name.folder != str(folder) or not (sure or dice.random() < 0.5):
            continue
        if name.file is None:
            kept.pop(name.name, None)
        else:
            kept[name.name] = name.file
    return {
        name: _left_of(contents.get(inode, b""), synced.get(inode, 0), dice) for name, inode in kept.items()
    }


def _left_of(data: bytes, synced: int, dice: random.Random) -> bytes:
    """Return what is left of a file: all that is synced, and some of the rest, or zeros in its place."""
    rest = data[synced : synced + dice.randrange(len(data) - synced + 1)]
    return data[:synced] + (rest if dice.random() < 0.5 else bytes(len(rest)))

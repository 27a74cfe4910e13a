"""The inputs of a job as they are found: below a folder, or named by a list; never all in memory."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final

from fairlead.errors import JobError

_LONGEST: Final = 1024
"""Bytes of a path: longer ones do not fit below the folder of a job."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is an input."""

    path: str
    """Below the base of the job, with slashes; the name of the input and of its result."""
    file: str
    """The file on this machine."""


@dataclass(frozen=True, slots=True)
class UnusableInput:
    """A named input that no job can take."""

    path: str
    reason: str


Found = InputFile | UnusableInput


def below_folder(folder: str, start: str = "") -> Iterator[Found]:
    """Yield the files below a folder, in the order in which the folder has them.

    Names that begin with a dot are left out: programs write there what is not whole yet. Links to folders
    are not followed.
    """
    try:
        entries = os.scandir(os.path.join(folder, start))
    except FileNotFoundError:
        if not start:
            raise JobError(
                f"{folder}: there is no such folder", "name a folder, a list of files, or -"
            ) from None
        return  # it was removed while the files were listed
    except OSError as error:
        if not start:
            raise JobError(f"{folder}: it cannot be read: {error.strerror}") from None
        yield UnusableInput(start, error.strerror or str(error))
        return
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{start}/{entry.name}" if start else entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from below_folder(folder, path)
            elif entry.is_file():
                yield named(folder, path)


def from_lines(lines: "IO[str] | Iterable[str]", base: str) -> Iterator[Found]:
    """Yield the files that the lines of a list name, relative to a base or from the root."""
    root = os.path.abspath(base)
    for line in lines:
        text = line.rstrip("\r\n")
        if text.strip():
            yield _listed(text, root)


def _listed(text: str, root: str) -> Found:
    full = os.path.normpath(os.path.join(root, text))
    prefix = root if root.endswith(os.sep) else root + os.sep
    if not full.startswith(prefix):
        return UnusableInput(text[:_LONGEST], f"it is not below {root}: --base names another folder")
    path = full[len(prefix) :]
    try:
        mode = os.stat(full).st_mode
    except (OSError, ValueError) as error:
        return UnusableInput(text[:_LONGEST], getattr(error, "strerror", None) or str(error))
    if not stat.S_ISREG(mode):
        return UnusableInput(path, "it is not a regular file")
    return named(root, path)


def named(base: str, path: str) -> Found:
    """Return a file as an input, unless its name cannot be one."""
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return UnusableInput(ascii(path)[1:-1], "its name is no UTF-8")
    if length > _LONGEST:
        return UnusableInput(path[:80] + "...", f"its name has more than {_LONGEST} bytes")
    if not path.isprintable():
        return UnusableInput(ascii(path)[1:-1], "its name has characters that cannot be printed")
    return InputFile(path, os.path.join(base, path))

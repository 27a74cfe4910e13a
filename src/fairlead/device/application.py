"""The digest of an application: of the file that its command runs, or of its image."""

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from typing import Final

from fairlead.errors import DeviceError

_IMAGE: Final = re.compile(r"(?:\S+@)?(sha256:[0-9a-f]{64})")
_INTERPRETER: Final = re.compile(
    r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|luajit|java|Rscript|(?:ba|da|z|k)?sh)[0-9.]*"
)
_BLOCK: Final = 1 << 20


def image_digest(text: str) -> str:
    """Return the digest of an image, as `sha256:...` or `NAME@sha256:...` states it."""
    found = _IMAGE.fullmatch(text.strip())
    if found is None:
        raise DeviceError(
            f"{text[:200]!r} names no digest of an image",
            "write NAME@sha256:... as `podman image inspect --format '{{.Digest}}' NAME` prints it",
        )
    return found[1]


def split_command(text: str) -> list[str]:
    """Return the words of a command line."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DeviceError(f"{text[:200]!r} is not a command: {error}") from None
    if not words:
        raise DeviceError(
            "the command of the application is empty", "leave --command out, or name its program"
        )
    return words


def application_file(command: Sequence[str], folder: str = ".", path: str | None = None) -> str | None:
    """Return the file that makes a command what it is; None: it names none.

    It is the program, or, of an interpreter, the first argument that names a file: `app.py` in
    `python3 app.py`, for the interpreter is another file on each kind of machine.
    """
    if _INTERPRETER.fullmatch(os.path.basename(command[0])):
        files = (os.path.join(folder, word) for word in command[1:] if not word.startswith("-"))
        if script := next((file for file in files if os.path.isfile(file)), None):
            return os.path.realpath(script)
    program = (
        os.path.join(folder, command[0]) if os.sep in command[0] else shutil.which(command[0], path=path)
    )
    return os.path.realpath(program) if program and os.path.isfile(program) else None


def command_digest(command: Sequence[str], folder: str = ".", path: str | None = None) -> str | None:
    """Return `sha256:...` of the file that makes a command what it is; None: there is none to read."""
    file = application_file(command, folder, path)
    return None if file is None else _file_digest(file)


class CommandDigest:
    """The digest of a command's file, which is read again only when the file changes."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._digest: str | None = None

    def __call__(self, command: Sequence[str]) -> str | None:
        """Return the digest as it is now."""
        file = application_file(command)
        try:
            status = os.stat(file or "")
        except OSError:
            return None
        seen = (file, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if seen != self._seen:
            self._digest, self._seen = _file_digest(file or ""), seen
        return self._digest


def _file_digest(path: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    except OSError:
        return None
    return f"sha256:{digest.hexdigest()}"

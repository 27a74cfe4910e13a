"""Our files in the CDI folder; all other files there are ignored."""

import hashlib
import os
import stat
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairlead.errors import UserError
from fairlead.warden import folders, rules
from fairlead.warden.devices import Devices
from fairlead.warden.spec import NOT_OURS, render, violation

FILE_LIMIT: Final = 256 * 1024
COUNT_LIMIT: Final = 512
TOTAL_LIMIT: Final = 4 * 1024 * 1024

Say = Callable[[str], None]


class StoreResult(NamedTuple):
    """The result of a request: the answer's `fields`, or an `error`."""

    fields: dict[str, Any]
    error: str = ""


class Store:
    """Our files in a CDI folder."""

    def __init__(self, path: str, devices: Devices, say: Say) -> None:
        self._path = path
        self._devices = devices
        self._say = say
        try:
            with folders.folder(path) as place:
                folders.sweep(place)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}", "mount the runtime's CDI folder there") from None

    def put(self, file: str, spec: Any) -> StoreResult:
        """Write a file, if its whole content is allowed."""
        devices = self._devices
        fault = violation(file, spec, devices.root, devices.fault, devices.together_fault)
        if fault:
            return StoreResult({}, fault)
        data = render(spec)
        with folders.folder(self._path) as place:
            sizes = _sizes(place)
            if _content(place, file) == data:
                return StoreResult({"sha256": _digest(data), "changed": False})
            fault = _over_limit(file, len(data), sizes) or _foreign(place, file)
            if fault:
                return StoreResult({}, fault)
            folders.write(place, file, data)
        number = len(spec["devices"])
        self._say(f"put {file}: {number} device{'' if number == 1 else 's'}")
        return StoreResult({"sha256": _digest(data), "changed": True})

    def remove(self, file: str) -> StoreResult:
        """Remove a file; a missing file counts as removed."""
        if rules.kind_of(file) is None:
            return StoreResult({}, NOT_OURS)
        with folders.folder(self._path) as place:
            fault = _foreign(place, file)
            if fault:
                return StoreResult({}, fault)
            try:
                os.unlink(file, dir_fd=place)
            except FileNotFoundError:
                return StoreResult({"removed": False})
        self._say(f"removed {file}")
        return StoreResult({"removed": True})

    def names(self) -> StoreResult:
        """Return our files, each with the SHA-256 of its content."""
        with folders.folder(self._path) as place:
            files = {file: _digest(_content(place, file) or b"") for file in sorted(_sizes(place))}
        return StoreResult({"files": files})


def _sizes(place: int) -> dict[str, int]:
    """Return our regular files, with their sizes."""
    with os.scandir(place) as entries:
        ours = [
            entry for entry in entries if rules.kind_of(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        return {each.name: each.stat(follow_symlinks=False).st_size for each in ours}


def _content(place: int, file: str) -> bytes | None:
    try:
        return folders.read(file, FILE_LIMIT, place)
    except FileNotFoundError:
        return None


def _over_limit(file: str, size: int, sizes: dict[str, int]) -> str | None:
    others = [each for name, each in sizes.items() if name != file]
    if size > FILE_LIMIT:
        return f"{size} bytes are too many, at most {FILE_LIMIT}"
    if len(others) >= COUNT_LIMIT:
        return f"there are {len(others)} files already, at most {COUNT_LIMIT}"
    if sum(others) + size > TOTAL_LIMIT:
        return f"all files together would exceed {TOTAL_LIMIT} bytes"
    return None


def _foreign(place: int, file: str) -> str | None:
    """Return the fault of a file that the warden did not write; None without one."""
    try:
        status = os.stat(file, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(status.st_mode) else "another kind of file has this name; it is left alone"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

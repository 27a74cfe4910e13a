"""External data of a model: located and measured, never outside the model's own folder."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.analyze.names import printable
from fairlead.errors import AnalysisError

_HINT = "keep the model and its data in one folder, as they were exported"


@dataclass(frozen=True, slots=True)
class ExternalData:
    """The file and offset of a tensor's data."""

    path: str
    offset: int

    def read(self, size: int) -> bytes | None:
        """Return the data of a small tensor, or None where it cannot be read."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            data = os.pread(handle, size, self.offset)
        finally:
            os.close(handle)
        return data if len(data) == size else None


class ExternalDataFolder:
    """The folder of a model, and the files with its external data."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._folder = os.path.dirname(model) or "."
        self._homes = tuple(
            {os.path.realpath(self._folder), os.path.dirname(os.path.realpath(model))}
        )  # a hub's cache links the model and its data to one folder of blobs
        self._sizes: dict[str, tuple[str, int] | None] = {}
        self.missing: set[str] = set()
        """Files that do not exist; the sizes of their tensors are still known."""

    def find(self, entries: Mapping[str, str], size: int, tensor: str) -> ExternalData | None:
        """Return the place of a tensor's data, or None where that file is missing."""
        location = entries.get("location", "")
        file = self._file(location, tensor)
        if file is None:
            return None
        path, size_in_file = file
        offset = self._count(entries.get("offset", "0"), tensor)
        length = self._count(entries.get("length") or str(size), tensor)
        if length != size and size:
            raise self._error(tensor, f"has {length} bytes of external data, its dims need {size}")
        if offset + length > size_in_file:
            raise self._error(tensor, f"lies beyond the end of {printable(location)!r}: that file is cut off")
        return ExternalData(path, offset)

    def _file(self, location: str, tensor: str) -> tuple[str, int] | None:
        if location not in self._sizes:
            if len(self._sizes) > 10_000:
                raise self._error(tensor, "is one of more than 10,000 files of external data")
            self._sizes[location] = self._measure(location, tensor)
        return self._sizes[location]

    def _measure(self, location: str, tensor: str) -> tuple[str, int] | None:
        parts = location.replace("\\", "/").split("/")
        if not location or not location.isprintable() or ".." in parts or os.path.isabs(location):
            raise self._error(
                tensor, f"names {printable(location)!r}, which is not inside the model's folder"
            )
        path = os.path.realpath(os.path.join(self._folder, location))
        if not any(os.path.commonpath((home, path)) == home for home in self._homes):
            raise self._error(tensor, f"names {printable(location)!r}, a link out of the model's folder")
        try:
            status = os.stat(path)
        except OSError:
            self.missing.add(location)
            return None
        if not stat.S_ISREG(status.st_mode):
            raise self._error(tensor, f"names {printable(location)!r}, which is not a file")
        return path, status.st_size

    def _count(self, text: str, tensor: str) -> int:
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise self._error(tensor, "has external data with an invalid offset or length")
        return int(text)

    def _error(self, tensor: str, what: str) -> AnalysisError:
        return AnalysisError(f"{self._model}: tensor {printable(tensor)!r} {what}", _HINT)

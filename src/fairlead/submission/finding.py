"""Where a worker finds inputs on its machine: in the folder that it feeds from, or on the store's volume."""

import os

from fairlead.splitwork.task import LeasedInput
from fairlead.submission.collecting import digest_of


class FilesHere:
    """The files of the folder that the job is fed from."""

    def __init__(self, base: str) -> None:
        self._base = base

    def find(self, lease: LeasedInput) -> str | None:
        """Return the file with exactly this content; None: it must be fetched."""
        return _with_digest(os.path.join(self._base, lease.path), lease.digest)


class StoredFiles:
    """The files of the store's volume, for a worker beside it."""

    def __init__(self, data: str) -> None:
        self._data = data

    def find(self, lease: LeasedInput) -> str | None:
        """Return the file with exactly this content; None: it must be fetched."""
        return _with_digest(f"{self._data}{lease.where}", lease.digest) if lease.where else None


class NoFiles:
    """A machine that fetches every input."""

    def find(self, lease: LeasedInput) -> str | None:
        """Return None: it must be fetched."""
        del lease
        return None


def _with_digest(path: str, digest: str) -> str | None:
    return path if digest_of(path) == digest else None

"""StoreShelf: what was saved of unfinished inputs, as files of the store."""

import os
import threading

from fairlead.errors import StoreUnavailableError, TransferError
from fairlead.submission.client import JobsClient, NamedInput
from fairlead.submission.places import checkpoint_path
from fairlead.submission.reading import digested
from fairlead.submission.sources import InputFile


class StoreShelf:
    """Keeps what was saved in the store; several slots may use it at once."""

    def __init__(self, client: JobsClient, job: str) -> None:
        self._client = client
        self._job = job
        self._lock = threading.Lock()

    def fetch(self, digest: str, target: str) -> bool:
        """Write what was saved of an input into a file; False: nothing was."""
        place = checkpoint_path(self._job, digest)
        with self._lock:
            if not self._client.has(place):
                return False
            self._client.fetch(place.lstrip("/"), target)
        return True

    def publish(self, digest: str, file: str) -> None:
        """Keep what was saved of an input, as a whole."""
        named = digested(InputFile(os.path.basename(file), file))
        if not isinstance(named, NamedInput):
            raise TransferError(f"{file}: {named.reason}")
        with self._lock, open(file, "rb") as content:
            self._client.upload_file(checkpoint_path(self._job, digest), named, content)

    def forget(self, digest: str) -> None:
        """Remove what was saved of an input that has a result now."""
        with self._lock:
            try:
                self._client.remove(checkpoint_path(self._job, digest))
            except StoreUnavailableError:
                return  # it is as large as one input, and goes with the job

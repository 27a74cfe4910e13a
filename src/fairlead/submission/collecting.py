"""ResultCollector: fetches the results of a job into a folder as they are committed, each as a whole."""

import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.errors import JobError, StoreUnavailableError
from fairlead.outfile import check_writable
from fairlead.submission.client import JobsClient, StoreDoor
from fairlead.submission.places import result_path

_BLOCK: Final = 1 << 20
_PAUSE: Final = 0.5


class ResultCollector:
    """A thread that fetches; `finish` waits until it has everything that is committed."""

    def __init__(self, door: StoreDoor, job: str, folder: str, pause: float = _PAUSE) -> None:
        self._door = door
        self._job = job
        self._folder = folder
        self._pause = pause
        self._ended = threading.Event()
        self._last = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self.fetched = 0
        self.problem = ""
        """Why the store is not reached at the moment."""
        self.error: Exception | None = None
        """Why nothing more is fetched."""

    def start(self) -> None:
        """Begin; JobError where the folder cannot be written."""
        try:
            os.makedirs(self._folder, exist_ok=True)
            check_writable(os.path.join(self._folder, ".fairlead"))
        except OSError as error:
            raise JobError(f"{self._folder}: {error.strerror}", "choose another folder for --out") from None
        self._thread.start()

    def finish(self) -> None:
        """Fetch what is committed by now, and end."""
        self._last.set()
        self._thread.join()

    def stop(self) -> None:
        """End at once."""
        self._ended.set()
        self._thread.join()

    def _guarded(self) -> None:
        try:
            with self._door.client() as client:
                self._run(client)
        except Exception as error:  # noqa: BLE001 - whoever submits says it
            self.error = error

    def _run(self, client: JobsClient) -> None:
        after = 0
        while not self._ended.is_set():
            is_last = self._last.is_set()
            try:
                page = client.results(self._job, after)
                after = self._fetch_all(client, page.items, after)
            except StoreUnavailableError as error:
                self.problem = str(error)
                self._ended.wait(self._pause)
                continue
            self.problem = ""
            if page.is_last and after == page.after:
                if is_last:
                    return
                self._last.wait(self._pause)
            elif after != page.after:
                self._ended.wait(self._pause)  # a result that is committed is not yet under its name

    def _fetch_all(self, client: JobsClient, results: Sequence[Mapping[str, Any]], after: int) -> int:
        """Fetch results in order, up to one that is not yet under its name; return the number of the last."""
        for result in results:
            if self._ended.is_set() or not self._fetch(client, result):
                break
            after = int(result["number"])
            self.fetched += 1
        return after

    def _fetch(self, client: JobsClient, result: Mapping[str, Any]) -> bool:
        """Fetch one result; False: it is committed, and its file is still to come."""
        path, digest = str(result["path"]), str(result["result"])
        target, place = result_file(self._folder, path), result_path(self._job, path)
        if digest_of(target) == digest:
            return True
        if result.get("unplaced") and not client.has(place):
            return False
        os.makedirs(os.path.dirname(target), exist_ok=True)
        found = client.fetch(place.lstrip("/"), target)
        # Of a file that was named with two contents the later one has the name.
        return found == digest or not result.get("unplaced")


def result_file(folder: str, path: str) -> str:
    """Return where a result goes; JobError for a path that leads out of the folder."""
    root = os.path.abspath(folder)
    full = os.path.normpath(os.path.join(root, path))
    if not full.startswith(root.rstrip(os.sep) + os.sep):
        raise JobError(f"{path[:200]!r} is not below {folder}: is this a fairlead store?")
    return full


def digest_of(path: str) -> str | None:
    """Return the SHA-256 of a file; None: there is none."""
    digest = hashlib.sha256()
    with suppress(OSError), open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
        return digest.hexdigest()
    return None

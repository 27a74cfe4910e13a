"""WantedUploads: uploads the inputs that workers elsewhere will need, in the order of their asking."""

import os
import queue
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from fairlead.errors import JobError, StoreUnavailableError, TransferError
from fairlead.submission.client import JobsClient, NamedInput, StoreDoor
from fairlead.submission.places import input_path
from fairlead.submission.reading import digested
from fairlead.submission.sources import InputFile, UnusableInput

_WAIT: Final = 0.2
_RETRY: Final = 1.0
_TRIES: Final = 3
T = TypeVar("T")


class WantedUploads:
    """A thread that uploads."""

    def __init__(
        self,
        door: StoreDoor,
        job: str,
        base: str,
        ended: threading.Event,
    ) -> None:
        self._door = door
        self._job = job
        self._base = base
        self._ended = ended
        self._gone: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._wanted: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[NamedInput] = queue.SimpleQueue()
        self._pending: set[str] = set()
        self.files = 0
        self.bytes = 0
        self.problem = ""
        """Why the store is not reached at the moment."""

    def want(self, paths: Iterable[str]) -> None:
        """Note what is wanted; what waits already is not noted twice."""
        for path in paths:
            if path not in self._pending:
                self._pending.add(path)
                self._wanted.put(path)

    def take(self) -> tuple[list[NamedInput], list[str]]:
        """Return what was uploaded since the last call, and which files are gone."""
        return _drained(self._done), _drained(self._gone)

    def forget(self, paths: Iterable[str]) -> None:
        """Note that the coordinator knows of these: what it wants from now on, it wants again."""
        self._pending.difference_update(paths)

    def run(self) -> None:
        """Upload until the end is asked for."""
        with self._door.client() as client:
            while not self._ended.is_set():
                with suppress(queue.Empty):
                    self._upload(client, self._wanted.get(timeout=_WAIT))

    def _upload(self, client: JobsClient, path: str) -> None:
        for _ in range(_TRIES):  # its content may change while it is sent
            named = digested(InputFile(path, os.path.join(self._base, path)))
            if isinstance(named, UnusableInput):
                break
            try:
                self._send_when_possible(client, named)
            except (JobError, TransferError, OSError):
                continue
            return
        self._gone.put(path)

    def _send_when_possible(self, client: JobsClient, named: NamedInput) -> None:
        while not self._ended.is_set():
            try:
                self._send(client, os.path.join(self._base, named.path), named)
            except StoreUnavailableError as error:
                self.problem = str(error)
                self._ended.wait(_RETRY)
                continue
            self.problem = ""
            self._done.put(replace(named, is_stored=True))
            return

    def _send(self, client: JobsClient, file: str, named: NamedInput) -> None:
        with open(file, "rb") as content:
            client.upload_file(input_path(self._job, named.path), named, content)
        self.files += 1
        self.bytes += named.size


def _drained(items: "queue.SimpleQueue[T]") -> list[T]:
    taken = []
    with suppress(queue.Empty):
        while True:
            taken.append(items.get_nowait())
    return taken

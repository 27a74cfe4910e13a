"""WantedUploads: uploads the inputs that workers elsewhere will need, in the order of their asking."""

import os
import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from fairlead.errors import StoreUnavailableError
from fairlead.submission.client import JobsClient, NamedInput, StoreDoor
from fairlead.submission.places import input_path
from fairlead.submission.reading import digested
from fairlead.submission.sources import InputFile, UnusableInput

_WAIT: Final = 0.2
_RETRY: Final = 1.0


class WantedUploads:
    """A thread that uploads."""

    def __init__(
        self,
        door: StoreDoor,
        job: str,
        base: str,
        ended: threading.Event,
        lost: Callable[[UnusableInput], None],
    ) -> None:
        self._door = door
        self._job = job
        self._base = base
        self._ended = ended
        self._lost = lost
        self._wanted: queue.Queue[str] = queue.Queue()
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

    def run(self) -> None:
        """Upload until the end is asked for."""
        with self._door.client() as client:
            while not self._ended.is_set():
                with suppress(queue.Empty):
                    path = self._wanted.get(timeout=_WAIT)
                    self._upload(client, path)
                    self._pending.discard(path)

    def _upload(self, client: JobsClient, path: str) -> None:
        file = os.path.join(self._base, path)
        named = digested(InputFile(path, file))
        if isinstance(named, UnusableInput):
            self._lost(named)
            return
        while not self._ended.is_set():
            try:
                self._send(client, file, named)
            except StoreUnavailableError as error:
                self.problem = str(error)
                self._ended.wait(_RETRY)
                continue
            self.problem = ""
            return

    def _send(self, client: JobsClient, file: str, named: NamedInput) -> None:
        with open(file, "rb") as content:
            client.upload_file(input_path(self._job, named.path), named, content)
        self.files += 1
        self.bytes += named.size

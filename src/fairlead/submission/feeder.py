"""Feeder: names the inputs of a job to its coordinator, as many as it takes, and uploads those it wants.

However many inputs there are, a few hundred of them are in memory.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.errors import StoreUnavailableError
from fairlead.submission.client import JobsClient, NamedInput, StoreDoor
from fairlead.submission.reading import InputReader
from fairlead.submission.sources import Found, UnusableInput
from fairlead.submission.uploading import WantedUploads

_BATCH: Final = 256
_MOST_FAULTS: Final = 1000
"""Unusable inputs that are kept to be reported; more are counted."""
_PAUSE: Final = 0.5
"""Seconds between two questions while there is nothing to say."""


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """How far a feeder is."""

    named: int
    """Inputs that the coordinator knows."""
    unusable: int
    uploaded: int
    uploaded_bytes: int
    is_complete: bool
    """The coordinator knows that there will be no other inputs."""
    problem: str
    """Why the store is not reached at the moment."""


class Feeder:
    """Feeds one job; `start` returns at once, `stop` ends its threads."""

    def __init__(
        self, door: StoreDoor, job: str, base: str, found: "Iterable[Found | None]", pause: float = _PAUSE
    ) -> None:
        self._door = door
        self._job = job
        self._pause = pause
        self._ended = threading.Event()
        self._reader = InputReader(found, self._ended)
        self._uploads = WantedUploads(door, job, base, self._ended, self._refuse)
        self._named = 0
        self._unusable = 0
        self._is_complete = False
        self._problem = ""
        self.faults: deque[UnusableInput] = deque(maxlen=_MOST_FAULTS)
        """Inputs that no worker can take."""
        self.error: Exception | None = None
        """Why feeding has ended before its time."""
        works = (self._reader.run, self._feed, self._uploads.run)
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]

    @property
    def progress(self) -> FeedProgress:
        """How far it is now."""
        uploads = self._uploads
        problem = self._problem or uploads.problem
        return FeedProgress(
            self._named, self._unusable, uploads.files, uploads.bytes, self._is_complete, problem
        )

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; what the coordinator knows by then stays."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whoever submits says it
            self.error = self.error or error
            self._ended.set()

    def _feed(self) -> None:
        """Name inputs, and go on asking which ones are wanted until the end."""
        batch: list[NamedInput] = []
        room = _BATCH
        with self._door.client() as client:
            while not self._ended.is_set():
                batch += self._take(min(room, _BATCH) - len(batch))
                is_whole = self._reader.is_exhausted and len(batch) <= room
                said = self._say(client, batch[:room], is_whole)
                if said is not None:
                    del batch[:room]
                    room = said
                if said is None or not room or is_whole:
                    self._ended.wait(self._pause)

    def _take(self, most: int) -> list[NamedInput]:
        taken = self._reader.take(most) if most > 0 else []
        for each in taken:
            if isinstance(each, UnusableInput):
                self._refuse(each)
        return [each for each in taken if isinstance(each, NamedInput)]

    def _say(self, client: JobsClient, batch: list[NamedInput], is_whole: bool) -> int | None:
        """Name a batch; return how many more are taken now, None: the coordinator was not reached."""
        try:
            said = client.name_inputs(self._job, batch, complete=is_whole)
        except StoreUnavailableError as error:
            self._problem = str(error)
            return None
        self._problem = ""
        self._named += len(batch)
        self._is_complete = is_whole
        self._uploads.want(said.wanted)
        return said.room

    def _refuse(self, fault: UnusableInput) -> None:
        self._unusable += 1
        self.faults.append(fault)

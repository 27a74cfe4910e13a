"""Feeder: names the inputs of a job to its coordinator, as many as it takes, and uploads those it wants.

However many inputs there are, a few hundred of them are in memory.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.errors import JobError, StoreUnavailableError
from fairlead.submission.client import ENDED, JobsClient, NamedInput, Room, StoreDoor
from fairlead.submission.reading import InputReader
from fairlead.submission.sources import Found, UnusableInput
from fairlead.submission.uploading import WantedUploads

_BATCH: Final = 256
_MOST_FAULTS: Final = 1000
"""Unusable inputs that are kept to be reported; more are counted."""
_LAST_INPUT: Final = 2.0
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
        self._uploads = WantedUploads(door, job, base, self._ended)
        self._uploaded: list[NamedInput] = []
        self._gone: list[str] = []
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
        reading, *others = self._threads
        for thread in others:
            thread.join()
        reading.join(_LAST_INPUT)  # it may wait for a line that never comes

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
                    room = said.room
                    if said.is_over:
                        self._ended.set()
                if said is None or not room or (is_whole and not said.wanted):
                    self._ended.wait(self._pause)

    def _take(self, most: int) -> list[NamedInput]:
        taken = self._reader.take(most) if most > 0 else []
        for each in taken:
            if isinstance(each, UnusableInput):
                self._refuse(each)
        return [each for each in taken if isinstance(each, NamedInput)]

    def _say(self, client: JobsClient, batch: list[NamedInput], is_whole: bool) -> Room | None:
        """Name a batch, and what was uploaded; None: the coordinator was not reached."""
        uploaded, gone = self._uploads.take()
        self._uploaded += uploaded
        self._gone += gone
        inputs = [*self._uploaded, *batch]
        try:
            said = client.name_inputs(self._job, inputs, complete=is_whole, gone=self._gone)
        except StoreUnavailableError as error:
            self._problem = str(error)
            return None
        except JobError:
            if client.job(self._job).get("state") not in ENDED:
                raise
            said = Room(0, (), is_over=True)
        self._uploads.forget([*(each.path for each in self._uploaded), *self._gone])
        self._uploaded.clear()
        self._gone.clear()
        self._problem = ""
        self._named += len(batch)
        self._is_complete = is_whole
        self._uploads.want(said.wanted)
        return said

    def _refuse(self, fault: UnusableInput) -> None:
        self._unusable += 1
        self.faults.append(fault)

"""JobWork: this machine works on one job; JobWorkers: on all jobs of a session."""

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.device.connection import StoreConnection
from fairlead.device.place import DevicePlace
from fairlead.errors import FairleadError, StoreUnavailableError
from fairlead.executors.checkpoint import FolderShelf
from fairlead.splitwork.link import ConnectedStore, VolumeStage
from fairlead.splitwork.loop import SplitWork, WorkerProfile
from fairlead.splitwork.task import InputPlace, StoreLink
from fairlead.submission.along import gather_files
from fairlead.submission.client import ENDED, JobsClient, Json, StoreDoor
from fairlead.submission.executing import executors_of
from fairlead.submission.finding import FilesHere, NoFiles, StoredFiles
from fairlead.submission.places import checkpoints_folder
from fairlead.submission.request import JobRequest
from fairlead.submission.shelf import StoreShelf

_RETRY: Final = 1.0
_SAVING: Final = 25.0
"""Seconds that a program has to save itself when its machine stops: a pod has 30 in all."""
_MOST: Final = 8
"""Jobs at once."""
_REPLY_SECONDS: Final = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WorkSite:
    """A machine that works."""

    site: str
    """`device` or `pod`."""
    name: str
    folder: str
    """For the jobs' files; the machine's own."""
    slots: int
    data: str = ""
    """The folder with the files of the store, for a worker beside it; empty: they are fetched."""

    def wants(self, job: Json) -> bool:
        """Return whether this machine works on a job; one that it feeds has a worker of its own."""
        spec = job["spec"]
        only = {"device": "device", "server": "pod"}.get(str(spec.get("policy", "")), self.site)
        on = spec.get("on") or (self.site,)
        return self.site in on and only == self.site and spec.get("feeder") != self.name


class JobWork:
    """The work of this machine on one job, in a thread."""

    def __init__(
        self, door: StoreDoor, site: WorkSite, job: str, place: InputPlace, has: str, say: Say
    ) -> None:
        self._door = door
        self._site = site
        self._job = job
        self._place = place
        self._has = has
        self._say = say
        self._folder = os.path.join(site.folder, job)
        self._ended = threading.Event()
        self._work: SplitWork | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self.error: Exception | None = None
        """Why this machine does not work on the job."""

    @property
    def is_alive(self) -> bool:
        """Whether it works."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Save and give back what is unfinished, hand in what is finished, and end."""
        self.ask_to_stop()
        self._thread.join()

    def ask_to_stop(self) -> None:
        """Let it end, without waiting for that."""
        self._ended.set()
        if self._work is not None:
            self._work.stop()

    def _guarded(self) -> None:
        try:
            state = self._run()
        except Exception as error:  # noqa: BLE001 - whoever started it says it
            self.error = error
            return
        if state in ENDED:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> str:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        request = self._prepared()
        if request is None:
            return ""
        files, site = os.path.join(self._folder, "with"), self._site
        with self._door.client() as client:
            shelf = (
                FolderShelf(site.data + checkpoints_folder(self._job))
                if site.data
                else StoreShelf(client, self._job)
            )
            executors = executors_of(request, site.slots, self._folder, files, shelf, self._say)
            profile = WorkerProfile(site.name, site.site, self._has)
            work = SplitWork(profile, self._folder, self._link, self._place, executors, self._say)
            work.grace = _SAVING if request.checkpoint is not None else work.grace
            self._work = work
            if self._ended.is_set():  # it was stopped before there was anything to stop
                work.stop()
            return work.run()

    def _prepared(self) -> JobRequest | None:
        """Return the job, once all that it takes along is here; None: it was stopped before."""
        while not self._ended.is_set():
            try:
                with self._door.client() as client:
                    request = JobRequest.of(client.job(self._job)["spec"])
                    gather_files(request.files, os.path.join(self._folder, "with"), self._fetcher(client))
                return request
            except StoreUnavailableError:
                self._ended.wait(_RETRY)
        return None

    def _fetcher(self, client: JobsClient) -> Callable[[str, str], None]:
        def fetch(place: str, target: str) -> None:
            if self._site.data:
                shutil.copyfile(self._site.data + place, target)
            else:
                client.fetch(place.lstrip("/"), target)

        return fetch

    def _link(self) -> StoreLink:
        door = self._door
        connection = StoreConnection(door.url, door.fingerprint, "", _REPLY_SECONDS)
        link = ConnectedStore(connection, self._job, token=lambda: door.tokens.current()[0])
        return VolumeStage(link, self._site.data, self._job) if self._site.data else link


class JobWorkers:
    """The work of this machine on all jobs of a session; `look` starts it on those that are new."""

    def __init__(self, door: StoreDoor, site: WorkSite, say: Say) -> None:
        self._door = door
        self._site = site
        self._say = say
        self._works: dict[str, JobWork] = {}
        self._refused: set[str] = set()
        self.problem = ""
        """Why the store is not reached at the moment."""

    def look(self) -> bool:
        """Look for jobs; True: there is none to work on."""
        try:
            with self._door.client() as client:
                found = [each for each in client.jobs("running") if self._site.wants(each)]
        except StoreUnavailableError as error:
            self.problem = str(error)
            return False
        self.problem = ""
        self._reap()
        waiting = [str(each["job"]) for each in reversed(found) if each["job"] not in self._refused]
        for job in waiting:
            if job not in self._works and len(self._works) < _MOST:
                self._begin(job)
        return not waiting and not self._works

    def stop(self) -> None:
        """End the work on all jobs."""
        for work in self._works.values():
            work.ask_to_stop()
        for work in self._works.values():
            work.stop()

    def _begin(self, job: str) -> None:
        place = StoredFiles(self._site.data) if self._site.data else NoFiles()
        work = JobWork(self._door, self._site, job, place, "stored", lambda line: self._say(f"{job}: {line}"))
        self._works[job] = work
        self._say(f"{job}: begins")
        work.start()

    def _reap(self) -> None:
        for job, work in list(self._works.items()):
            if work.is_alive:
                continue
            del self._works[job]
            if work.error is not None:
                self._refused.add(job)
                hint = work.error.hint if isinstance(work.error, FairleadError) else ""
                self._say(f"{job}: not worked on here: {work.error}{f'; {hint}' if hint else ''}")
            else:
                self._say(f"{job}: ended")


def device_work(place: DevicePlace, door: StoreDoor, job: str, base: str, slots: int, say: Say) -> JobWork:
    """Return the work of a device on the job that it feeds: it has the inputs."""
    site = WorkSite("device", place.name, os.path.join(place.folder, "jobs"), slots)
    return JobWork(door, site, job, FilesHere(base), "local", say)

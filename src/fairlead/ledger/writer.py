"""RecordWriter: the records and private files of one user, written so that no reader sees half of one.

Each record has a spare: a file of the same size, written in advance, in the private folder. A record is
replaced by writing its successor over the spare and renaming the spare to the record: on a full disk that
needs no space. The record of a job that has not ended is replaced only once the next spare is there too, so
that the end of every job can be recorded. A record that has ended needs no spare.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fairlead.errors import LedgerError
from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.ledger.files import LedgerFiles
from fairlead.ledger.place import StateDirectory
from fairlead.ledger.reader import COUNTER, LARGEST_RECORD
from fairlead.ledger.record import JOBS
from fairlead.ledger.spec import SPECS, JobSpec

PUBLIC: Final = 0o644
PRIVATE: Final = 0o600
BLOCK: Final = 4096
"""Spares are multiples of this: the usual block of a file system."""
SLACK: Final = 2048
"""How much longer than its predecessor a record can be and still fit into its spare."""
_SUFFIXES: Final = ("spec", "ready", "started", "cancel", "spare", "next")
"""The private files of a job that the ledger makes and removes."""
_FLUSHED: Final = ("spec", "ready")
"""Those of a waiting submit that must survive a power failure."""
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


class RecordWriter:
    """Writes the records and the private files of one user."""

    def __init__(self, place: StateDirectory, files: LedgerFiles) -> None:
        self._place = place
        self._files = files

    def record_path(self, job_id: str) -> str:
        """Return the path of a job's record."""
        return os.path.join(self._place.jobs, f"{job_id}.json")

    def private_path(self, job_id: str, suffix: str) -> str:
        """Return the path of a private file of a job."""
        return os.path.join(self._place.private, f"{job_id}.{suffix}")

    def count(self, number: int) -> None:
        """Note the last number: in place, and always as long, so that a full disk has room for it."""
        with self._failing(path := os.path.join(self._place.own, COUNTER)):
            self._store(path, PUBLIC, b"%020d\n" % number)

    def add(self, job: LocalJob, spec: JobSpec) -> None:
        """Write the private files of a new job, then its record; `flush` has the disk store them."""
        with self._failing(self.record_path(job.id)):
            try:
                self.remove_private(job.id)  # of an earlier job of this id, if its removal was interrupted
                self._add_private(job, spec)
                with self._writing(job.id):
                    self._replace(job, lasting=False)
            except BaseException:
                self._files.unlink(self.record_path(job.id))
                self.remove_private(job.id)
                raise

    def _add_private(self, job: LocalJob, spec: JobSpec) -> None:
        self._store(self.private_path(job.id, "spec"), PRIVATE, SPECS.encode(spec).encode())
        self._store(self.private_path(job.id, "ready"), PRIVATE, b"")

    def flush(self, jobs: Iterable[LocalJob]) -> None:
        """Have the disk store new jobs that must survive a power failure; some may have started by now.

        The disk stores many files at once in little more time than one.
        """
        if not (lasting := [job for job in jobs if _is_lasting(job)]):
            return
        for job in lasting:
            for path in (
                *(self.private_path(job.id, suffix) for suffix in _FLUSHED),
                self.record_path(job.id),
            ):
                with self._failing(path), suppress(FileNotFoundError):
                    self._sync(path, os.O_NOFOLLOW)
        for folder in (self._place.private, self._place.jobs):
            with self._failing(folder):
                self._sync(folder, os.O_DIRECTORY)

    def write(self, job: LocalJob) -> None:
        """Replace the record of a job."""
        with self._failing(self.record_path(job.id)), self._writing(job.id):
            self._replace(job, lasting=_is_lasting(job))

    def remove(self, job_id: str) -> None:
        """Remove the record of a job, then its private files; there may be none."""
        with self._failing(path := self.record_path(job_id)):
            self._files.unlink(path)
            self.remove_private(job_id)

    def remove_private(self, job_id: str) -> None:
        """Remove the private files of a job that the ledger has made."""
        for suffix in _SUFFIXES:
            self._files.unlink(self.private_path(job_id, suffix))

    def sweep(self) -> None:
        """Remove private files of jobs without a record: an addition or removal was interrupted."""
        with self._failing(self._place.private):
            recorded = {name.removesuffix(".json") for name in os.listdir(self._place.jobs)}
            for name in os.listdir(self._place.private):
                job_id, _, suffix = name.partition(".")
                if job_id.isdecimal() and suffix in _SUFFIXES and job_id not in recorded:
                    self._files.unlink(os.path.join(self._place.private, name))

    def take_token(self, job_id: str) -> bool:
        """Rename the start token of a job; True exactly once."""
        ready = self.private_path(job_id, "ready")
        with self._failing(ready):
            try:
                self._files.rename(ready, self.private_path(job_id, "started"))
            except FileNotFoundError:
                return False
            return True

    def mark(self, job_id: str) -> None:
        """Mark a job to be cancelled."""
        with self._failing(path := self.private_path(job_id, "cancel")):
            self._store(path, PRIVATE, b"")

    def _replace(self, job: LocalJob, *, lasting: bool) -> None:
        data = _encoded(job)
        spare, successor = self.private_path(job.id, "spare"), self.private_path(job.id, "next")
        if not os.path.exists(spare) and os.path.exists(successor):
            self._files.rename(successor, spare)  # the last writer was killed before this step
        if not job.state.ended:
            self._store(successor, PUBLIC, b" " * _blocks(len(data) + SLACK))
        self._store(spare, PUBLIC, data, lasting)
        self._files.rename(spare, self.record_path(job.id))
        if lasting:
            self._sync(self._place.jobs, os.O_DIRECTORY)
        if not job.state.ended:
            self._files.rename(successor, spare)

    def _store(self, path: str, mode: int, data: bytes, lasting: bool = False) -> None:
        """Write a file from its start; what the file had beyond that becomes spaces."""
        file = self._files.create(path, mode)
        try:
            self._files.write(file, data.ljust(os.fstat(file).st_size))
            if lasting:
                self._files.fsync(file)
        finally:
            os.close(file)

    def _sync(self, path: str, flags: int) -> None:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
        try:
            self._files.fsync(file)
        finally:
            os.close(file)

    @contextmanager
    def _writing(self, job_id: str) -> Iterator[None]:
        """Keep other processes of this user from writing the same record, hence the same spare."""
        try:
            spec = os.open(self.private_path(job_id, "spec"), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _unknown(job_id) from None
        try:
            fcntl.flock(spec, fcntl.LOCK_EX)
            if not os.fstat(spec).st_nlink:
                raise _unknown(job_id)  # another process has archived it
            yield
        finally:
            os.close(spec)

    @contextmanager
    def _failing(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _NO_SPACE:
                hint = (
                    "free some space there: until then no job starts, and the end of jobs is still recorded"
                )
            else:
                hint = "check the permissions of the directory and the state of its disk"
            raise LedgerError(f"{path}: {error.strerror}: the job cannot be recorded", hint) from error


def _encoded(job: LocalJob) -> bytes:
    text = JOBS.encode(job)
    if len(text) > LARGEST_RECORD - BLOCK:
        raise LedgerError(f"job {job.id}: its record has {len(text)} bytes", "shorten its lists")
    try:
        JOBS.decode(text)
    except ValueError as error:  # every reader would leave it out
        raise LedgerError(
            f"job {job.id}: its record could not be read: {error}", "report this as a fault"
        ) from None
    return text.encode()


def _unknown(job_id: str) -> LedgerError:
    return LedgerError(f"job {job_id} is not recorded here", "fairlead ps -a lists the jobs of this machine")


def _is_lasting(job: LocalJob) -> bool:
    """Return whether the record must survive a power failure: jobs but waiting submits end with the boot."""
    return job.kind is JobKind.SUBMIT and job.state is LocalState.QUEUED


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK

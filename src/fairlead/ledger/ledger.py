"""JobLedger: every job of this machine, and the records of its user."""

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from fairlead.errors import LedgerError
from fairlead.job import LocalJob
from fairlead.ledger.files import LedgerFiles
from fairlead.ledger.inspector import JobInspector
from fairlead.ledger.liveness import boot_id
from fairlead.ledger.lock import DirectoryLock
from fairlead.ledger.place import StateDirectory
from fairlead.ledger.reader import MOST_RECORDS, RecordReader
from fairlead.ledger.record import MOST_NUMBER
from fairlead.ledger.spec import OUTPUT_SUFFIX, SPECS, JobSpec
from fairlead.ledger.users import user_name
from fairlead.ledger.watch import LedgerWatch
from fairlead.ledger.writer import RecordWriter

_LARGEST_SPEC: Final = 16 * 1024 * 1024
"""The kernel takes a few mebibytes of arguments and environment; JSON makes them longer."""
_SWEEP: Final = 16
"""Every so often an addition removes what interrupted ones have left."""


class JobLedger:
    """Every job of this machine; the records of one user can be written, by that user alone."""

    def __init__(self, place: StateDirectory, root: str = "/", files: LedgerFiles | None = None) -> None:
        self.place = place
        self.root = root
        """Below which /proc is read."""
        self._lock = DirectoryLock(place.path, root)
        self._reader = RecordReader(place.path, place.uid)
        self._inspector = JobInspector(root, self._is_unstarted, self._reader.read_again)
        self._writer = RecordWriter(place, files or LedgerFiles())

    def locked(self, waiting: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Hold the lock of the state directory; after a second, `waiting` gets a line about its holder."""
        return self._lock.hold(waiting)

    def release_inherited_lock(self) -> None:
        """Close this process's copy of the lock that its parent held when it forked.

        Until then, or until it ends or executes a program, a forked process keeps the lock.
        """
        self._lock.release_copy()

    def jobs(self) -> tuple[LocalJob, ...]:
        """Return the jobs of every user, in the order of their numbers, as they are: the dead have ended."""
        return self._inspector.judged(self._reader.read())

    def own_jobs(self) -> tuple[LocalJob, ...]:
        """Return the jobs of this user, likewise."""
        return self._inspector.judged(self._reader.read_own())

    def skipped(self) -> tuple[str, ...]:
        """Return which records the last reading left out, and why."""
        return self._reader.problems()

    def add(self, job: LocalJob, spec: JobSpec) -> LocalJob:
        """Record a new job of this user, under the lock, and return it with its id, number and owner.

        A submit is queued for good once `flush` has returned.
        """
        self._check_own()
        if not self._lock.held:
            raise LedgerError("a job was added without the lock", "report this as a fault")
        taken, last = self._reader.numbers()
        number = last + 1
        while number in taken:  # numbers that are too large to count on from
            number += 1
        if number > MOST_NUMBER or len(os.listdir(self.place.jobs)) >= MOST_RECORDS:
            raise LedgerError(
                f"{self.place.jobs}: it has {MOST_RECORDS} jobs, or no number is left",
                "wait until some have ended",
            )
        self._writer.count(number)
        if number % _SWEEP == 0:
            self._writer.sweep()
        uid = self.place.uid
        added = replace(
            job, id=str(number), number=number, uid=uid, user=user_name(uid), boot=boot_id(self.root)
        )
        if spec.output.endswith("/"):
            spec = replace(spec, output=f"{spec.output}{number}{OUTPUT_SUFFIX}")
        self._writer.add(added, spec)
        return added

    def flush(self, jobs: Iterable[LocalJob]) -> None:
        """Have the disk store added jobs: those of submits survive a power failure then. It needs no lock."""
        self._writer.flush(jobs)

    def write(self, job: LocalJob) -> None:
        """Replace the record of a job of this user.

        On a full disk the end of a job can be written, and any other record is refused by a LedgerError.
        """
        self._check_own()
        self._writer.write(replace(job, boot=boot_id(self.root)))

    def remove(self, job_id: str) -> None:
        """Remove the record and the private files of a job of this user; there may be none."""
        self._check_own()
        self._writer.remove(job_id)

    def spec(self, job_id: str) -> JobSpec:
        """Return how the command of a job of this user is run."""
        path = self._writer.private_path(job_id, "spec")
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(file, "rb") as stream:
                status = os.fstat(file)
                if status.st_uid != self.place.uid or status.st_mode & 0o077:
                    # The owner of the state directory could put one there, and it names a command to run.
                    raise PermissionError(errno.EPERM, "another user may have written it")
                return SPECS.decode(stream.read(_LARGEST_SPEC).decode("utf-8"))
        except OSError as error:
            raise LedgerError(f"{path}: {error.strerror}", "the job may have ended: fairlead ps -a") from None
        except ValueError as error:
            raise LedgerError(f"{path}: {error}", "submit the job again") from None

    def take_start_token(self, job_id: str) -> bool:
        """Return True exactly once for a job: then its command may start."""
        self._check_own()
        return self._writer.take_token(job_id)

    def was_started(self, job_id: str) -> bool:
        """Return whether the start token of a job of this user is taken; a missing token is taken."""
        return not os.path.exists(self._writer.private_path(job_id, "ready"))

    def mark_cancelled(self, job_id: str) -> None:
        """Mark a job of this user to be cancelled; its runner or supervisor acts on the mark."""
        self._check_own()
        self._writer.mark(job_id)

    def is_cancelled(self, job_id: str) -> bool:
        """Return whether a job of this user is marked to be cancelled."""
        return os.path.exists(self._writer.private_path(job_id, "cancel"))

    def watch(self) -> LedgerWatch:
        """Return a watch over the records of every user, and over the marks of this user."""
        return LedgerWatch(self.place)

    def _check_own(self) -> None:
        if self.place.uid != os.geteuid():
            raise LedgerError(
                f"{self.place.own}: only user {self.place.uid} writes there", "run the command as that user"
            )

    def _is_unstarted(self, job: LocalJob) -> bool:
        return job.uid == self.place.uid and not self.was_started(job.id)

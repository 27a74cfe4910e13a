"""RecordReader: the records of every user, read with care, and only those that have changed."""

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from fairlead.errors import LedgerError, NewerFormatError
from fairlead.job import LocalJob
from fairlead.ledger.place import user_folder
from fairlead.ledger.record import MOST_NUMBER, owned_format, printable
from fairlead.ledger.users import user_name

LARGEST_RECORD: Final = 64 * 1024
MOST_RECORDS: Final = 4096
"""Of one user."""
MOST_USERS: Final = 256
MOST_FOLDERS: Final = 4096
"""Entries of the state directory that are looked at."""
MOST_PROBLEMS: Final = 100
_LONGEST_PROBLEM: Final = 1000
PLAUSIBLE_NUMBER: Final = 10**9
"""A new job does not count on from a larger number of another user: that could use up all numbers."""
COUNTER: Final = "counter"
_LONGEST_COUNTER: Final = 32
_FOLDER: Final = re.compile(r"u(0|[1-9][0-9]{0,9})")
_RECORD: Final = re.compile(r"([1-9][0-9]{0,11})\.json")
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_COARSE: Final = 50_000_000
"""Nanoseconds within which two writes may get the same time stamp: several ticks of the kernel."""

_Stamp = tuple[int, int, int]


class _Entry(NamedTuple):
    """What one file held when it was read last."""

    stamp: _Stamp
    certain: bool
    """A later write has another stamp."""
    job: LocalJob | None
    problem: str


class RecordReader:
    """Reads the records below a state directory; a record that has not changed is read once."""

    def __init__(self, path: str, own: int) -> None:
        self._path = path
        self._own = own
        self._entries: dict[int, dict[str, _Entry]] = {}
        self._problems: list[str] = []

    def read(self) -> list[LocalJob]:
        """Return the jobs of all users as they are recorded, in the order of their numbers."""
        self._problems = []
        uids = self._users()
        jobs = [job for uid in uids for job in self._read_user(uid)]
        self._entries = {uid: self._entries[uid] for uid in uids}
        jobs.sort(key=lambda job: job.number)
        return self._with_unique_ids(jobs)

    def read_own(self) -> list[LocalJob]:
        """Return the jobs of this user, likewise."""
        self._problems = []
        return sorted(self._read_user(self._own), key=lambda job: job.number)

    def read_again(self, job: LocalJob) -> LocalJob | None:
        """Return a job as its record says now; None: the record is gone, or cannot be read any more."""
        with self._folder(job.uid) as (_, folder):
            entry = None if folder is None else _entry(folder, f"{job.number}.json", job.uid, None)
        return None if entry is None or entry.job is None else replace(entry.job, id=job.id)

    def problems(self) -> tuple[str, ...]:
        """Return what the last reading left out, and why."""
        return tuple(self._problems)

    def numbers(self) -> tuple[set[int], int]:
        """Return the numbers of all records, and the largest that a new job counts on from."""
        taken: set[int] = set()
        last = 0
        for uid in self._users():
            with self._folder(uid) as (folder, jobs):
                if jobs is None or folder is None:
                    continue
                found = [_RECORD.fullmatch(name) for name in self._names(uid, jobs)]
                numbers = {int(match[1]) for match in found if match}
                taken |= numbers
                most = MOST_NUMBER if uid == self._own else PLAUSIBLE_NUMBER
                counted = [number for number in (*numbers, _counter(folder)) if number <= most]
                last = max([last, *counted])
        return taken, last

    def _skip(self, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(printable(problem, _LONGEST_PROBLEM))

    def _users(self) -> list[int]:
        try:
            with os.scandir(self._path) as entries:
                names = [entry.name for entry in islice(entries, MOST_FOLDERS + 1)]
        except OSError as error:
            raise LedgerError(
                f"{self._path}: {error.strerror}: the jobs of this machine cannot be read",
                "check that the directory exists and that you can read it",
            ) from None
        if len(names) > MOST_FOLDERS:
            self._skip(f"{self._path}: it has more than {MOST_FOLDERS} entries; the others are not read")
        uids = {int(found[1]) for name in names if (found := _FOLDER.fullmatch(name))}
        others = sorted(uid for uid in uids if uid != self._own and self._is_of(uid))
        if len(others) >= MOST_USERS:
            self._skip(f"{self._path}: more than {MOST_USERS} users have jobs; the others are not read")
        return [self._own, *others[: MOST_USERS - 1]]

    def _is_of(self, uid: int) -> bool:
        """Return whether a folder is its user's own; no others count, or one user could fill the list."""
        where = os.path.join(self._path, user_folder(uid))
        try:
            owner = os.lstat(where).st_uid
        except OSError:
            return False
        if owner != uid:
            self._skip(f"{where}: it belongs to user {owner}; its jobs are not read")
        return owner == uid

    @contextmanager
    def _folder(self, uid: int) -> Iterator[tuple[int | None, int | None]]:
        """Open a user's folder and the folder of its records; None: not there, or another user's."""
        where = os.path.join(self._path, user_folder(uid))
        opened: list[int] = []
        try:
            opened.append(os.open(where, _DIRECTORY))
            opened.append(os.open("jobs", _DIRECTORY, dir_fd=opened[0]))
            if any(os.fstat(file).st_uid != uid for file in opened):
                raise PermissionError(None, "it belongs to another user")
        except OSError as error:
            self._skip(f"{where}: {error.strerror}; its jobs are not read")
            yield None, None
        else:
            yield opened[0], opened[1]
        finally:
            for file in opened:
                os.close(file)

    def _names(self, uid: int, jobs: int) -> list[str]:
        with os.scandir(jobs) as entries:
            names = [entry.name for entry in islice(entries, MOST_RECORDS + 1)]
        if len(names) > MOST_RECORDS:
            where = os.path.join(self._path, user_folder(uid), "jobs")
            self._skip(f"{where}: it has more than {MOST_RECORDS} entries; the others are not read")
        return names[:MOST_RECORDS]

    def _read_user(self, uid: int) -> list[LocalJob]:
        before = self._entries.get(uid, {})
        entries: dict[str, _Entry] = {}
        with self._folder(uid) as (_, folder):
            if folder is not None:
                for name in self._names(uid, folder):
                    if entry := _entry(folder, name, uid, before.get(name)):
                        entries[name] = entry
        self._entries[uid] = entries
        jobs = []
        for name, entry in entries.items():
            if entry.job is not None:
                jobs.append(entry.job)
            else:
                self._skip(f"{os.path.join(self._path, user_folder(uid), 'jobs', name)}: {entry.problem}")
        return jobs

    def _with_unique_ids(self, jobs: list[LocalJob]) -> list[LocalJob]:
        """Lengthen the id of a job that copies the id of another: both jobs count."""
        if len({job.id for job in jobs}) == len(jobs):
            return jobs
        jobs.sort(key=lambda job: (job.number, job.uid != self._own, job.uid))
        seen: set[str] = set()
        unique = []
        for job in jobs:
            if job.id in seen:
                self._skip(f"job {job.id} of {job.user}: another job has this id; it is listed with its uid")
                unique.append(replace(job, id=f"{job.id}@{job.uid}"))
            else:
                unique.append(job)
            seen.add(job.id)
        return unique


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _stamp_of(folder: int, name: str) -> _Stamp | None:
    try:
        return _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None


def _entry(folder: int, name: str, uid: int, before: _Entry | None) -> _Entry | None:
    """Return what a file holds; None: it is gone, or no record."""
    if before is not None and before.certain and _stamp_of(folder, name) == before.stamp:
        return before
    if not name.endswith(".json"):
        return None
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        return None  # archived since the folder was listed
    except OSError as error:
        return _Entry((0, 0, 0), False, None, f"it cannot be opened: {error.strerror}")
    try:
        now = time.time_ns()
        status = os.fstat(file)
        stamp = _stamp(status)
        certain = status.st_mtime_ns < now - _COARSE
        if problem := _refused(status, uid):
            return _Entry(stamp, certain, None, problem)
        return _decoded(stamp, certain, os.read(file, LARGEST_RECORD + 1), name, uid)
    except OSError as error:
        return _Entry((0, 0, 0), False, None, f"it cannot be read: {error.strerror}")
    finally:
        os.close(file)


def _refused(status: os.stat_result, uid: int) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if status.st_uid != uid:
        return f"it belongs to user {status.st_uid}"
    return f"larger than {LARGEST_RECORD} bytes" if status.st_size > LARGEST_RECORD else ""


def _decoded(stamp: _Stamp, certain: bool, data: bytes, name: str, uid: int) -> _Entry:
    try:
        job = owned_format(uid, user_name(uid)).decode(data.decode("utf-8"))
    except NewerFormatError as error:
        return _Entry(stamp, certain, None, f"{error}; what the job holds is not counted")
    except ValueError as error:
        return _Entry(stamp, certain, None, str(error)[:200])
    if name != f"{job.id}.json":
        return _Entry(stamp, certain, None, f"it is the record of job {job.id}")
    return _Entry(stamp, certain, job, "")


def _counter(folder: int) -> int:
    """Return the counter of a user; 0 without one that can be read."""
    try:
        file = os.open(COUNTER, _FILE, dir_fd=folder)
    except OSError:
        return 0
    try:
        text = os.read(file, _LONGEST_COUNTER) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return 0
    finally:
        os.close(file)
    digits = text.strip()
    return int(digits) if digits.isdigit() else 0
